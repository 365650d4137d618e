package join

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Lane is one direction of a connection. Its gate is shut at first.
type Lane struct {
	k      *Kernel
	number uint32
	cookie uint64
	key    key

	mu sync.Mutex
	// base is how much the source sent that the program did not count; known says that it has been found out.
	base   uint64
	known  bool
	barred bool
	gone   bool
	paused uint64 // the gate as it was, 0 where it was not open

	// Guarded by Kernel.mu: once the number is another's, last is what the lane has carried.
	reused bool
	last   int64
}

// Enter makes a lane of a program's socket and the relay's socket that leads to its receiver. The lane does not open
// before Settle. The caller may close source afterwards.
func (k *Kernel) Enter(source, target int) (*Lane, error) {
	if err := suits(source); err != nil {
		return nil, err
	}
	cookie, err := unix.GetsockoptUint64(source, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return nil, fmt.Errorf("%w: cookie: %w", ErrSocket, err)
	}
	at, err := keyOf(source)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSocket, err)
	}
	n, err := k.take()
	if err != nil {
		return nil, fmt.Errorf("join: lane: %w", err)
	}
	l := &Lane{k: k, number: n, cookie: cookie, key: at}
	if err := k.put(l, source, target); err != nil {
		l.Leave()
		return nil, fmt.Errorf("%w: %w", ErrSocket, err)
	}
	return l, nil
}

// suits tells whether a program's socket is one whose sends and receives the kernel's replacements do justice to.
func suits(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		return fmt.Errorf("%w: blocking", ErrSocket)
	}
	if ulp, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP); err != nil || ulp != "" {
		return fmt.Errorf("%w: upper layer %q", ErrSocket, ulp)
	}
	if v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY); err != nil || v != 0 {
		return fmt.Errorf("%w: zero copy", ErrSocket)
	}
	return nil
}

// Counts reports whether the program has counted something that the source sent.
func (l *Lane) Counts() bool { return l.gate().Load() > 0 }

// Settle finds out how much the source sent without its being counted: all before Enter, and what a call sent that was
// on its way into the kernel then. That is possible once Counts, since by then such a call of the sender is over. Where
// the count does not come out the lane is left.
func (l *Lane) Settle(source int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone || l.known {
		return
	}
	cookie, err := unix.GetsockoptUint64(source, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil || cookie != l.cookie {
		l.leave()
		return
	}
	// The program counts within the socket's lock, which written takes too: where the count is the same after as
	// before, all that it counts has been written.
	for range 16 {
		before := l.gate().Load()
		sent, err := written(source)
		if err != nil || sent < before {
			break
		}
		if l.gate().Load() == before {
			l.base, l.known = sent-before, true
			return
		}
	}
	l.leave()
}

// written returns how many bytes have been written to a TCP socket so far.
func written(fd int) (uint64, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrSocket, err)
	}
	return info.Bytes_sent - info.Bytes_retrans + uint64(info.Notsent_bytes), nil
}

func (l *Lane) gate() *atomic.Uint64 { return l.k.at(l.number, offGate) }

// Open opens the gate if all that was sent past it has been delivered: taken is how many bytes the relay has
// read from the connection since it began, all of which it has written to target.
func (l *Lane) Open(taken uint64, target int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone || l.barred || !l.known || taken < l.base {
		return
	}
	delivered, passed := taken-l.base, l.gate().Load()
	if passed != delivered {
		if passed&gateOpen == 0 && passed < delivered {
			l.leave() // more came than was sent: this is not the connection that we take it for
		}
		return
	}
	size, queued, err := sendBuffer(target)
	if err != nil || queued > size/4 {
		return
	}
	l.k.at(l.number, offBudget).Store(min(size/4, largestBudget))
	l.paused = 0
	l.gate().CompareAndSwap(delivered, delivered|gateOpen)
}

// Pause shuts the gate until Resume or Open.
func (l *Lane) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = 0
	if !l.gone {
		if was := l.gate().And(^gateOpen); was&gateOpen != 0 {
			l.paused = was
		}
	}
}

// Resume undoes Pause, unless something has passed the gate since.
func (l *Lane) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was := l.paused; was != 0 && !l.gone && !l.barred {
		l.gate().CompareAndSwap(was&^gateOpen, was)
	}
	l.paused = 0
}

// Bar shuts the gate until Unbar. What is sent once it has returned goes to the relay.
func (l *Lane) Bar() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.barred = true
	if !l.gone {
		l.gate().And(^gateOpen)
	}
}

// Unbar lets Open open the gate again.
func (l *Lane) Unbar() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.barred = false
}

// Leave gives the source back to plain TCP, for good. The target stays where it is until it is closed, since a send
// may be on its way there.
func (l *Lane) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.leave()
	}
}

func (l *Lane) leave() {
	l.gone = true
	l.gate().And(^gateOpen)
	l.k.left(l)
}

// Carried returns how many bytes went past the relay.
func (l *Lane) Carried() int64 {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if l.reused {
		return l.last
	}
	return int64(l.k.at(l.number, offCarried).Load())
}
