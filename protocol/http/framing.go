package http

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// maxHead bounds a message's head.
const maxHead = 1 << 20

// body is how a message's end is found.
type body uint8

const (
	none body = iota
	counted
	chunked
	untilEnd
)

// stream cuts one way of a connection into frames.
type stream struct {
	// buf has what is not out yet: an incomplete head or line.
	buf  []byte
	body body
	// left are the bytes until the end of the body or of the chunk.
	left int64
	// chunk says what is expected within a chunked body.
	chunk chunkState
	// within says that a message's head is out, and its end is not.
	within bool
	// begun says that a message was seen, over that what follows is not HTTP.
	begun, over bool
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkData
	chunkEnd // the line end after the data
	trailers
)

// rest returns what is kept together with p, for a stream that is given up.
func (s *stream) rest(p []byte) []byte {
	all := append(s.buf, p...)
	s.buf = nil
	return all
}

// frames returns what is complete with p. head reads a message's head; the message under way stands in current.
func (s *stream) frames(p []byte, head func([]byte) (*protocol.Message, body, int64, error), current **protocol.Message) ([]protocol.Frame, error) {
	s.buf = append(s.buf, p...)
	data := s.buf
	var out []protocol.Frame
	fail := func(err error) ([]protocol.Frame, error) {
		s.buf = nil
		return append(out, protocol.Frame{Bytes: data}), err
	}
	for len(data) > 0 && !s.over {
		if !s.within {
			n, err := s.headEnd(data)
			if err != nil {
				return fail(err)
			}
			if n == 0 {
				break
			}
			m, kind, length, err := head(data[:n])
			if err != nil {
				return fail(err)
			}
			s.begun = true
			s.body, s.left, s.chunk = kind, length, chunkSize
			last := kind == none || kind == counted && length == 0
			s.within = !last
			*current = m
			out = append(out, protocol.Frame{Bytes: data[:n], Message: m, Last: last})
			data = data[n:]
			if last {
				*current = nil
			}
			continue
		}
		n, last, err := s.bodyPart(data)
		if err != nil {
			return fail(err)
		}
		if n == 0 {
			break
		}
		out = append(out, protocol.Frame{Bytes: data[:n], Message: *current, Last: last})
		data = data[n:]
		if last {
			s.within, *current = false, nil
		}
	}
	s.keep(data)
	return out, nil
}

// keep leaves what is not out for the next time. Frames that are out point into the old buffer.
func (s *stream) keep(data []byte) {
	if len(data) == 0 {
		s.buf = nil
		return
	}
	if len(data) != len(s.buf) {
		s.buf = bytes.Clone(data)
	}
}

// headEnd returns the length of the head at the beginning of data, 0 where it is not complete. Line ends before
// it belong to it.
func (s *stream) headEnd(data []byte) (int, error) {
	if !s.begun {
		if protocol.Encrypted(data) {
			return 0, protocol.ErrEncrypted
		}
		if why := stranger(data); why != nil {
			return 0, why
		}
	}
	lead := 0
	for lead < len(data) && (data[lead] == '\r' || data[lead] == '\n') {
		lead++
	}
	for at := lead; ; {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			break
		}
		line := bytes.TrimSuffix(data[at:at+i], []byte("\r"))
		at += i + 1
		if len(line) == 0 {
			return at, nil
		}
	}
	if len(data) > maxHead {
		return 0, fmt.Errorf("a head is longer than %d KiB", maxHead>>10)
	}
	return 0, nil
}

// stranger tells early that a stream is not HTTP/1, so that bytes do not wait for the end of a head that never comes.
func stranger(data []byte) error {
	if bytes.HasPrefix(data, []byte("PRI * HTTP/2")) {
		return errors.New("the connection is HTTP/2")
	}
	if data[0] == 0x16 && len(data) < 3 {
		return nil // perhaps TLS
	}
	for _, b := range data[:min(len(data), 16)] {
		if b < ' ' && b != '\r' && b != '\n' && b != '\t' {
			return errors.New("the connection is not HTTP")
		}
	}
	return nil
}

