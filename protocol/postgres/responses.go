package postgres

import (
	"errors"

	"github.com/squallhq/squall/protocol"
)

// encryption takes the one byte that answers SSLRequest and GSSENCRequest.
func (c *conversation) encryption(out *frames) (found bool, err error) {
	if len(c.pending) == 0 || len(c.down.buf) == 0 {
		return false, nil
	}
	e := c.pending[0]
	if e.r.start != sslCode && e.r.start != gssCode {
		return false, nil
	}
	b := c.down.take(1)
	out.add(b, &protocol.Message{Fields: map[string]string{"text": string(b)}}, true)
	c.pending = c.pending[1:]
	switch b[0] {
	case 'N':
		return true, nil
	case 'S', 'G':
		return true, protocol.ErrEncrypted
	}
	return true, errors.New("postgres: the server does not know a request for encryption")
}

// response takes a piece of what the server sent.
func (c *conversation) response(out *frames, p piece) error {
	if !p.first {
		out.add(p.bytes, c.answering, p.last && c.answered)
		return nil
	}
	c.answering, c.answered = nil, false
	// A reload of the configuration, NOTIFY, or the words of a server that ends the connection.
	if p.kind == 'A' || p.kind == 'S' || len(c.pending) == 0 {
		out.add(p.bytes, nil, false)
		return nil
	}
	if p.kind == 'Z' {
		c.skip(out)
		if len(c.pending) == 0 {
			out.add(p.bytes, nil, false)
			return nil
		}
	}
	e := c.pending[0]
	if e.answer == nil {
		e.answer = &protocol.Message{Fields: map[string]string{}}
	}
	c.tell(e.answer, p)
	last := c.completes(e, p)
	if last {
		c.pending = c.pending[1:]
	}
	out.add(p.bytes, e.answer, last && p.last)
	if !p.last {
		c.answering, c.answered = e.answer, last
	}
	return nil
}

// skip completes the answers of those parts that the server has passed over after an error, now that it is ready.
func (c *conversation) skip(out *frames) {
	for len(c.pending) > 0 && !c.pending[0].r.synced {
		e := c.pending[0]
		if e.answer == nil {
			e.answer = &protocol.Message{Fields: map[string]string{}}
		}
		out.add(nil, e.answer, true)
		c.pending = c.pending[1:]
	}
}

// tell notes in an answer what an event tells of it.
func (c *conversation) tell(answer *protocol.Message, p piece) {
	switch p.kind {
	case 'C':
		answer.Fields["tag"], _ = text(p.body())
	case 'E':
		fields := told(p.body())
		answer.Fields["code"], answer.Fields["text"] = fields['C'], fields['M']
	case 'Z':
		if b := p.body(); len(b) == 1 {
			c.state = b[0]
			answer.Fields["status"] = string(b)
		}
	}
}

// completes says whether an answer ends with a piece.
func (c *conversation) completes(e *expected, p piece) bool {
	switch {
	case p.kind == 'Z':
		return true
	case p.kind == 'E':
		// Without a Sync nothing else follows; and a server that refuses a login ends the connection.
		return !e.r.synced || e.r.start != 0
	case p.kind == 'G' || p.kind == 'W':
		if e.r.synced && e.r.ops != nil {
			c.lost++
		}
		return false
	case e.r.synced || e.done == len(e.r.ops):
		return false
	}
	if e.r.ops[e.done].completedBy(p.kind) {
		e.done++
	}
	return e.done == len(e.r.ops)
}

// completedBy says whether a reply is the last one to a message.
func (o op) completedBy(reply byte) bool {
	switch o.kind {
	case 'P':
		return reply == '1'
	case 'B':
		return reply == '2'
	case 'C':
		return reply == '3'
	case 'D':
		return reply == 'T' || reply == 'n'
	}
	return reply == 'C' || reply == 'I' || reply == 's'
}
