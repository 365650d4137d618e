package postgres

import (
	"github.com/squallhq/squall/protocol"
)

// Messages says what rules can match and do.
func (Protocol) Messages() protocol.Messages {
	return protocol.Messages{
		Match: []protocol.Field{{
			Name: "query",
			Doc: "the SQL, whether it is sent as a simple query or bound from a prepared statement; several statements are joined by semicolons. " +
				"Case, white space, comments and the numbers of parameters do not count: write ? or $1 for a parameter. Literals count as they are",
			Normal: canonical,
		}},
		Verbs: []protocol.Verb{protocol.Error, protocol.Respond, protocol.Delay, protocol.Drop, protocol.Duplicate, protocol.Hold},
		Answer: []protocol.Field{
			{Name: "code", Doc: "the SQLSTATE of an error; XX000 where it is left out"},
			{Name: "text", Doc: "an error's message; for a response the command tag, such as \"UPDATE 0\": only statements that return no rows can be answered"},
		},
	}
}

// Converse follows one connection from its first byte.
func (Protocol) Converse() protocol.Conversation {
	return &conversation{starting: true, state: idle, names: names{statements: map[string]string{}, portals: map[string]string{}}}
}

// conversation is what passes on one connection.
type conversation struct {
	up, down splitter
	// starting is true until the startup packet has come.
	starting bool
	// broken is why the conversation is no longer understood.
	broken error
	names  names
	// batch are the messages of the extended protocol since the last Sync or Flush; nil where there are none.
	batch *batch
	// ongoing is what the parts of a long request belong to, and ends says that the request ends with them.
	ongoing *protocol.Message
	ends    bool
	// answering is what the parts of a long answer belong to, and answered says that it ends with them.
	answering *protocol.Message
	answered  bool
	pending   []*expected
	// state is that of the last ReadyForQuery.
	state byte
	// open says that parts without a Sync have reached the server since the last one.
	open bool
	// lost counts those Syncs that a server passes over because it copies; it waits for another one.
	lost int
}

// request is the Conversation's own part of a request.
type request struct {
	// start is a startup packet's code; 0 for what is none.
	start uint32
	// synced says that ReadyForQuery ends the answer; otherwise one reply to each of ops does.
	synced bool
	ops    []op
	// query is what is executed, in the order in which it is.
	query string
	// long says that ops and query are not all.
	long bool
	// amend is what the server gets if the request was answered for it.
	amend []byte
}

// expected is an answer that the server owes.
type expected struct {
	r *request
	// answer is nil until its first byte.
	answer *protocol.Message
	// done counts the ops that are answered.
	done int
}

// frames collects frames; parts of one message that stand behind each other become one.
type frames []protocol.Frame

func (f *frames) add(b []byte, m *protocol.Message, last bool) {
	if len(b) == 0 && m == nil {
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
	c.up.feed(p)
	var out frames
	if c.broken == nil && c.starting && protocol.Encrypted(c.up.buf) {
		c.broken = protocol.ErrEncrypted
	}
	for c.broken == nil {
		pc, ok, err := c.up.next(c.starting)
		if err == nil && !ok {
			return out, nil
		}
		if err == nil {
			err = c.request(&out, pc)
		}
		c.broken = err
	}
	c.release(&out)
	out.add(c.up.take(len(c.up.buf)), nil, false)
	return out, c.broken
}

// release lets go what was kept of a batch that will not be understood.
func (c *conversation) release(out *frames) {
	if b := c.batch; b != nil {
		c.batch = nil
		out.add(b.buf, nil, false)
	}
}

// Responses cuts what the server sent.
func (c *conversation) Responses(p []byte) ([]protocol.Frame, error) {
	c.down.feed(p)
	var out frames
	for c.broken == nil {
		more, err := c.encryption(&out)
		if err == nil && !more {
			var pc piece
			var ok bool
			pc, ok, err = c.down.next(false)
			if err == nil && !ok {
				return out, nil
			}
			if err == nil {
				err = c.response(&out, pc)
			}
		}
		c.broken = err
	}
	out.add(c.down.take(len(c.down.buf)), nil, false)
	return out, c.broken
}

// Forwarded says that a request went to the server.
func (c *conversation) Forwarded(m *protocol.Message) {
	r, ok := m.Private.(*request)
	if !ok || m.Silent {
		return
	}
	c.open = !r.synced
	c.pending = append(c.pending, &expected{r: r})
}