// bodyPart returns how much of data belongs to the body, and whether it ends there; 0 is for a line that is not complete.
func (s *stream) bodyPart(data []byte) (n int, last bool, err error) {
	switch s.body {
	case counted:
		n = int(min(int64(len(data)), s.left))
		s.left -= int64(n)
		return n, s.left == 0, nil
	case untilEnd:
		return len(data), false, nil
	}
	for n < len(data) {
		m, done, err := s.chunkPart(data[n:])
		if err != nil || m == 0 {
			return n, false, err
		}
		n += m
		if done {
			return n, true, nil
		}
	}
	return n, false, nil
}

// chunkPart takes the next piece of a chunked body.
func (s *stream) chunkPart(data []byte) (n int, last bool, err error) {
	if s.chunk == chunkData {
		n = int(min(int64(len(data)), s.left))
		if s.left -= int64(n); s.left == 0 {
			s.chunk = chunkEnd
		}
		return n, false, nil
	}
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		if len(data) > maxHead {
			return 0, false, errors.New("a line within a chunked body is too long")
		}
		return 0, false, nil
	}
	line := strings.TrimSuffix(string(data[:i]), "\r")
	switch s.chunk {
	case chunkEnd:
		if line != "" {
			return 0, false, errors.New("a chunk is longer than it says")
		}
		s.chunk = chunkSize
	case trailers:
		return i + 1, line == "", nil
	default:
		size, _, _ := strings.Cut(line, ";")
		s.left, err = strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		if err != nil || s.left < 0 {
			return 0, false, fmt.Errorf("not the size of a chunk: %q", short(line))
		}
		s.chunk = chunkData
		if s.left == 0 {
			s.chunk = trailers
		}
	}
	return i + 1, false, nil
}

// fields are the fields of a head, by lower-case name.
type fields map[string][]string

func (f fields) get(name string) string { return strings.Join(f[name], ", ") }

// has reports whether a list contains a word.
func (f fields) has(name, word string) bool {
	for part := range strings.SplitSeq(f.get(name), ",") {
		if strings.EqualFold(strings.TrimSpace(part), word) {
			return true
		}
	}
	return false
}

// parseHead returns the first line and the fields.
func parseHead(head []byte) (first string, f fields, err error) {
	f = fields{}
	for i, line := range strings.Split(strings.Trim(string(head), "\r\n"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if i == 0 {
			first = line
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !token(name) {
			return "", nil, fmt.Errorf("not a header: %q", short(line))
		}
		name = strings.ToLower(name)
		f[name] = append(f[name], strings.TrimSpace(value))
	}
	return first, f, nil
}

// bodyOf tells from the fields how the end of the body is found.
func bodyOf(f fields) (body, int64, error) {
	if f.has("transfer-encoding", "chunked") {
		return chunked, 0, nil
	}
	if f.get("transfer-encoding") != "" {
		return untilEnd, 0, nil
	}
	lengths := f["content-length"]
	if len(lengths) == 0 {
		return none, 0, nil
	}
	n, err := strconv.ParseInt(lengths[0], 10, 64)
	for _, other := range lengths {
		if other != lengths[0] {
			err = errors.New("two lengths")
		}
	}
	if err != nil || n < 0 {
		return none, 0, fmt.Errorf("not a content length: %q", short(f.get("content-length")))
	}
	return counted, n, nil
}

// split cuts a request line into its three parts.
func split(line string) (method, target, version string, ok bool) {
	method, rest, _ := strings.Cut(line, " ")
	i := strings.LastIndexByte(rest, ' ')
	if i < 0 {
		return "", "", "", false
	}
	return method, strings.TrimSpace(rest[:i]), rest[i+1:], true
}

// token reports whether a text is one in the sense of the standard.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

func short(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
