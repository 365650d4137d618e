package tcp

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/squallhq/squall/protocol"
)

// Messages says what rules can do to lines.
func (Protocol) Messages() protocol.Messages {
	return protocol.Messages{
		Match: []protocol.Field{{Name: "data", Doc: "the line, without its end; of a long one the first 64 KiB"}},
		Verbs: []protocol.Verb{protocol.Error, protocol.Respond, protocol.Delay, protocol.Drop, protocol.Duplicate, protocol.Hold},
		Answer: []protocol.Field{
			{Name: "text", Doc: "the line that is answered; for an error \"error\" where nothing is said"},
			{Name: "body", Doc: "the same"},
		},
	}
}

// Converse follows one connection: each line is a request, and each line that comes back the answer to the
// next of them.
func (Protocol) Converse() protocol.Conversation { return &conversation{} }

type conversation struct {
	up   lines
	down answers
}

// patience is how long a line may be without its end before it is taken as it stands.
const patience = 50 * time.Millisecond

// Patience is for protocols that are not made of lines: what is kept has to reach the server some time.
func (c *conversation) Patience() time.Duration { return patience }

// errBinary is returned for what is no text.
var errBinary = errors.New("the connection does not carry lines of text")

// Requests takes what the client sent.
func (c *conversation) Requests(p []byte) ([]protocol.Frame, error) {
	if slices.ContainsFunc(p, control) {
		all := append(bytes.Clone(c.up.buf), p...)
		c.up.buf = nil
		if !c.up.begun && (protocol.Encrypted(all) || len(all) < 3 && all[0] == 0x16) {
			return []protocol.Frame{{Bytes: all}}, protocol.ErrEncrypted
		}
		return []protocol.Frame{{Bytes: all}}, errBinary
	}
	return c.up.frames(p, request), nil
}

// control reports whether a byte is none of text.
func control(b byte) bool {
	return b < ' ' && b != '\t' && b != '\n' && b != '\r' && b != '\f' && b != 0x1b
}

// Responses takes what the server sent.
func (c *conversation) Responses(p []byte) ([]protocol.Frame, error) {
	return c.down.frames(p), nil
}

// EndOfRequests completes a last line without an end.
func (c *conversation) EndOfRequests() []protocol.Frame { return c.up.end(request) }

// EndOfResponses completes a last line without an end.
func (c *conversation) EndOfResponses() []protocol.Frame { return c.down.end() }

// Forwarded does nothing: lines are answered in their order.
func (c *conversation) Forwarded(*protocol.Message) {}

// Answer writes a line.
func (c *conversation) Answer(_ *protocol.Message, a protocol.Answer) ([]byte, error) {
	text := a.Text
	if text == "" {
		text = string(a.Body)
	}
	if text == "" && a.Failed {
		text = "error"
	}
	text = strings.TrimSuffix(text, "\n")
	if strings.Contains(text, "\n") {
		return nil, errors.New("an answer is one line")
	}
	return []byte(text + "\n"), nil
}

func request(line string) *protocol.Message {
	return &protocol.Message{Ruled: true, Fields: map[string]string{"data": line}}
}

// answers cuts what the server sends into lines. Nothing is kept back: no rule decides on it.
type answers struct {
	text    []byte
	current *protocol.Message
}

func (a *answers) frames(p []byte) []protocol.Frame {
	var out []protocol.Frame
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n') + 1
		last := n > 0
		if !last {
			n = len(p)
		}
		if a.current == nil {
			a.current = &protocol.Message{Fields: map[string]string{}}
		}
		a.text = append(a.text, p[:min(n, maxHead-len(a.text))]...)
		f := protocol.Frame{Bytes: p[:n], Message: a.current, Last: last}
		if last {
			a.finish()
		}
		out, p = append(out, f), p[n:]
	}
	return out
}

func (a *answers) finish() {
	a.current.Fields["answer"] = content(a.text)
	a.text, a.current = a.text[:0], nil
}

func (a *answers) end() []protocol.Frame {
	if a.current == nil {
		return nil
	}
	f := protocol.Frame{Message: a.current, Last: true}
	a.finish()
	return []protocol.Frame{f}
}

// maxHead is how much of a line is looked at; the rest passes as it comes.
const maxHead = 64 << 10

// lines cuts one way of a connection into lines.
type lines struct {
	buf   []byte
	begun bool
	// current is a line of which the beginning is out.
	current *protocol.Message
}

func (l *lines) frames(p []byte, of func(string) *protocol.Message) []protocol.Frame {
	l.buf = append(l.buf, p...)
	data := l.buf
	var out []protocol.Frame
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n') + 1
		last := n > 0
		if !last {
			if l.current == nil && len(data) < maxHead {
				break
			}
			n = len(data)
		}
		if l.current == nil {
			l.begun = true
			l.current = of(content(data[:n]))
		}
		out = append(out, protocol.Frame{Bytes: data[:n], Message: l.current, Last: last})
		if last {
			l.current = nil
		}
		data = data[n:]
	}
	if len(out) > 0 {
		l.buf = bytes.Clone(data)
	}
	return out
}

func (l *lines) end(of func(string) *protocol.Message) []protocol.Frame {
	m := l.current
	if m == nil && len(l.buf) == 0 {
		return nil
	}
	if m == nil {
		m = of(content(l.buf))
	}
	f := protocol.Frame{Bytes: l.buf, Message: m, Last: true}
	l.buf, l.current = nil, nil
	return []protocol.Frame{f}
}

// content is what a rule sees of a line.
func content(line []byte) string {
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	return string(line[:min(len(line), maxHead)])
}
