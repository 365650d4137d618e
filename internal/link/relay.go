package link

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/vtime"
)

// Conn is one of the two connections that a relay joins; *net.TCPConn is one.
type Conn interface {
	io.ReadWriteCloser
	// CloseWrite sends FIN and leaves the other way open.
	CloseWrite() error
	// SetLinger(0) makes the next Close send RST and lose what was not sent.
	SetLinger(seconds int) error
}

// silencer is what a connection can do beside: keep the other end's segments from being
// acknowledged. Real sockets get theirs from socketSilencer.
type silencer interface {
	silence(on bool) error
	// withheld reports whether something from the other end was kept back since silence or anew was called. It
	// is to be asked now and then.
	withheld() bool
	// anew forgets what was kept back so far.
	anew() error
}

// drainTime is how long a connection that a rule ended with FIN goes on reading before it is closed,
// as unread data would turn the FIN into RST.
const drainTime = 200 * time.Millisecond

// stream is a TCP flow being relayed.
type stream struct {
	net      *Network
	flow     Flow
	up, down *half
	// c faces the client, s the server; quiet are their silencers, in that order.
	c, s  Conn
	quiet [2]silence

	ended    atomic.Bool
	dying    atomic.Bool   // a reset by an end is on its way to the other
	severed  chan struct{} // closed when ended
	finished atomic.Int32  // halves that delivered FIN
	parting  atomic.Bool   // an end has been seen: no byte goes past the relay any more
	readers  sync.WaitGroup
}

// silence is the state of one socket's filter, guarded by Network.mu.
type silence struct {
	silencer
	on    bool
	since []*ruleState // the rules that want it, for whom a withheld segment counts
}

// Relay joins two accepted connections of a flow: client leads to who connected, server to who was
// connected to. It returns at once; the relay owns both from then on, also where it returns an error.
// The flow lasts until both ways have ended, an end resets, or a rule ends it.
func (n *Network) Relay(flow Flow, client, server Conn) error {
	tune(client)
	tune(server)
	server = n.mediate(flow, server)
	s := &stream{net: n, flow: flow, c: client, s: server, severed: make(chan struct{})}
	s.up = newHalf(s, fault.Up, client, server)
	s.down = newHalf(s, fault.Down, server, client)
	s.quiet[0].silencer, s.quiet[1].silencer = silencerOf(client, n.cfg.Clock), silencerOf(server, n.cfg.Clock)
	s.readers.Add(2)
	if err := n.start(s, 3); err != nil {
		s.sever()
		return err
	}
	go func() {
		defer n.running.Done()
		n.serve(server)
	}()
	for _, h := range []*half{s.up, s.down} {
		go func() {
			defer n.running.Done()
			defer s.readers.Done()
			h.read()
		}()
	}
	return nil
}

func silencerOf(c Conn, clock vtime.Clock) silencer {
	if q, ok := c.(silencer); ok {
		return q
	}
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return &socketSilencer{raw: raw, clock: clock}
		}
	}
	return noSilencer{}
}

// noSilencer stands for a connection that is no socket.
type noSilencer struct{}

func (noSilencer) silence(bool) error { return ErrNeedsOwnedNetwork }
func (noSilencer) withheld() bool     { return false }
func (noSilencer) anew() error        { return nil }

func (s *stream) identity() Flow { return s.flow }

func (s *stream) halves() [2]*half { return [2]*half{s.up, s.down} }

func isSilent(k fault.LinkKind) bool {
	return k == fault.Blackhole || k == fault.Partition || k == fault.HalfOpen
}

// install puts a rule into the chains, and silences the sockets that it concerns first: so what comes
// later is in the sender's kernel, not in ours.
func (s *stream) install(r *ruleState) error {
	e := r.rule.Link.Effect
	// What acts on the opening of connections only does not count those that stand.
	if e.Kind == fault.Refuse || e.Kind == fault.TimeOut {
		return nil
	}
	if s.ended.Load() || !r.row().Stream || !r.hitsFlow(s.flow) {
		return nil
	}
	if isSilent(e.Kind) {
		s.watch() // what was withheld before is not this rule's
		for i := range s.quiet {
			if s.silences(r, i) {
				// A connection that ends meanwhile needs no silence.
				if err := s.quiet[i].add(r); err != nil && !s.ended.Load() {
					return err
				}
			}
		}
	}
	for _, h := range s.halves() {
		if r.covers(s.flow.Client, h.way) {
			h.install(r)
		}
	}
	return nil
}

