package link

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/squallhq/squall/fault"
)

// DatagramConn is one of the two connected datagram sockets that a relay joins; *net.UDPConn is one.
type DatagramConn = io.ReadWriteCloser

const (
	maxDatagram = 64 << 10
	// maxWaiting bounds the bytes of datagrams that wait; beyond, they are lost as in a full queue.
	maxWaiting = 1 << 20
)

// datagrams is a datagram flow being relayed.
type datagrams struct {
	net      *Network
	flow     Flow
	ways     [2]*lane
	ended    atomic.Bool
	severed  chan struct{}
	onceShut sync.Once
}

// lane is one direction of a datagram flow: a reader feeds the chain, a writer delivers.
type lane struct {
	of       *datagrams
	way      fault.Direction
	src, dst DatagramConn
	moved    atomic.Int64
	wake     chan struct{}

	mu    sync.Mutex
	chain *Chain
	rules map[string]*ruleState // that ever were in force
	index int64
	// overran says that a datagram was lost for want of room, which is recorded once.
	overran bool
}

// RelayDatagram joins the two connected sockets of a datagram flow; it returns at once and owns both
// from then on. The flow lasts until a socket is closed or the network is.
func (n *Network) RelayDatagram(flow Flow, client, server DatagramConn) error {
	d := &datagrams{net: n, flow: flow, severed: make(chan struct{})}
	for i, way := range []fault.Direction{fault.Up, fault.Down} {
		l := &lane{of: d, way: way, src: client, dst: server, wake: make(chan struct{}, 1), rules: map[string]*ruleState{}}
		if way == fault.Down {
			l.src, l.dst = server, client
		}
		l.chain = NewChain(l.acted)
		d.ways[i] = l
	}
	if err := n.start(d, 4); err != nil {
		d.sever()
		return err
	}
	for _, l := range d.ways {
		go l.read()
		go l.deliver()
	}
	return nil
}

func (d *datagrams) identity() Flow { return d.flow }

func (d *datagrams) watch() bool { return false }

func (d *datagrams) install(r *ruleState) error {
	if !r.row().Datagram {
		return nil
	}
	e, flow := r.rule.Link.Effect, d.flow.String()
	for _, l := range d.ways {
		if !r.covers(d.flow.Client, l.way) {
			continue
		}
		s := NewStage(r.rule.ID, e, Setting{
			Draw:     Draws(r.seed, r.rule.ID, flow, l.way),
			Datagram: true,
			Hit:      func(index int64) bool { return r.hitsDatagram(flow, l.way, index) },
		})
		l.mu.Lock()
		l.rules[r.rule.ID] = r
		l.chain.Add(r.rule.ID, e.Kind, s)
		l.mu.Unlock()
	}
	return nil
}

func (d *datagrams) lift(r *ruleState) {
	for _, l := range d.ways {
		l.mu.Lock()
		l.chain.Remove(d.net.cfg.Clock.Now(), r.rule.ID)
		l.mu.Unlock()
		if isSilent(r.rule.Link.Effect.Kind) && r.actedAt(place{d.flow, l.way}) {
			d.net.emit(Record{Op: OpHeal, Flow: d.flow, Direction: l.way, Rule: r.rule.ID})
		}
		l.nudge()
	}
}

func (d *datagrams) sever() {
	d.ended.Store(true)
	d.onceShut.Do(func() {
		close(d.severed)
		// Closing twice, where a program closed first, is harmless.
		_ = d.ways[0].src.Close()
		_ = d.ways[1].src.Close()
	})
}

// finish ends the flow after a socket has failed for good.
func (d *datagrams) finish() {
	if d.ended.CompareAndSwap(false, true) {
		up, down := d.ways[0].moved.Load(), d.ways[1].moved.Load()
		d.net.emit(Record{Op: OpClose, Flow: d.flow, Bytes: up + down, Up: up, Down: down})
		d.sever()
		d.net.forget(d)
	}
}

func (l *lane) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// acted is called by the chain, with mu held. Each datagram of a datagram effect counts; the first of a
// flow and direction is recorded.
func (l *lane) acted(rule string, kind fault.LinkKind, p Packet) {
	r := l.rules[rule]
	at := place{l.of.flow, l.way}
	count, first := r.fireOnce(at)
	if !first && kind != fault.Latency && kind != fault.Bandwidth {
		count = r.fire()
	}
	if !first {
		return
	}
	rec := Record{
		Op: OpFired, Flow: l.of.flow, Direction: l.way, Rule: rule,
		Bytes: int64(len(p.Data)), Index: p.Index, Count: count,
	}
	l.of.net.emit(rec)
	switch kind {
	case fault.Loss:
		rec.Op = OpDrop
	case fault.Duplicate:
		rec.Op = OpDuplicate
	case fault.Reorder:
		rec.Op = OpReorder
	case fault.Blackhole, fault.Partition:
		rec.Op = OpStall
	default:
		return
	}
	l.of.net.emit(rec)
}

func (l *lane) read() {
	defer l.of.net.running.Done()
	buf := make([]byte, maxDatagram)
	for {
		n, err := l.src.Read(buf)
		if err != nil {
			if aboutDatagram(err) && !l.of.ended.Load() {
				continue
			}
			l.of.finish()
			return
		}
		l.take(buf[:n])
	}
}

// aboutDatagram tells errors that a single datagram met on its way (ICMP) from those of the socket.
func aboutDatagram(err error) bool {
	for _, e := range []syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EMSGSIZE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *lane) take(data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Packet{Data: slices.Clone(data), Index: l.index}
	l.index++
	if l.chain.Held()+len(data) > maxWaiting {
		if !l.overran {
			l.overran = true
			l.of.net.emit(Record{
				Op: OpDrop, Flow: l.of.flow, Direction: l.way, Bytes: int64(len(data)), Index: p.Index, Errno: "ENOBUFS",
			})
		}
		return
	}
	l.chain.Push(l.of.net.cfg.Clock.Now(), p)
	l.nudge()
}

func (l *lane) deliver() {
	defer l.of.net.running.Done()
	clock := l.of.net.cfg.Clock
	for {
		l.mu.Lock()
		now := clock.Now()
		o, ok := l.chain.Pop(now)
		next, timed := l.chain.Next()
		l.mu.Unlock()
		switch {
		case ok && o.Verb == Pass:
			// Counted before, so that who has received it finds it counted. A refusal is the receiver's
			// affair, as on a real network.
			l.moved.Add(int64(len(o.Packet.Data)))
			_, _ = l.dst.Write(o.Packet.Data)
			continue
		case ok:
			continue
		case l.pause(next-now, timed):
			return
		}
	}
}

// pause waits for a time, or for something new; it reports whether the flow has ended.
func (l *lane) pause(d time.Duration, timed bool) bool {
	if !timed {
		select {
		case <-l.wake:
			return false
		case <-l.of.severed:
			return true
		}
	}
	tick, stop := l.of.net.cfg.Clock.After(d)
	defer stop()
	select {
	case <-tick:
	case <-l.wake:
	case <-l.of.severed:
		return true
	}
	return false
}
