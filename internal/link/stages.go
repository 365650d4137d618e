package link

import (
	"time"
)

// latency makes each delivery arrive later. Order is kept: a packet waits for those ahead of it.
type latency struct {
	queue
	delay, jitter time.Duration
	draw          Draw
}

func (l *latency) Take(at time.Duration, p Packet) bool {
	d := l.delay
	if l.jitter > 0 {
		d += time.Duration(l.draw(p.Index, "jitter") * float64(l.jitter))
	}
	l.pass(at+d, p)
	return d > 0
}

// bandwidth serializes bytes at a rate, in portions of 10 ms so that a stream trickles. Only what
// passes is charged. Datagrams stay whole; those that find the queue full are lost.
type bandwidth struct {
	queue
	rule     string
	rate     int64
	datagram bool
	// began, sent and free describe the busy period: so many bytes since began keep the wire busy until free.
	began, free time.Duration
	sent        int64
}

func newBandwidth(rule string, rate int64, datagram bool) *bandwidth {
	return &bandwidth{rule: rule, rate: max(rate, 1), datagram: datagram}
}

// window is how much may wait for the wire: a tenth of a second's worth, within bounds.
func (b *bandwidth) window() int {
	return int(min(max(b.rate/10, 2<<10), 256<<10))
}

func (b *bandwidth) Take(at time.Duration, p Packet) bool {
	switch {
	case p.Kind == Rst:
		// What a sender that resets has not put on the wire is gone.
		b.items, b.bytes, b.free = nil, 0, at
		b.pass(at, p)
		return false
	case p.Kind == Fin:
		b.pass(max(at, b.free), p)
		return false
	case b.datagram && b.bytes > 0 && b.bytes+len(p.Data) > b.window():
		b.put(Outcome{At: at, Verb: Drop, Packet: p, Rule: b.rule})
		return true
	}
	if at >= b.free {
		b.began, b.sent = at, 0
	}
	portion := int(min(max(b.rate/100, 1), 64<<10))
	if b.datagram {
		portion = max(len(p.Data), 1)
	}
	rest := p.Data
	for first := true; first || len(rest) > 0; first = false {
		n := min(portion, len(rest))
		b.charge(int64(n))
		b.pass(b.free, Packet{Data: rest[:n:n], Index: p.Index})
		rest = rest[n:]
	}
	return true
}

// charge keeps the wire busy for n more bytes. Whole seconds are moved from sent to began, which is
// exact and keeps the product in range.
func (b *bandwidth) charge(n int64) {
	b.sent += n
	whole := b.sent / b.rate
	b.began += time.Duration(whole) * time.Second
	b.sent -= whole * b.rate
	b.free = b.began + time.Duration(float64(b.sent)/float64(b.rate)*float64(time.Second))
}

// gate lets nothing pass. Streams are withheld until the rule ends, datagrams are lost.
type gate struct {
	queue
	rule  string
	lossy bool
}

func (g *gate) Take(at time.Duration, p Packet) bool {
	if g.lossy {
		g.put(Outcome{At: at, Verb: Drop, Packet: p, Rule: g.rule})
	} else {
		g.put(Outcome{At: Never, Packet: p})
	}
	return true
}

// ending lets so many bytes pass and then ends the connection. With none to let pass it acts on the
// first byte of a new connection, and at once on one that has carried bytes already.
type ending struct {
	queue
	rule string
	verb Verb
	left int64
	over bool
}

func newEnding(rule string, verb Verb, after int64, s Setting) *ending {
	e := &ending{rule: rule, verb: verb, left: after}
	if after == 0 && s.Carried {
		e.end(s.Began)
	}
	return e
}

func (e *ending) end(at time.Duration) {
	e.over = true
	e.put(Outcome{At: at, Verb: e.verb, Rule: e.rule})
}

