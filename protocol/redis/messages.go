package redis

import (
	"errors"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// Messages says what rules can match and do.
func (Protocol) Messages() protocol.Messages {
	return protocol.Messages{
		Match: []protocol.Field{
			{Name: "command", Doc: "the command, such as SET, in any case", Normal: strings.ToUpper},
			{Name: "key", Doc: "the first key, or the channel; \"\" for commands without one"},
		},
		Verbs: []protocol.Verb{protocol.Error, protocol.Respond, protocol.Delay, protocol.Drop, protocol.Duplicate, protocol.Hold},
		Answer: []protocol.Field{
			{Name: "code", Doc: "an error's first word, ERR where it is left out; for a response the form of its body: bulk, which is meant where it is left out, simple, integer, nil or json"},
			{Name: "text", Doc: "an error's message"},
			{Name: "body", Doc: "a response's value; as json, a list or an object becomes an array or a map"},
		},
	}
}

// Converse follows one connection from its first byte.
func (Protocol) Converse() protocol.Conversation { return &conversation{} }

// conversation is what passes on one connection.
type conversation struct {
	up, down scanner
	broken   error
	// ongoing and answering are what the parts of a long request and of a long answer belong to; answered says that
	// the answer ends with them.
	ongoing, answering *protocol.Message
	answered           bool
	// wanted are the client's wishes and state by the order of its requests, had the server's by what has reached it.
	wanted wishes
	multi  bool
	// resp3, monitoring and the counts of subscriptions are what the server's answers have told.
	resp3, monitoring bool
	subscribed        counts
	pending           []*expected
}

// wishes are what requests say about answers.
type wishes struct {
	// off says that no answers are wanted, skip that the next one is not.
	off, skip bool
	// multi says that a transaction is open.
	multi bool
}

// request is the Conversation's own part of a request.
type request struct {
	command string
	// channels are how many a subscription names.
	channels int64
	// mute says that the client wants no answer to it, not even an error.
	mute bool
	// amend is what the server gets if the request was answered for it.
	amend []byte
}

// expected is an answer that the server owes.
type expected struct {
	command string
	// confirms says that it is a subscription, whose answer is a confirmation for each channel. left are those to
	// come; 0 until the first one of all channels.
	confirms bool
	left     int64
	// answer is nil until the first of them.
	answer *protocol.Message
}

// frames collects frames; parts of one message that stand behind each other become one.
type frames []protocol.Frame

func (f *frames) add(b []byte, m *protocol.Message, last bool) {
	if len(b) == 0 {
		return
	}
	if n := len(*f); n > 0 && m != nil {
		if before := &(*f)[n-1]; before.Message == m && !before.Last {
			before.Bytes = append(before.Bytes, b...)
			before.Last = last
			return
		}
	}
	*f = append(*f, protocol.Frame{Bytes: b, Message: m, Last: last})
}

// Requests cuts what the client sent.
func (c *conversation) Requests(p []byte) ([]protocol.Frame, error) {
	return c.cut(p, &c.up, true, c.request)
}

// Responses cuts what the server sent.
func (c *conversation) Responses(p []byte) ([]protocol.Frame, error) {
	return c.cut(p, &c.down, false, c.response)
}

func (c *conversation) cut(p []byte, s *scanner, request bool, take func(*frames, part) error) ([]protocol.Frame, error) {
	s.feed(p)
	var out frames
	if request && c.broken == nil && !s.begun && protocol.Encrypted(s.buf) {
		c.broken = protocol.ErrEncrypted
	}
	for c.broken == nil {
		v, ok, err := s.next(request)
		if err == nil && !ok {
			return out, nil
		}
		if err == nil {
			err = take(&out, v)
		}
		c.broken = err
	}
	out.add(s.all(), nil, false)
	return out, c.broken
}

// request takes a part of what the client sent.
func (c *conversation) request(out *frames, p part) error {
	if !p.first {
		out.add(p.bytes, c.ongoing, p.last)
		return nil
	}
	if len(p.items) == 0 && p.last {
		// An empty line or an empty array is no command.
		out.add(p.bytes, nil, false)
		return nil
	}
	m, err := c.command(p)
	if err != nil {
		out.add(p.bytes, nil, false)
		return err
	}
	out.add(p.bytes, m, p.last)
	c.ongoing = m
	return nil
}

// command makes the message of a request.
func (c *conversation) command(p part) (*protocol.Message, error) {
	items := p.items
	if len(items) == 0 {
		items = []string{""}
	}
	name := strings.ToUpper(items[0])
	t := known(name)
	r := &request{command: name, channels: p.count - 1}
	m := &protocol.Message{Fields: map[string]string{"command": name, "key": keyOf(items)}, Ruled: !t.login, Private: r}
	queued := c.wanted.multi && !immediate(name)
	switch {
	case name == "PSYNC" || name == "SYNC":
		return nil, errors.New("redis: the connection is a replica's")
	case queued && (t.subscribes || aboutReplies(items)):
		return nil, errors.New("redis: " + name + " in a transaction")
	}
	c.refuse(m, items, queued, !p.last || len(p.bytes) > kept)
	switch name {
	case "MULTI":
		c.wanted.multi = true
	case "EXEC", "DISCARD":
		c.wanted.multi = false
	case "RESET":
		c.wanted = wishes{}
	}
	skipped := c.wanted.skip
	// Subscriptions are confirmed even where no answers are wanted.
	r.mute = c.wanted.mutes(items) && !t.subscribes
	if m.Silent = r.mute; skipped && r.mute {
		const why = "CLIENT REPLY SKIP is meant for it, and would be taken for another one"
		m.Refuses = map[protocol.Verb]string{protocol.Error: why, protocol.Respond: why, protocol.Duplicate: why}
	}
	return m, nil
}

// refuse notes what cannot be done to a request.
func (c *conversation) refuse(m *protocol.Message, items []string, queued, long bool) {
	m.Refuses = map[protocol.Verb]string{}
	switch {
	case known(strings.ToUpper(items[0])).subscribes:
		m.Refuses[protocol.Duplicate] = "the client would be told of its subscription twice"
		m.Refuses[protocol.Respond] = "a subscription has no answer that could be made up"
	case queued:
		m.Refuses[protocol.Duplicate] = "the transaction's answer would have one part more than the client expects"
		m.Refuses[protocol.Respond] = "in a transaction, the value is a part of the answer to EXEC"
	case strings.EqualFold(items[0], "MULTI"):
		m.Refuses[protocol.Respond] = "the server would run at once what the client believes to be in a transaction"
	case long:
		m.Refuses[protocol.Duplicate] = "it is longer than 1 MiB"
	case blocks(items):
		m.Refuses[protocol.Duplicate] = "the second one would wait for what comes after it"
	}
}

// immediate says of a command that it is not put into the queue of a transaction.
func immediate(name string) bool {
	switch name {
	case "MULTI", "EXEC", "DISCARD", "WATCH", "QUIT", "RESET":
		return true
	}
	return false
}

// aboutReplies says that a command is CLIENT REPLY.
func aboutReplies(items []string) bool {
	return len(items) > 2 && strings.EqualFold(items[0], "CLIENT") && strings.EqualFold(items[1], "REPLY")
}

// mutes says that a request gets no answer, because of CLIENT REPLY.
func (w *wishes) mutes(items []string) bool {
	skipped := w.skip
	w.skip = false
	if aboutReplies(items) {
		switch strings.ToUpper(items[2]) {
		case "ON":
			w.off = false
			return false
		case "OFF":
			w.off = true
		case "SKIP":
			// Where no answers are wanted anyway, it changes nothing.
			w.skip = !w.off
			return true
		}
	}
	return w.off || skipped
}

// Forwarded says that a request went to the server.
func (c *conversation) Forwarded(m *protocol.Message) {
	r, ok := m.Private.(*request)
	if !ok {
		return
	}
	switch r.command {
	case "MULTI":
		c.multi = true
	case "EXEC", "DISCARD", "RESET":
		c.multi = false
	}
	if r.mute {
		return
	}
	e := &expected{command: r.command, confirms: known(r.command).subscribes}
	if e.confirms {
		e.left = r.channels
	}
	c.pending = append(c.pending, e)
}
