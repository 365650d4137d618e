package redis

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// kept is how much of a value is kept until it is whole; what is longer passes in parts.
const kept = 1 << 20

const (
	// maxLine bounds lines other than those of simple strings and errors; it is the server's own limit on inline commands.
	maxLine = 64 << 10
	// maxDepth bounds how deep aggregates are nested.
	maxDepth = 512
	// maxItems is how many items at the top of an aggregate are told.
	maxItems = 64
)

// part is a value of the protocol, or a part of a long one.
type part struct {
	// kind is the value's first byte; 0 for an inline command.
	kind  byte
	bytes []byte
	// items are the first items of an aggregate, or an inline command's words; a long one's as far as they are there. What
	// is longer than any key is cut.
	items []string
	// count is how many there are.
	count       int64
	first, last bool
}

// scanner cuts one way's bytes into values. What it hands out is never written to again.
type scanner struct {
	buf []byte
	// at is how far buf is read, and rest how much of a string is still to come.
	at   int
	rest int64
	// open counts the values that are still to come in each aggregate, from the outside in.
	open []int64
	// begun says that a value is under way, and cut that a part of it is out.
	begun, cut bool
	kind       byte
	count      int64
	items      []span
}

// span is a place in buf.
type span struct{ from, to int }

func (s *scanner) feed(p []byte) { s.buf = append(s.buf, p...) }

// all takes what is left.
func (s *scanner) all() []byte {
	out := s.buf
	s.buf = nil
	return out
}

// errWord is what stands where a value should begin, or a number.
func errWord(line []byte) error { return fmt.Errorf("redis: %.20q is not understood", line) }

// next returns a part; ok is false where more bytes have to come first. Requests may be inline.
func (s *scanner) next(request bool) (p part, ok bool, err error) {
	for {
		if !s.begun && s.at < len(s.buf) && request && s.buf[s.at] != '*' {
			return s.inline()
		}
		more, whole, err := s.step()
		switch {
		case err != nil:
			return part{}, false, err
		case whole:
			return s.take(true), true, nil
		case s.at >= kept:
			return s.take(false), true, nil
		case !more && s.cut && s.at > 0:
			// The beginning is out already, so nothing is gained by waiting.
			return s.take(false), true, nil
		case !more:
			return part{}, false, nil
		}
	}
}

// take hands out what was read.
func (s *scanner) take(last bool) part {
	p := part{kind: s.kind, bytes: s.buf[:s.at:s.at], count: s.count, first: !s.cut, last: last}
	if p.first {
		for _, i := range s.items {
			if i.to <= s.at {
				p.items = append(p.items, string(s.buf[i.from:min(i.to, i.from+maxLine)]))
			}
		}
	}
	s.buf, s.at = s.buf[s.at:], 0
	s.cut, s.begun = !last, !last
	s.items, s.count = nil, 0
	return p
}

// step reads the rest of a string, or one line. More says that it got on, whole that a value is complete.
func (s *scanner) step() (more, whole bool, err error) {
	if s.rest > 0 {
		n := min(s.rest, int64(len(s.buf)-s.at))
		s.rest -= n
		s.at += int(n)
		if s.rest == 0 {
			return true, s.done(), nil
		}
		return false, false, nil
	}
	end := bytes.IndexByte(s.buf[s.at:], '\n')
	if end < 0 {
		if s.long(len(s.buf) - s.at) {
			return false, false, errors.New("redis: a line is too long")
		}
		return false, false, nil
	}
	line := s.buf[s.at : s.at+end+1]
	if len(line) < 3 || line[end-1] != '\r' || s.long(end) {
		return false, false, errWord(line)
	}
	from := s.at + 1
	s.at += end + 1
	if !s.begun {
		s.begun, s.kind = true, line[0]
	}
	whole, err = s.line(line[0], line[1:end-1], from)
	return true, whole, err
}

// long says that a line of n bytes is longer than one can be.
func (s *scanner) long(n int) bool {
	if n > 0 && (s.buf[s.at] == '+' || s.buf[s.at] == '-') {
		return n > kept
	}
	return n > maxLine
}

