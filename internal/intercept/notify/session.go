//go:build linux

package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/intercept/bpf"
	"github.com/squallhq/squall/internal/sys"
	"github.com/squallhq/squall/internal/vtime"
)

// session is a program under a filter.
//
// Locks: next before mu before threads.mu. Next holds next only, since it waits; all else holds mu for reading, so that
// Close can know that nobody uses the listener's number any more.
type session struct {
	child    *sys.Child
	listener int
	names    []string

	next   sync.Mutex
	notif  sys.Notif
	locked bool
	// tid is the thread that Next runs on; closed tells it to leave.
	tid    atomic.Int64
	closed atomic.Bool

	mu      sync.RWMutex
	gone    bool
	threads threads
}

func newSession(child *sys.Child) *session {
	s := &session{child: child, listener: child.Listener}
	for nr, name := range bpf.Names() {
		for int(nr) >= len(s.names) {
			s.names = append(s.names, "")
		}
		s.names[nr] = name
	}
	return s
}

func (s *session) Pid() int { return s.child.Pid }

func (s *session) Next() (intercept.Call, error) {
	s.next.Lock()
	defer s.next.Unlock()
	if !s.locked {
		runtime.LockOSThread()
		s.locked = true
		s.tid.Store(int64(unix.Gettid()))
	}
	for !s.closed.Load() {
		err := sys.Recv(s.listener, &s.notif)
		if err == nil {
			return s.call(), nil
		}
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) && !sys.HungUp(s.listener) {
			continue
		}
		if !errors.Is(err, unix.ENOENT) {
			return s.end(fmt.Errorf("notify: receiving: %w", err))
		}
		if err := s.child.Failure(); err != nil {
			return s.end(translate(err))
		}
		return s.end(io.EOF)
	}
	return s.end(intercept.ErrClosed)
}

func (s *session) end(err error) (intercept.Call, error) {
	runtime.UnlockOSThread()
	s.locked = false
	return intercept.Call{}, err
}

func (s *session) call() intercept.Call {
	n := &s.notif
	c := intercept.Call{ID: n.ID, Thread: int(n.Pid), Args: n.Data.Args}
	if nr := int(n.Data.Nr); nr >= 0 && nr < len(s.names) {
		c.Name = s.names[nr]
	}
	return c
}

// enter keeps the listener open until leave; false means that it is closed.
func (s *session) enter() bool {
	s.mu.RLock()
	if s.gone {
		s.mu.RUnlock()
		return false
	}
	return true
}

func (s *session) leave() { s.mu.RUnlock() }

func (s *session) Reply(id uint64, r intercept.Reply) error {
	if !s.enter() {
		return intercept.ErrGone
	}
	defer s.leave()
	if r.InstallSet {
		_, err := sys.AddFD(s.listener, id, r.Install, r.At, r.CloseOnExec, r.At < 0)
		if err != nil || r.At < 0 {
			return outcome("installing a descriptor", err)
		}
		r.Answer = true
	}
	resp := sys.NotifResp{ID: id}
	switch {
	case !r.Answer:
		resp.Flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	case r.Errno != 0:
		resp.Error = -int32(r.Errno)
	default:
		resp.Val = r.Value
	}
	return outcome("answering", sys.Send(s.listener, &resp))
}

// outcome names what failed; a call or a task that is no more is ErrGone.
func outcome(what string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.ENOENT, unix.ESRCH:
		return intercept.ErrGone
	}
	return fmt.Errorf("notify: %s: %w", what, err)
}

func (s *session) Alive(id uint64) bool {
	if !s.enter() {
		return false
	}
	defer s.leave()
	return sys.IDValid(s.listener, id)
}

func (s *session) ReadMemory(c intercept.Call, addr uint64, p []byte) (int, error) {
	n, err := sys.ReadVM(c.Thread, addr, p)
	return n, outcome("reading memory", err)
}

func (s *session) WriteMemory(c intercept.Call, addr uint64, p []byte) error {
	n, err := sys.WriteVM(c.Thread, addr, p)
	if err == nil && n < len(p) {
		err = unix.EFAULT
	}
	return outcome("writing memory", err)
}

func (s *session) Descriptor(c intercept.Call, fd int) (int, error) {
	if !s.enter() {
		return -1, intercept.ErrGone
	}
	defer s.leave()
	n, err := s.threads.duplicate(c.Thread, fd, func() bool { return sys.IDValid(s.listener, c.ID) })
	return n, outcome("taking a descriptor", err)
}

func (s *session) Close() error {
	s.closed.Store(true)
	for !s.next.TryLock() {
		// Next may stand just before its wait, where a nudge is lost: nudge until it has left.
		_ = sys.Nudge(int(s.tid.Load()))
		_ = vtime.Sleep(context.Background(), vtime.Wall(), time.Millisecond)
	}
	defer s.next.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.gone = true
		s.threads.close()
		s.child.Close()
	}
	return nil
}
