package message

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/squallhq/squall/protocol"
)

const (
	// readSize is how much is read from the server at once.
	readSize = 32 << 10
	// maxAnswers bounds what waits to be read by the relay; beyond, the server feels backpressure.
	maxAnswers = 1 << 20
	// drainTime is how long after the end of a dropped connection its client may go on writing before it is
	// told by RST that nobody is there.
	drainTime = 200 * time.Millisecond
)

// Conn is a connection to a server on whose messages rules act. Write is called by one goroutine at a
// time, and so is Read; all else may be called at any time.
type Conn struct {
	cfg    Config
	socket Socket
	// writing is held by who deals with the client's bytes. pending is what has yet to be sent.
	writing sync.Mutex
	pending []byte
	up      *incoming

	closing sync.Once
	closed  chan struct{}

	mu    sync.Mutex
	ready sync.Cond // something for Read, or room for Run
	parse parser
	queue answers
	outgoing
	// err is what Read returns once out is empty.
	err error
	state
	onReset func()
}

// outgoing is what the client has yet to read.
type outgoing struct {
	out bytes.Buffer
	// shown is how many of the answer's bytes that the parser keeps are in out already.
	shown int
}

// state is what has become of a connection.
type state struct {
	// blind says that bytes pass untouched, muted that nothing more reaches the client.
	blind, muted bool
	// swallowing says that a request is coming in that the server does not see.
	swallowing bool
	// lost says that nothing more of the client reaches the server; ended that the client's end was decided, at endedAt.
	lost, ended bool
	endedAt     time.Duration
}

// New returns a connection to the server behind socket. Run has to be called beside.
func New(cfg Config, socket Socket) *Conn {
	c := &Conn{cfg: cfg, socket: socket, closed: make(chan struct{})}
	c.parse.conversation = cfg.Conversation
	c.ready.L = &c.mu
	c.up = &incoming{conn: c}
	return c
}

// Run reads from the server until its end. watch, which may be nil, calls its argument if the socket is
// reset while nobody reads from it, until the function that it returns is called.
func (c *Conn) Run(watch func(reset func()) (stop func())) {
	if watch == nil {
		watch = func(func()) func() { return func() {} }
	}
	buf := make([]byte, readSize)
	for c.room(watch) {
		n, err := c.socket.Read(buf)
		if n > 0 {
			c.received(buf[:n])
		}
		if err != nil {
			c.serverEnded(err)
			return
		}
	}
}

// room waits until answers have been read; false says that nobody will.
func (c *Conn) room(watch func(func()) func()) bool {
	full := func() bool { return c.out.Len() >= maxAnswers && !c.isClosed() && c.err == nil }
	c.mu.Lock()
	defer c.mu.Unlock()
	if full() {
		c.mu.Unlock()
		stop := watch(func() { c.serverEnded(syscall.ECONNRESET) })
		c.mu.Lock()
		for full() {
			c.ready.Wait()
		}
		c.mu.Unlock()
		stop()
		c.mu.Lock()
	}
	return !c.isClosed()
}

// Read returns what the client is to get.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out.Len() == 0 {
		if c.isClosed() {
			return 0, net.ErrClosed
		}
		if c.err != nil && !c.muted {
			return 0, c.err
		}
		c.ready.Wait()
	}
	n, err := c.out.Read(p)
	c.ready.Broadcast()
	return n, err
}

// CloseWrite hands on what the client sent last, and FIN.
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	var frames []protocol.Frame
	var rest []byte
	if !c.blind {
		frames, rest = c.parse.endOfRequests()
	}
	c.mu.Unlock()
	if err := c.up.frames(frames, rest); err != nil {
		return err
	}
	return c.socket.CloseWrite()
}

// SetLinger is the socket's.
func (c *Conn) SetLinger(seconds int) error { return c.socket.SetLinger(seconds) }

// Close ends the connection and everything that waits on it.
func (c *Conn) Close() error {
	err := error(nil)
	c.closing.Do(func() {
		close(c.closed)
		err = c.socket.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ready.Broadcast()
	})
	return err
}

func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Watch calls reset once the server's RST has come, until stop is called, for a relay that cannot
// deliver what came before it.
func (c *Conn) Watch(reset func()) (stop func()) {
	c.mu.Lock()
	if errors.Is(c.err, syscall.ECONNRESET) {
		c.mu.Unlock()
		reset()
		return func() {}
	}
	c.onReset = reset
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.onReset = nil
	}
}

// received takes what the server sent.
func (c *Conn) received(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	defer c.ready.Broadcast()
	if c.blind {
		c.out.Write(p)
		return
	}
	frames, rest, err := c.parse.responses(p)
	for _, f := range frames {
		c.response(f)
	}
	if err != nil {
		c.giveUp(err)
	}
	c.out.Write(c.unseen(rest))
	// Nothing can come between the bytes of an answer that is the server's own, so they need not wait for its end.
	if e := c.queue.head(); e != nil && e.from == server && !c.ended {
		held := c.parse.answered[min(c.shown, len(c.parse.answered)):]
		c.shown += len(held)
		c.out.Write(held)
	}
}

// unseen returns what of the next bytes of the server is not in out yet; it is called with mu held.
func (o *outgoing) unseen(data []byte) []byte {
	n := min(o.shown, len(data))
	o.shown -= n
	return data[n:]
}

// serverEnded is told that nothing more comes from the server.
func (c *Conn) serverEnded(err error) {
	c.mu.Lock()
	if c.err == nil {
		if errors.Is(err, io.EOF) && !c.blind {
			frames, rest := c.parse.endOfResponses()
			for _, f := range frames {
				c.response(f)
			}
			c.out.Write(c.unseen(rest))
		}
		if c.err == nil {
			c.err = err
		}
	}
	reset := c.onReset
	c.ready.Broadcast()
	c.mu.Unlock()
	if reset != nil && errors.Is(err, syscall.ECONNRESET) {
		reset()
	}
}

// giveUp makes both ways transparent; it is called with mu held. A client that waits for an answer
// which is not the server's would wait for ever, so its connection ends.
func (c *Conn) giveUp(err error) {
	if c.blind {
		return
	}
	c.blind = true
	c.cfg.Tell(Event{Op: Blind, Err: err})
	if c.swallowing || c.queue.foreign() {
		c.end(Reset)
	}
}

// end ends the connection for the client, after what is in out; it is called with mu held.
func (c *Conn) end(how Ending) {
	if c.ended {
		return
	}
	c.ended, c.lost, c.endedAt = true, true, c.cfg.Clock.Now()
	switch how {
	case Reset:
		c.err = syscall.ECONNRESET
	case Silence:
		c.muted = true
	default:
		c.err = io.EOF
	}
	if how != Reset {
		// An error says that the server is gone already.
		_ = c.socket.CloseWrite()
	}
	c.ready.Broadcast()
}
