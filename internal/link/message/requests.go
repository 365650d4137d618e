package message

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/squallhq/squall/protocol"
)

// maxCopy bounds the request that is kept to be sent twice.
const maxCopy = 1 << 20

// errLong is why a request is not doubled.
var errLong = errors.New("the request is too long to be kept")

// errBlind is why a request is not answered that was told apart before the parser gave up.
var errBlind = errors.New("what follows on the connection is not understood")

// request is a request that has begun.
type request struct {
	m      *protocol.Message
	index  int64
	action Action
	began  time.Duration
	// swallow says that the server does not see it; answer is what was put in the queue instead.
	swallow bool
	answer  *expected
	// early says that its beginning was on its way before a rule was in force.
	early bool
	// copy is what was sent of a request that is to be sent again.
	copy    []byte
	copying bool
}

// incoming is the way from the client to the server, guarded by Conn.writing.
type incoming struct {
	conn    *Conn
	current *request
	index   int64
	// ahead is how many of the bytes that the parser keeps have gone to the server already, since no rule waited for them.
	ahead int
	// writes counts calls of Write; impatient says that somebody waits for the next one.
	writes    int64
	impatient bool
}

// Write takes what the client sent. It returns once that has been decided on and is sent, held back no more, or lost.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.up.writes++
	c.mu.Lock()
	if c.lost {
		gone := c.ended && c.cfg.Clock.Now()-c.endedAt > drainTime && !c.muted
		c.mu.Unlock()
		if gone {
			return 0, syscall.EPIPE
		}
		return len(p), nil
	}
	if c.blind {
		c.mu.Unlock()
		return c.socket.Write(p)
	}
	frames, rest, err := c.parse.requests(p)
	if err != nil {
		c.giveUp(err)
	}
	c.mu.Unlock()
	if err := c.up.frames(frames, rest); err != nil {
		return 0, err
	}
	kept, err := c.up.pass()
	if err != nil {
		return 0, err
	}
	if g, ok := c.cfg.Conversation.(protocol.Guesser); ok && kept && !c.up.impatient {
		c.up.impatient = true
		go c.guess(g.Patience(), c.up.writes)
	}
	return len(p), nil
}

// guess takes what was kept for a whole message once nothing more has come for a time.
func (c *Conn) guess(patience time.Duration, writes int64) {
	for {
		tick, stop := c.cfg.Clock.After(patience)
		select {
		case <-tick:
		case <-c.closed:
			stop()
			return
		}
		c.writing.Lock()
		if c.up.writes == writes {
			break
		}
		writes = c.up.writes
		c.writing.Unlock()
	}
	defer c.writing.Unlock()
	c.up.impatient = false
	c.mu.Lock()
	var frames []protocol.Frame
	var rest []byte
	if !c.blind && !c.lost {
		frames, rest = c.parse.endOfRequests()
	}
	c.mu.Unlock()
	// An error says that the server is gone, which the next write, or the reader, finds out.
	_ = c.up.frames(frames, rest)
}

// frames deals with frames, and passes on what belongs to none.
func (u *incoming) frames(frames []protocol.Frame, rest []byte) error {
	for _, f := range frames {
		if err := u.frame(f); err != nil {
			return err
		}
	}
	if !u.conn.isLost() {
		u.conn.pending = append(u.conn.pending, u.unsent(rest)...)
	}
	return u.conn.send()
}

// unsent returns what of the next bytes of the stream has not gone to the server yet.
func (u *incoming) unsent(data []byte) []byte {
	n := min(u.ahead, len(data))
	u.ahead -= n
	return data[n:]
}

// pass sends what the parser keeps where no rule waits for it. It reports whether something is kept from the server.
func (u *incoming) pass() (kept bool, err error) {
	c := u.conn
	c.mu.Lock()
	held := c.parse.asked[min(u.ahead, len(c.parse.asked)):]
	kept = len(held) > 0
	if !kept || c.lost || c.cfg.Waits == nil || c.cfg.Waits() {
		c.mu.Unlock()
		return kept, nil
	}
	c.pending = append(c.pending, held...)
	u.ahead += len(held)
	c.mu.Unlock()
	return false, c.send()
}

func (c *Conn) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// send writes what is pending.
func (c *Conn) send() error {
	if len(c.pending) == 0 {
		return nil
	}
	_, err := c.socket.Write(c.pending)
	c.pending = c.pending[:0]
	if cap(c.pending) > maxCopy {
		c.pending = nil
	}
	return err
}

// frame deals with one frame.
func (u *incoming) frame(f protocol.Frame) error {
	c := u.conn
	if c.isLost() {
		return nil
	}
	early := u.ahead > 0
	f.Bytes = u.unsent(f.Bytes)
	if f.Message == nil {
		c.pending = append(c.pending, f.Bytes...)
		return nil
	}
	if u.current == nil || u.current.m != f.Message {
		u.current = &request{m: f.Message, began: c.cfg.Clock.Now(), early: early}
		if err := u.begin(u.current); err != nil {
			return err
		}
	}
	r := u.current
	if !r.swallow {
		c.pending = append(c.pending, f.Bytes...)
		u.keep(r, f.Bytes)
	}
	if !f.Last {
		return nil
	}
	u.current = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swallowing = false
	switch {
	case r.answer != nil:
		r.answer.ready = true
		c.advance()
	case r.copying:
		c.again(r)
	}
	return nil
}

