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

const (
	// firstBuffer and lastBuffer are the sizes of a direction's read buffer: it grows while reads fill it.
	firstBuffer = 16 << 10
	lastBuffer  = 64 << 10
	// maxHeld bounds what a direction withholds; beyond, the sender feels backpressure.
	maxHeld = 1 << 20
)

// half is one direction of a stream. While no rule is in force its reader copies by itself; else the
// reader feeds the chain and a writer delivers.
type half struct {
	stream *stream
	way    fault.Direction
	src    source
	dst    sink
	moved  atomic.Int64
	// direct says that the reader may write to dst itself. It is set and cleared under mu.
	direct atomic.Bool
	wake   chan struct{}
	// past is the way past the relay, nil where there is none.
	past *shortcut

	mu         sync.Mutex
	room       sync.Cond
	chain      *Chain
	rules      []*ruleState          // in force
	known      map[string]*ruleState // that ever were
	delivering struct {
		on    bool // the writer runs
		bytes int  // what it is delivering
	}
	index int64
}

// source is where a half reads, sink where it writes.
type source struct {
	Conn
	*sentinel
}

type sink struct {
	Conn
	*prober
}

func newHalf(s *stream, way fault.Direction, src, dst Conn) *half {
	h := &half{stream: s, way: way, wake: make(chan struct{}, 1), known: map[string]*ruleState{}}
	h.src, h.dst = source{src, newSentinel(src)}, sink{dst, newProber(dst)}
	h.room.L = &h.mu
	h.chain = NewChain(h.acted)
	h.direct.Store(true)
	h.past = newShortcut(h, src, dst)
	return h
}

// other is the other direction.
func (h *half) other() *half {
	if h.way == fault.Up {
		return h.stream.down
	}
	return h.stream.up
}

// total is how many bytes went this way, through the relay and past it.
func (h *half) total() int64 { return h.moved.Load() + h.past.carried() }

// receive is Read of the source.
func (h *half) receive(buf []byte) (int, error) {
	if h.past != nil {
		return h.past.read(buf)
	}
	return h.src.Read(buf)
}

// install is called with Network.mu held, as is lift.
func (h *half) install(r *ruleState) {
	e := r.rule.Link.Effect
	h.mu.Lock()
	defer h.mu.Unlock()
	s := NewStage(r.rule.ID, e, Setting{
		Draw:    Draws(r.seed, r.rule.ID, h.stream.flow.String(), h.way),
		Began:   h.now(),
		Carried: h.stream.up.total()+h.stream.down.total() > 0,
	})
	if s == nil {
		return
	}
	if e.Kind == fault.Bandwidth {
		narrow(h.src.Conn, h.dst.Conn, e.BytesPerSecond)
	}
	h.direct.Store(false)
	h.past.bar()
	h.rules = append(h.rules, r)
	h.known[r.rule.ID] = r
	h.chain.Add(r.rule.ID, e.Kind, s)
	h.startWriter()
	h.nudge()
}

func (h *half) lift(r *ruleState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.rules, r)
	if i < 0 {
		return
	}
	held := h.chain.Remove(h.now(), r.rule.ID)
	h.rules = slices.Delete(h.rules, i, i+1)
	if isSilent(r.rule.Link.Effect.Kind) && r.actedAt(place{h.stream.flow, h.way}) {
		h.stream.net.emit(Record{
			Op: OpHeal, Flow: h.stream.flow, Direction: h.way, Rule: r.rule.ID, Bytes: int64(held),
		})
	}
	h.nudge()
	h.room.Broadcast()
}

// startWriter is called with mu held.
func (h *half) startWriter() {
	if h.delivering.on || h.stream.ended.Load() {
		return
	}
	h.delivering.on = true
	h.stream.net.running.Go(h.deliver)
}

func (h *half) nudge() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *half) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nudge()
	h.room.Broadcast()
}

func (h *half) now() time.Duration { return h.stream.net.cfg.Clock.Now() }

// acted is called by the chain, with mu held.
func (h *half) acted(rule string, kind fault.LinkKind, p Packet) {
	if kind == fault.Cut || kind == fault.Reset {
		return // these fire when they are carried out
	}
	h.fired(h.known[rule], opOf(kind), int64(len(p.Data)))
}

// opOf names what the first act of an effect looks like on a stream; "" is nothing to tell beyond that it fired.
func opOf(k fault.LinkKind) Op {
	if isSilent(k) {
		return OpStall
	}
	return ""
}

// fired notes that a rule acted on this direction; the first time is recorded.
func (h *half) fired(r *ruleState, op Op, bytes int64) {
	count, first := r.fireOnce(place{h.stream.flow, h.way})
	if !first {
		return
	}
	rec := Record{Flow: h.stream.flow, Direction: h.way, Rule: r.rule.ID, Bytes: bytes, Count: count}
	rec.Op = OpFired
	h.stream.net.emit(rec)
	if op != "" {
		rec.Op = op
		h.stream.net.emit(rec)
	}
}

// read is the reader.
func (h *half) read() {
	buf := make([]byte, firstBuffer)
	for {
		n, err := h.receive(buf)
		if n > 0 && !h.forward(buf[:n]) {
			return
		}
		if n > 0 {
			h.past.delivered(n)
		}
		if err != nil {
			h.stream.part()
			h.sourceEnded(err)
			return
		}
		if n == len(buf) && n < lastBuffer {
			buf = make([]byte, 2*n)
		}
	}
}

// forward hands on what was read; false says that reading has no more purpose.
func (h *half) forward(data []byte) bool {
	if h.direct.Load() || h.regain() {
		return h.write(data)
	}
	return h.push(Packet{Data: slices.Clone(data)})
}