// line takes a line; from is where its text stands.
func (s *scanner) line(kind byte, text []byte, from int) (whole bool, err error) {
	switch kind {
	case '+', '-', ':', '_', '#', ',', '(':
		s.note(from, from+len(text))
		return s.done(), nil
	case '$', '!', '=':
		n, err := number(text, 1<<40)
		if err != nil || n < 0 {
			s.note(from, from)
			return s.done(), err
		}
		s.note(s.at, s.at+int(n))
		s.rest = n + 2
		return false, nil
	case '*', '~', '>', '%', '|':
		n, err := number(text, math.MaxInt32)
		if err != nil {
			return false, err
		}
		switch kind {
		case '%':
			n *= 2
		case '|':
			// Attributes stand before the value that they are about.
			n = 2*n + 1
		}
		if len(s.open) == 0 {
			s.count = n
		}
		if n <= 0 {
			return s.done(), nil
		}
		if len(s.open) == maxDepth {
			return false, errors.New("redis: values are nested too deep")
		}
		s.open = append(s.open, n)
		return false, nil
	}
	return false, errWord(append([]byte{kind}, text...))
}

// number reads a length; -1 stands for nil.
func number(text []byte, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < -1 || n > most {
		return 0, errWord(text)
	}
	return n, nil
}

// note remembers an item.
func (s *scanner) note(from, to int) {
	if len(s.open) == 1 && !s.cut && len(s.items) < maxItems || len(s.open) == 0 {
		s.items = append(s.items, span{from, to})
	}
}

// done counts a value that is complete, and says whether nothing is open any more.
func (s *scanner) done() bool {
	for len(s.open) > 0 {
		top := len(s.open) - 1
		if s.open[top]--; s.open[top] > 0 {
			return false
		}
		s.open = s.open[:top]
	}
	return true
}

// inline reads a command that is a line of text.
func (s *scanner) inline() (p part, ok bool, err error) {
	end := bytes.IndexByte(s.buf, '\n')
	if end > maxLine || (end < 0 && len(s.buf) > maxLine) {
		return part{}, false, errors.New("redis: a line is too long")
	}
	if end < 0 {
		return part{}, false, nil
	}
	s.at, s.kind = end+1, 0
	p = s.take(true)
	p.items = words(string(bytes.TrimRight(p.bytes, "\r\n")))
	p.count = int64(len(p.items))
	return p, true, nil
}

// words splits a line as Redis does: quotes keep spaces, and in double ones a backslash escapes.
func words(line string) []string {
	var out []string
	for i := 0; i < len(line); {
		if strings.IndexByte(" \t\r\n\v\f\x00", line[i]) >= 0 {
			i++
			continue
		}
		var w []byte
		w, i = word(line, i)
		out = append(out, string(w))
	}
	return out
}

// word reads the word that begins at i, and returns where it ends.
func word(line string, i int) ([]byte, int) {
	var w []byte
	quote := byte(0)
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == 0 && strings.IndexByte(" \t\r\n\v\f\x00", c) >= 0:
			return w, i
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0 && c == '\\' && i+1 < len(line):
			var b byte
			b, i = escaped(line, i+1, quote)
			w = append(w, b)
		default:
			w = append(w, c)
		}
	}
	return w, i
}

// escaped reads what stands behind a backslash at i-1, and returns where it ends.
func escaped(line string, i int, quote byte) (byte, int) {
	c := line[i]
	if quote == '\'' {
		if c == '\'' {
			return c, i
		}
		return '\\', i - 1
	}
	if c == 'x' && i+2 < len(line) {
		if n, err := strconv.ParseUint(line[i+1:i+3], 16, 8); err == nil {
			return byte(n), i + 2
		}
	}
	if at := strings.IndexByte("nrtba", c); at >= 0 {
		return "\n\r\t\b\a"[at], i
	}
	return c, i
}

// bulk writes a bulk string.
func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

// encode writes a command.
func encode(args ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		b.WriteString(bulk(a))
	}
	return []byte(b.String())
}