func (e *ending) Take(at time.Duration, p Packet) bool {
	if e.over {
		return false
	}
	if p.Kind != Data || int64(len(p.Data)) < e.left {
		e.left -= int64(len(p.Data))
		e.pass(at, p)
		return false
	}
	if e.left > 0 {
		e.pass(at, Packet{Data: p.Data[:e.left], Index: p.Index})
		e.left = 0
	}
	e.end(at)
	return true
}

// loss loses datagrams.
type loss struct {
	queue
	rule string
	hit  func(index int64) bool
}

func (l *loss) Take(at time.Duration, p Packet) bool {
	if !l.hit(p.Index) {
		l.pass(at, p)
		return false
	}
	l.put(Outcome{At: at, Verb: Drop, Packet: p, Rule: l.rule})
	return true
}

// duplicate makes copies that follow the datagram at once.
type duplicate struct {
	queue
	copies int
	hit    func(index int64) bool
}

func (d *duplicate) Take(at time.Duration, p Packet) bool {
	d.pass(at, p)
	if !d.hit(p.Index) {
		return false
	}
	for range d.copies {
		d.pass(at, p)
	}
	return true
}

// reorderPatience is how long a datagram waits to be overtaken before it goes on anyway.
const reorderPatience = 100 * time.Millisecond

// reorder holds a datagram until count later ones have overtaken it, or patience ends.
type reorder struct {
	queue
	count int
	hit   func(index int64) bool
	late  []straggler
}

type straggler struct {
	until time.Duration
	left  int
	p     Packet
}

func (r *reorder) Take(at time.Duration, p Packet) bool {
	r.expire(at)
	if r.hit(p.Index) {
		r.late = append(r.late, straggler{at + reorderPatience, r.count, p})
		r.bytes += len(p.Data)
		return true
	}
	r.pass(at, p)
	for i := range r.late {
		r.late[i].left--
	}
	r.release(at, func(s straggler) bool { return s.left <= 0 })
	return false
}

func (r *reorder) expire(at time.Duration) {
	for len(r.late) > 0 && r.late[0].until <= at {
		s := r.late[0]
		r.late = r.late[1:]
		r.bytes -= len(s.p.Data)
		r.pass(s.until, s.p)
	}
}

func (r *reorder) release(at time.Duration, when func(straggler) bool) {
	rest := r.late[:0]
	for _, s := range r.late {
		if !when(s) {
			rest = append(rest, s)
			continue
		}
		r.bytes -= len(s.p.Data)
		r.pass(at, s.p)
	}
	r.late = rest
}

func (r *reorder) Next() (time.Duration, bool) {
	if at, ok := r.queue.Next(); ok {
		return at, true
	}
	if len(r.late) > 0 {
		return r.late[0].until, true
	}
	return 0, false
}

func (r *reorder) Give() Outcome {
	if len(r.items) == 0 {
		r.expire(r.late[0].until)
	}
	return r.queue.Give()
}

func (r *reorder) Lift() []Packet {
	out := r.queue.Lift()
	for _, s := range r.late {
		out = append(out, s.p)
	}
	r.late = nil
	return out
}

// sift puts the limits of a rule before its stage: a datagram that they do not select passes by. The
// effects on single datagrams look at the limits themselves, as a reorder has to count those that pass.
type sift struct {
	Stage
	hit func(index int64) bool
	by  queue
}

func (s *sift) Take(at time.Duration, p Packet) bool {
	if p.Kind == Data && !s.hit(p.Index) {
		s.by.pass(at, p)
		return false
	}
	return s.Stage.Take(at, p)
}

func (s *sift) Next() (time.Duration, bool) {
	a, okA := s.by.Next()
	b, okB := s.Stage.Next()
	if !okA || okB && b < a {
		return b, okB
	}
	return a, true
}

func (s *sift) Give() Outcome {
	a, okA := s.by.Next()
	if b, okB := s.Stage.Next(); !okA || okB && b < a {
		return s.Stage.Give()
	}
	return s.by.Give()
}

func (s *sift) Lift() []Packet { return append(s.by.Lift(), s.Stage.Lift()...) }

func (s *sift) Held() int { return s.by.Held() + s.Stage.Held() }
