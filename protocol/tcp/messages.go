package tcp

import (
	"bytes"
	"errors"
	"strings"

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

type conversation struct{ up, down lines }

// Requests takes what the client sent.
func (c *conversation) Requests(p []byte) ([]protocol.Frame, error) {
	if !c.up.begun && len(c.up.buf)+len(p) > 0 {
		first := append(bytes.Clone(c.up.buf), p...)
		if protocol.Encrypted(first) {
			c.up.buf = nil
			return []protocol.Frame{{Bytes: first}}, protocol.ErrEncrypted
		}
	}
	return c.up.frames(p, request), nil
}

// Responses takes what the server sent.
func (c *conversation) Responses(p []byte) ([]protocol.Frame, error) {
	return c.down.frames(p, response), nil
}

// EndOfRequests completes a last line without an end.
func (c *conversation) EndOfRequests() []protocol.Frame { return c.up.end(request) }

// EndOfResponses completes a last line without an end.
func (c *conversation) EndOfResponses() []protocol.Frame { return c.down.end(response) }

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

func response(line string) *protocol.Message {
	return &protocol.Message{Fields: map[string]string{"answer": line}}
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
