package link

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link/join"
)

// Peered is a connection to a program whose own socket can be found.
type Peered interface {
	// Peer returns a duplicate of that socket. It delays the end of the connection, so it is closed soon.
	Peer() (int, error)
}

const (
	// joinFactor is how many times as many small reads it takes until it is tried again to get a lane.
	joinFactor = 4
	// smallRead is the size of a read that looks like a message and not like bulk; after so many larger ones in a
	// row the lane is given up, since a relay is better at bulk.
	smallRead, bulkReads = 16 << 10, 8
)

// shortcut is the way of a direction's bytes past the relay, while nothing is to happen to them.
type shortcut struct {
	h    *half
	src  Peered
	in   syscall.RawConn
	out  syscall.RawConn
	lane atomic.Pointer[join.Lane] // from src to dst
	// against is the lane that leads to src, where the other direction has one. It is shut while src is read, since
	// a reading takes the socket's error: a send on the lane would get EPIPE after it, and not the error.
	against atomic.Pointer[join.Lane]

	// The rest is the reader's.
	call  func(fd uintptr) bool
	buf   []byte
	n     int
	err   error
	taken uint64 // all that was read
	small int    // reads in a row, negative where they were large
	next  int    // how many of them it takes
	known bool   // the lane is being settled
}

// newShortcut returns nil where there is to be none.
func newShortcut(h *half, src, dst Conn) *shortcut {
	from, ok := src.(Peered)
	_, okTo := dst.(Peered)
	if !h.stream.net.cfg.Join || !ok || !okTo {
		return nil
	}
	s := &shortcut{h: h, src: from, next: h.stream.net.joining.after}
	for conn, raw := range map[Conn]*syscall.RawConn{src: &s.in, dst: &s.out} {
		sc, ok := conn.(syscall.Conn)
		if !ok {
			return nil
		}
		var err error
		if *raw, err = sc.SyscallConn(); err != nil {
			return nil
		}
	}
	s.call = s.receive
	return s
}

// read is Read of the source.
func (s *shortcut) read(buf []byte) (int, error) {
	s.buf = buf
	err := s.in.Read(s.call)
	s.buf = nil
	if err == nil {
		err = s.err
	}
	if err != nil {
		return 0, err
	}
	s.taken += uint64(s.n)
	return s.n, nil
}

// receive reads once; false says that there was nothing.
func (s *shortcut) receive(fd uintptr) bool {
	against := s.against.Load()
	if against != nil {
		against.Pause()
	}
	for {
		s.n, s.err = unix.Read(int(fd), s.buf)
		if s.err != unix.EINTR {
			break
		}
	}
	if against != nil && (s.n > 0 || s.err == unix.EAGAIN) {
		against.Resume()
	}
	if s.n == 0 && s.err == nil {
		s.err = io.EOF
		if resetUnseen(int(fd), s.taken) {
			s.err = unix.ECONNRESET
		}
	}
	return s.err != unix.EAGAIN
}

// resetUnseen reports whether a connection that seems to have ended in order was reset: a send past the relay got the
// error. An end in order counts as one byte more than the connection has carried.
func resetUnseen(fd int, taken uint64) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State == unix.BPF_TCP_CLOSE && info.Bytes_received == taken
}

// delivered is told of each read that has been delivered, or put into the chain.
func (s *shortcut) delivered(n int) {
	if s == nil {
		return
	}
	lane := s.lane.Load()
	switch {
	case n <= smallRead:
		s.small = max(s.small, 0) + 1
	case s.small > 0:
		s.small = 0
	default:
		s.small--
		if lane != nil && s.small <= -bulkReads {
			lane.Leave()
		}
	}
	switch {
	case !s.h.direct.Load():
	case lane != nil && !s.known && lane.Counts():
		s.known = true
		s.h.stream.net.running.Go(func() { s.settle(lane) })
	case lane != nil:
		_ = s.out.Control(func(fd uintptr) { lane.Open(s.taken, int(fd)) })
	case s.small >= s.next:
		s.small, s.next = 0, max(s.next, 1)*joinFactor
		s.h.stream.net.running.Go(s.enter)
	}
}

// enter makes the lane. It is opened by the reader.
func (s *shortcut) enter() {
	k := s.h.stream.net.kernel()
	if k == nil {
		return
	}
	peer, err := s.src.Peer()
	if err != nil {
		return
	}
	defer unix.Close(peer)
	var lane *join.Lane
	if e := s.out.Control(func(fd uintptr) { lane, err = k.Enter(peer, int(fd)) }); errors.Join(e, err) != nil {
		return
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if !s.h.direct.Load() {
		lane.Bar()
	}
	s.lane.Store(lane)
	s.h.other().past.against.Store(lane)
	if s.h.stream.ended.Load() || s.h.stream.parting.Load() {
		lane.Leave()
	}
}

// settle prepares the lane for being opened.
func (s *shortcut) settle(lane *join.Lane) {
	peer, err := s.src.Peer()
	if err != nil {
		lane.Leave()
		return
	}
	defer unix.Close(peer)
	lane.Settle(peer)
}

// bar and unbar are called with half.mu held.
func (s *shortcut) bar() {
	if s != nil && s.lane.Load() != nil {
		s.lane.Load().Bar()
	}
}

func (s *shortcut) unbar() {
	if s != nil && s.lane.Load() != nil {
		s.lane.Load().Unbar()
	}
}

func (s *shortcut) leave() {
	if s != nil && s.lane.Load() != nil {
		s.lane.Load().Leave()
	}
}

// carried returns how many bytes went past the relay.
func (s *shortcut) carried() int64 {
	if s == nil || s.lane.Load() == nil {
		return 0
	}
	return s.lane.Load().Carried()
}
