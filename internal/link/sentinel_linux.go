package link

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// deadliner is a connection whose waiting reads can be woken.
type deadliner interface{ SetReadDeadline(time.Time) error }

// sentinel sees a connection's reset while nobody reads from it, because what was read before cannot be
// delivered yet. Without it a reset would wait behind the data that it is to overtake.
type sentinel struct {
	src deadliner
	raw syscall.RawConn
	// other is who reads from the socket all the time, and so knows.
	other *mediated
}

// newSentinel returns nil for a connection that is no socket.
func newSentinel(c Conn) *sentinel {
	if m, ok := c.(*mediated); ok {
		return &sentinel{other: m}
	}
	sc, ok := c.(syscall.Conn)
	d, okD := c.(deadliner)
	if !ok || !okD {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return &sentinel{src: d, raw: raw}
}

// watch calls reset if the connection is reset before the returned function is called. That function
// waits until the watch is over; reading works again then.
func (s *sentinel) watch(reset func()) (stop func()) {
	if s == nil {
		return func() {}
	}
	if s.other != nil {
		return s.other.Watch(reset)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		gone := false
		// Called now, and again whenever something arrives.
		_ = s.raw.Read(func(fd uintptr) bool {
			gone = wasReset(int(fd))
			return gone
		})
		if gone {
			reset()
		}
	}()
	return func() {
		// Errors say that the connection is closed, which ends the watch too.
		_ = s.src.SetReadDeadline(time.Unix(1, 0))
		<-over
		_ = s.src.SetReadDeadline(time.Time{})
	}
}

// wasReset reports whether a connection ended by an error. One whose both ways ended in order is closed
// too, but has none. The error is taken from the socket.
func wasReset(fd int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.State != unix.BPF_TCP_CLOSE {
		return false
	}
	pending, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return err == nil && pending != 0
}

// prober writes to a socket as much as it takes at once.
type prober struct {
	raw  syscall.RawConn
	call func(fd uintptr)
	data []byte
	n    int
}

// newProber returns nil for a connection that is no socket.
func newProber(c Conn) *prober {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &prober{raw: raw}
	p.call = func(fd uintptr) {
		p.n, _ = unix.Write(int(fd), p.data)
	}
	return p
}

// try returns how much was written. Errors are left to the write that follows.
func (p *prober) try(data []byte) int {
	if p == nil {
		return 0
	}
	p.data, p.n = data, 0
	if err := p.raw.Control(p.call); err != nil {
		return 0
	}
	p.data = nil
	return max(p.n, 0)
}