// regain returns to copying once no rule is in force and all that was withheld is delivered.
func (h *half) regain() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.chain.Bare() || h.delivering.bytes > 0 {
		return false
	}
	h.direct.Store(true)
	h.past.unbar()
	return true
}

// write delivers to dst. Where that fails the other end of dst is gone, and the sender is told as its
// own kernel would have: by RST.
func (h *half) write(data []byte) bool {
	if h.stream.ended.Load() {
		return true // a cut reads on for a moment
	}
	// Counted before, so that who has received them finds them counted.
	h.moved.Add(int64(len(data)))
	n, err := h.put(data)
	h.moved.Add(int64(n - len(data)))
	if err == nil || h.stream.dying.Load() {
		return true
	}
	h.stream.reset(opposite(h.way), nil, OpReset)
	return false
}

// put writes to dst; where that has to wait, src is watched for a reset meanwhile.
func (h *half) put(data []byte) (int, error) {
	n := h.dst.try(data)
	if n == len(data) {
		return n, nil
	}
	if h.direct.Load() {
		defer h.src.watch(h.sourceReset)()
	}
	m, err := h.dst.Write(data[n:])
	return n + m, err
}

// sourceReset is told that src was reset while nobody read from it.
func (h *half) sourceReset() { h.sourceEnded(syscall.ECONNRESET) }

func opposite(d fault.Direction) fault.Direction {
	if d == fault.Up {
		return fault.Down
	}
	return fault.Up
}

// push sends a packet into the chain, waiting for room first where it has data.
func (h *half) push(p Packet) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	full := func() bool {
		return len(p.Data) > 0 && h.chain.Room(maxHeld)-h.delivering.bytes <= 0 && !h.stream.ended.Load()
	}
	if full() {
		h.mu.Unlock()
		stop := h.src.watch(h.sourceReset)
		h.mu.Lock()
		for full() {
			h.room.Wait()
		}
		h.mu.Unlock()
		stop()
		h.mu.Lock()
	}
	if h.stream.ended.Load() {
		return true
	}
	p.Index = h.index
	h.index++
	h.chain.Push(h.now(), p)
	h.startWriter()
	h.nudge()
	return true
}

// sourceEnded handles the end of reading: EOF is FIN, a reset is RST, anything else (such as the
// relay's own time-out) ends the connection too.
func (h *half) sourceEnded(err error) {
	if h.stream.ended.Load() {
		return
	}
	p := Packet{Kind: Rst}
	if errors.Is(err, io.EOF) {
		p.Kind = Fin
	}
	if h.direct.Load() || h.regain() {
		h.carryOut(Outcome{Packet: p})
		return
	}
	if p.Kind == Fin {
		h.push(p)
		return
	}
	if h.stream.dying.CompareAndSwap(false, true) {
		h.push(p)
		h.stream.net.running.Go(h.overtake)
	}
}

// overtakeTime is how long a RST that has come through the stages lets the writer deliver what is ahead of it.
const overtakeTime = 10 * time.Millisecond

// overtake carries out a RST that has come through the stages where the writer does not get to it, as it waits
// for a receiver who does not read.
func (h *half) overtake() {
	for due := 0; due < 2; {
		tick, stop := h.stream.net.cfg.Clock.After(overtakeTime)
		select {
		case <-tick:
		case <-h.stream.severed:
			stop()
			return
		}
		h.mu.Lock()
		if h.chain.resetDue(h.now()) {
			due++
		}
		h.mu.Unlock()
	}
	h.stream.reset(h.way, nil, OpReset)
}

// deliver is the writer: it carries out what leaves the chain, each at its time.
func (h *half) deliver() {
	for {
		h.mu.Lock()
		h.delivering.bytes = 0
		h.room.Broadcast()
		if h.stream.ended.Load() || h.chain.Bare() {
			h.delivering.on = false
			h.mu.Unlock()
			return
		}
		now := h.now()
		o, ok := h.chain.Pop(now)
		if ok {
			h.delivering.bytes = max(len(o.Packet.Data), 1)
			h.mu.Unlock()
			h.carryOut(o)
			continue
		}
		next, timed := h.chain.Next()
		h.mu.Unlock()
		if !timed {
			select {
			case <-h.wake:
			case <-h.stream.severed:
			}
			continue
		}
		tick, stop := h.stream.net.cfg.Clock.After(next - now)
		select {
		case <-tick:
		case <-h.wake:
		case <-h.stream.severed:
		}
		stop()
	}
}

// carryOut does to dst what an outcome says.
func (h *half) carryOut(o Outcome) {
	switch {
	case o.Verb == Reset:
		r := h.ruleOf(o.Rule)
		op := OpReset
		if r != nil && r.rule.Link.Effect.Kind == fault.Cut {
			op = OpCut
			flush(h.dst.Conn, h.stream.net.cfg.Clock)
		}
		h.stream.reset(h.way, r, op)
	case o.Verb == Finish:
		h.stream.cut(h.way, h.ruleOf(o.Rule))
	case o.Verb == Drop:
	case o.Packet.Kind == Rst:
		h.stream.reset(h.way, nil, OpReset)
	case o.Packet.Kind == Fin:
		// An error says that dst is gone, which its own reader finds out.
		_ = h.dst.CloseWrite()
		if h.stream.finished.Add(1) == 2 {
			h.stream.finish()
		}
	default:
		h.write(o.Packet.Data)
	}
}

func (h *half) ruleOf(id string) *ruleState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[id]
}
