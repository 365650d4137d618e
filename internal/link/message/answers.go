package message

import (
	"slices"

	"github.com/squallhq/squall/protocol"
)

// origin says where an expected answer comes from.
type origin uint8

const (
	// server gives it, rule has given it, nobody is to see it, end is no answer but the connection's end.
	server origin = iota
	rule
	nobody
	end
)

// expected is what the client is to get in the place of one request.
type expected struct {
	request *request
	from    origin
	// data is a rule's answer, which may pass once it is ready: when the whole request has come.
	data  []byte
	ready bool
	how   Ending
}

// answers are what is expected, in the order of the requests.
type answers struct{ list []*expected }

func (q *answers) add(e *expected) { q.list = append(q.list, e) }

func (q *answers) head() *expected {
	if len(q.list) == 0 {
		return nil
	}
	return q.list[0]
}

func (q *answers) pop() { q.list = slices.Delete(q.list, 0, 1) }

// foreign reports whether something is expected that is not simply the server's.
func (q *answers) foreign() bool {
	return slices.ContainsFunc(q.list, func(e *expected) bool { return e.from != server })
}

// advance hands out what does not wait for the server; it is called with mu held.
func (c *Conn) advance() {
	for e := c.queue.head(); e != nil && e.ready; e = c.queue.head() {
		c.queue.pop()
		if e.from == end {
			c.end(e.how)
			return
		}
		c.out.Write(e.data)
		c.cfg.Tell(c.about(Event{Op: Answered}, e.request))
	}
	c.ready.Broadcast()
}

// response passes a frame of the server's; it is called with mu held.
func (c *Conn) response(f protocol.Frame) {
	e := c.queue.head()
	f.Bytes = c.unseen(f.Bytes)
	// What belongs to the second answer, such as an interim one, is for nobody either.
	if !c.ended && (e == nil || e.from != nobody) {
		c.out.Write(f.Bytes)
	}
	if f.Message == nil || !f.Last || e == nil || e.from == rule {
		return // the last case is an answer that nobody asked for
	}
	c.queue.pop()
	if e.from == server && e.request.m.Ruled {
		c.cfg.Tell(c.about(Event{Op: Answered, Answer: f.Message}, e.request))
	}
	c.advance()
}