// keep copies what was sent of a request that is to be sent again.
func (u *incoming) keep(r *request, data []byte) {
	if !r.copying {
		return
	}
	if len(r.copy)+len(data) > maxCopy {
		r.copying, r.copy = false, nil
		u.conn.failed(r, errLong)
		return
	}
	r.copy = append(r.copy, data...)
}

// begin decides on a request and does what has to be done before its first frame goes on.
func (u *incoming) begin(r *request) error {
	c := u.conn
	if !r.m.Ruled {
		c.forwarding(r)
		return nil
	}
	u.index++
	r.index = u.index
	c.tell(Event{Op: Request}, r)
	if r.early {
		c.forwarding(r)
		return nil
	}
	r.action = c.cfg.Decide(r.index, r.m)
	if why := r.m.Refuses[r.action.Verb]; why != "" {
		c.failed(r, errors.New(why))
		r.action = Action{}
	}
	switch r.action.Verb {
	case protocol.Error, protocol.Respond:
		if c.answer(r) {
			return nil
		}
	case protocol.Drop:
		c.drop(r)
		return nil
	case protocol.Delay, protocol.Hold:
		c.tell(Event{Op: Acted}, r)
		if err := c.wait(r.action); err != nil {
			return err
		}
	case protocol.Duplicate:
		r.copying = true
	}
	c.forwarding(r)
	return nil
}

// wait holds the request, and what comes after it, until its time is over or its rule is lifted.
func (c *Conn) wait(a Action) error {
	if err := c.send(); err != nil {
		return err
	}
	var due <-chan time.Time
	if a.Verb == protocol.Delay {
		tick, stop := c.cfg.Clock.After(a.Delay)
		defer stop()
		due = tick
	}
	select {
	case <-due:
	case <-a.Until:
	case <-c.closed:
		return net.ErrClosed
	}
	return nil
}

// forwarding puts a request that goes to the server into the queue.
func (c *Conn) forwarding(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blind {
		return
	}
	c.parse.conversation.Forwarded(r.m)
	if !r.m.Silent {
		c.queue.add(&expected{request: r, from: server})
	}
}

// again sends a request for the second time; it is called with mu held.
func (c *Conn) again(r *request) {
	if !c.blind {
		c.parse.conversation.Forwarded(r.m)
		if !r.m.Silent {
			c.queue.add(&expected{request: r, from: nobody})
		}
	}
	c.pending = append(c.pending, r.copy...)
	r.copy = nil
	c.acted(r)
}

// answer answers a request in the server's place; it reports false where that cannot be done.
func (c *Conn) answer(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, err := []byte(nil), errBlind
	if !c.blind {
		data, err = c.parse.conversation.Answer(r.m, r.action.Answer)
	}
	if err != nil {
		c.cfg.Tell(c.about(Event{Op: Failed, Err: err}, r))
		return false
	}
	c.acted(r)
	r.swallow, c.swallowing = true, true
	if len(data) > 0 || !r.m.Silent {
		r.answer = &expected{request: r, from: rule, data: data, ready: r.m.Waits}
		c.queue.add(r.answer)
	}
	c.amend(r)
	if r.m.Closes {
		c.queue.add(&expected{request: r, from: end, how: Close, ready: true})
	}
	c.advance()
	return true
}

// amend brings the server into the state that the client believes it to be in; it is called with mu held.
func (c *Conn) amend(r *request) {
	a, ok := c.parse.conversation.(protocol.Amender)
	if !ok {
		return
	}
	if data := a.Amend(r.m); len(data) > 0 {
		c.pending = append(c.pending, data...)
		c.parse.conversation.Forwarded(r.m)
		c.queue.add(&expected{request: r, from: nobody})
	}
}

// drop loses a request and all after it. Answers to earlier requests come first.
func (c *Conn) drop(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acted(r)
	r.swallow = true
	c.lost = true
	if c.blind {
		c.end(r.action.How)
		return
	}
	c.queue.add(&expected{request: r, from: end, how: r.action.How, ready: true})
	c.advance()
}

func (c *Conn) acted(r *request) { c.cfg.Tell(c.about(Event{Op: Acted}, r)) }

func (c *Conn) failed(r *request, err error) { c.tell(Event{Op: Failed, Err: err}, r) }

// tell tells about a request; mu is not held.
func (c *Conn) tell(e Event, r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.Tell(c.about(e, r))
}

func (c *Conn) about(e Event, r *request) Event {
	e.Index, e.Request = r.index, r.m
	e.Rule, e.Verb = r.action.Rule, r.action.Verb
	e.Duration = c.cfg.Clock.Now() - r.began
	return e
}
