package wire

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squallhq/squall/internal/vtime"
)

// Nobody inside a world can tell that its supervisor hangs or was stopped, and no timeout of it would
// still fire. So it sends a beat each second, and the outer process kills what is silent. A second
// watch stands inside: what lives but is far beyond its time ends itself and says what it hangs at.
//
// Both count beats and not the time that has passed: a machine that is overloaded, asleep or stopped
// as a whole misses a beat or two, and never all of them.
const (
	beatEvery = time.Second
	// silenceLimit is how long a world may be silent.
	silenceLimit = 30 * time.Second
	// Patience is how long after its own limit a phase may still end by itself.
	Patience = time.Minute
)

// watch reads from a world and notices its silence.
type watch struct {
	from io.Reader
	// waiting is set while a read waits: only then it is the world that is silent, and not the reader
	// that has no time for it. heard counts the reads that ended.
	waiting atomic.Bool
	heard   atomic.Int64
	// silent is set once the world has been given up.
	silent atomic.Bool
}

// Read implements io.Reader.
func (w *watch) Read(p []byte) (int, error) {
	w.waiting.Store(true)
	n, err := w.from.Read(p)
	w.heard.Add(1)
	w.waiting.Store(false)
	return n, err
}

// guard calls kill once nothing was heard for so long, and returns then or when done is closed.
func (w *watch) guard(clock vtime.Clock, limit time.Duration, done <-chan struct{}, kill func()) {
	var heard int64
	for missing := time.Duration(0); missing < limit; {
		if !tick(clock, done) {
			return
		}
		missing += beatEvery
		if n := w.heard.Load(); n != heard || !w.waiting.Load() {
			heard, missing = n, 0
		}
	}
	w.silent.Store(true)
	kill()
}

// tick waits for the time of a beat; false means that done was closed.
func tick(clock vtime.Clock, done <-chan struct{}) bool {
	next, cancel := clock.After(beatEvery)
	defer cancel()
	select {
	case <-next:
		return true
	case <-done:
		return false
	}
}

// Pulse shows that a world lives, and knows what it has to be done with by when.
type Pulse struct {
	mu sync.Mutex
	// left is how many beats there are until the leaf is overdue, 0 for any number; what says at what.
	left int
	what string
	// touch, where it is set, takes each lock of the leaf for a moment: who holds one for ever keeps the
	// beats from coming.
	touch func()
}

// Expect sets a limit to what comes now, in place of the one before; 0 for none.
func (p *Pulse) Expect(within time.Duration, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.what = int(within/beatEvery), what
}

// With sets what takes each lock of the leaf for a moment.
func (p *Pulse) With(touch func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touch = touch
}

// Expected returns the limit to what comes now, 0 for none, and what it is.
func (p *Pulse) Expected() (within time.Duration, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.left) * beatEvery, p.what
}

// beat counts a beat; late says what the leaf hangs at once its time is over.
func (p *Pulse) beat() (late string) {
	p.mu.Lock()
	left, what, touch := p.left-1, p.what, p.touch
	if left >= 0 {
		p.left = left
	}
	p.mu.Unlock()
	if touch != nil {
		touch()
	}
	if left == 0 {
		return what
	}
	return ""
}

// Run sends beats until done is closed, or calls give up with what the leaf hangs at.
func (p *Pulse) Run(clock vtime.Clock, out *Frames, done <-chan struct{}, giveUp func(late string)) {
	for tick(clock, done) {
		if late := p.beat(); late != "" {
			giveUp(late)
			return
		}
		out.Send(Frame{Beat: true})
		_ = out.Flush()
	}
}
