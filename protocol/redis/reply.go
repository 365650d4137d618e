package redis

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/squallhq/squall/protocol"
)

const (
	// maxReply bounds what a server can make the client keep.
	maxReply = 16 << 20
	// maxNested is how deep a client follows a reply.
	maxNested = 32
)

// replyError is an error that the server answered.
type replyError string

func (e replyError) Error() string { return string(e) }

// code is the first word of the error.
func (e replyError) code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// reader reads replies. Each has a budget of bytes.
type reader struct {
	*bufio.Reader
	left int
}

// read returns a reply as a JSON value. A replyError is a reply too, wherever it stands.
func (r *reader) read() (any, error) {
	r.left = maxReply
	return r.value(0)
}

func (r *reader) value(depth int) (any, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	if line == "" || depth > maxNested {
		return nil, errWord([]byte(line))
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+', '(', ',':
		// A number that need not fit or be finite stays text.
		return scalar(kind, text), nil
	case '-':
		return replyError(text), nil
	case ':':
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errWord([]byte(line))
		}
		return n, nil
	case '_':
		return nil, nil
	case '#':
		return text == "t", nil
	case '$', '=', '!':
		return r.text(kind, text)
	case '*', '~', '>', '%', '|':
		return r.aggregate(kind, text, depth)
	}
	return nil, errWord([]byte(line))
}

func scalar(kind byte, text string) any {
	if kind == ',' {
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
	return text
}

// line reads a line.
func (r *reader) line() (string, error) {
	var b strings.Builder
	for {
		part, err := r.ReadSlice('\n')
		if r.left -= len(part); r.left < 0 {
			return "", errLong{}
		}
		b.Write(part)
		if err == nil {
			return strings.TrimSuffix(strings.TrimSuffix(b.String(), "\n"), "\r"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
}

// errLong is a constant value: a package has no variable that could change.
type errLong struct{}

func (errLong) Error() string { return "the reply is longer than 16 MiB" }

// text reads a string of a given length.
func (r *reader) text(kind byte, length string) (any, error) {
	n, err := number([]byte(length), math.MaxInt32)
	switch {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, nil
	}
	if r.left -= int(n) + 2; r.left < 0 {
		return nil, errLong{}
	}
	data := make([]byte, n+2)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	text := string(data[:n])
	switch {
	case kind == '!':
		return replyError(text), nil
	case kind == '=' && len(text) > 4:
		// Three letters and a colon say what kind of text it is.
		return text[4:], nil
	}
	return text, nil
}

// aggregate reads an array, a set or a map.
func (r *reader) aggregate(kind byte, length string, depth int) (any, error) {
	n, err := number([]byte(length), math.MaxInt32)
	switch {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, nil
	}
	pairs := kind == '%' || kind == '|'
	if pairs {
		n *= 2
	}
	list := []any{}
	for range n {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if e, failed := v.(replyError); failed {
			v = "-" + string(e)
		}
		list = append(list, v)
	}
	if kind == '|' {
		// What the attributes are about follows.
		return r.value(depth + 1)
	}
	if !pairs {
		return list, nil
	}
	m := map[string]any{}
	for pair := range slices.Chunk(list, 2) {
		m[fmt.Sprint(pair[0])] = pair[1]
	}
	return m, nil
}

// body is a value as text.
func body(v any) (text string, cut bool) {
	switch v := v.(type) {
	case nil:
	case string:
		text = v
	case int64:
		text = strconv.FormatInt(v, 10)
	default:
		// Strings, numbers, lists and maps can always be written.
		out, err := json.Marshal(v)
		if err == nil {
			text = string(out)
		}
	}
	if len(text) > protocol.BodyLimit {
		return text[:protocol.BodyLimit], true
	}
	return text, false
}