// silences tells whether a rule silences the client's socket (0) or the server's (1).
func (s *stream) silences(r *ruleState, socket int) bool {
	if r.rule.Link.Effect.Kind == fault.HalfOpen {
		return socket == 0
	}
	return r.covers(s.flow.Client, [2]fault.Direction{fault.Up, fault.Down}[socket])
}

func (s *stream) lift(r *ruleState) {
	for _, h := range s.halves() {
		h.lift(r)
	}
	for i := range s.quiet {
		s.quiet[i].remove(r)
	}
}

// watch asks the silenced sockets whether they kept something back.
func (s *stream) watch() bool {
	any := false
	for i, h := range s.halves() {
		q := &s.quiet[i]
		if !q.on || s.ended.Load() {
			continue
		}
		any = true
		if q.withheld() {
			for _, r := range q.since {
				h.fired(r, OpStall, 0)
			}
		}
	}
	return any
}

func (q *silence) add(r *ruleState) error {
	if q.on {
		if err := q.anew(); err != nil {
			return err
		}
	} else if err := q.silence(true); err != nil {
		return err
	}
	q.on = true
	q.since = append(q.since, r)
	return nil
}

func (q *silence) remove(r *ruleState) {
	rest := q.since[:0]
	for _, o := range q.since {
		if o != r {
			rest = append(rest, o)
		}
	}
	q.since = rest
	if q.on && len(rest) == 0 {
		q.on = false
		// The socket may have ended meanwhile; then there is nothing to heal.
		_ = q.silence(false)
	}
}

// end is the one way into the end of a flow; it reports whether the caller is the one to end it.
func (s *stream) end() bool {
	if !s.ended.CompareAndSwap(false, true) {
		return false
	}
	close(s.severed)
	s.part()
	s.up.wakeAll()
	s.down.wakeAll()
	return true
}

// part brings all bytes back to the relay.
func (s *stream) part() {
	s.parting.Store(true)
	s.up.past.leave()
	s.down.past.leave()
}

// finish closes both connections in good order, after both ways have ended by FIN.
func (s *stream) finish() {
	if !s.end() {
		return
	}
	s.emit(Record{Op: OpClose})
	s.shut(false)
}

// reset closes both connections by RST; rule is what wanted it, or nil where way's sender did.
func (s *stream) reset(way fault.Direction, r *ruleState, op Op) {
	if !s.end() {
		return
	}
	// The record comes first: who sees the RST may ask at once whether the rule fired.
	s.report(way, r, op)
	s.shut(true)
}

// cut ends both ways by FIN and reads on for a moment.
func (s *stream) cut(way fault.Direction, r *ruleState) {
	if !s.end() {
		return
	}
	s.report(way, r, OpCut)
	// Errors say that the other end is gone already.
	_ = s.c.CloseWrite()
	_ = s.s.CloseWrite()
	drained := make(chan struct{})
	s.net.running.Go(func() {
		s.readers.Wait()
		close(drained)
	})
	s.net.running.Go(func() {
		late, stop := s.net.cfg.Clock.After(drainTime)
		defer stop()
		select {
		case <-drained:
		case <-late:
		}
		s.shut(false)
	})
}

func (s *stream) report(way fault.Direction, r *ruleState, op Op) {
	rec := Record{Op: op, Direction: way}
	if r != nil {
		rec.Rule = r.rule.ID
		if count, first := r.fireOnce(place{Flow: s.flow}); first {
			s.net.emit(Record{Op: OpFired, Flow: s.flow, Direction: way, Rule: rec.Rule, Count: count})
		}
	}
	if op == OpReset || r != nil && r.rule.Link.Effect.How == "rst" {
		rec.Errno = "ECONNRESET"
	}
	s.emit(rec)
}

// emit completes a record of the flow's end.
func (s *stream) emit(r Record) {
	r.Flow = s.flow
	r.Up, r.Down = s.up.total(), s.down.total()
	r.Bytes = r.Up + r.Down
	s.net.emit(r)
}

func (s *stream) shut(rst bool) {
	for _, c := range []Conn{s.c, s.s} {
		if rst {
			_ = c.SetLinger(0)
		}
		_ = c.Close()
	}
	s.net.forget(s)
}

func (s *stream) sever() {
	if s.end() {
		s.shut(true)
	}
}

// resetByPeer tells whether an error of a connection says that its other end is gone by RST.
func resetByPeer(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
