package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// kept is how much of a message is kept until it is whole; what is longer passes in parts.
const kept = 1 << 20

// The codes that stand in a startup packet where a version would.
const (
	cancelCode = 80877102
	sslCode    = 80877103
	gssCode    = 80877104
)

// maxStartup is the server's own limit on startup packets.
const maxStartup = 10000

// piece is a message of the protocol with its header, or a part of a long one.
type piece struct {
	// kind is the message's type; 0 for a startup packet.
	kind        byte
	bytes       []byte
	first, last bool
}

// body is the message's content, as far as it is there.
func (p piece) body() []byte {
	if p.kind == 0 {
		return p.bytes[4:]
	}
	return p.bytes[5:]
}

// splitter cuts one way's bytes into pieces. What it hands out is never written to again.
type splitter struct {
	buf  []byte
	kind byte
	// rest is how much of a long message is still to come.
	rest int
}

func (s *splitter) feed(p []byte) { s.buf = append(s.buf, p...) }

func (s *splitter) take(n int) []byte {
	out := s.buf[:n:n]
	s.buf = s.buf[n:]
	return out
}

// next returns a piece; ok is false where more bytes have to come first.
func (s *splitter) next(startup bool) (p piece, ok bool, err error) {
	if s.rest > 0 {
		n := min(s.rest, len(s.buf))
		s.rest -= n
		return piece{s.kind, s.take(n), false, s.rest == 0}, n > 0, nil
	}
	header := 1
	if startup {
		header = 0
	}
	if len(s.buf) < header+4 {
		return piece{}, false, nil
	}
	n := binary.BigEndian.Uint32(s.buf[header:])
	s.kind = 0
	if !startup {
		s.kind = s.buf[0]
	}
	if n < 4 || n > 1<<30 || (startup && (n < 8 || n > maxStartup)) || (!startup && s.kind == 0) {
		return piece{}, false, fmt.Errorf("postgres: a message of type %q and length %d", s.kind, n)
	}
	total := header + int(n)
	if len(s.buf) < min(total, kept) {
		return piece{}, false, nil
	}
	p = piece{s.kind, s.take(min(total, kept)), true, total <= kept}
	s.rest = total - len(p.bytes)
	return p, true, nil
}

// text cuts a string that ends with 0; without an end it is all there is.
func text(b []byte) (s string, rest []byte) {
	s, after, _ := strings.Cut(string(b), "\x00")
	return s, []byte(after)
}

// message makes a message of a type and its content.
func message(kind byte, content ...string) []byte {
	body := strings.Join(content, "")
	out := append(make([]byte, 0, 5+len(body)), kind)
	out = binary.BigEndian.AppendUint32(out, uint32(4+len(body)))
	return append(out, body...)
}

func errorResponse(code, says string) []byte {
	return message('E', "SERROR\x00VERROR\x00C", code, "\x00M", says, "\x00\x00")
}

func ready(state byte) []byte { return message('Z', string(state)) }

// told are the fields of an ErrorResponse by their letters.
func told(body []byte) map[byte]string {
	fields := map[byte]string{}
	for len(body) > 1 && body[0] != 0 {
		key := body[0]
		fields[key], body = text(body[1:])
	}
	return fields
}
