//go:build linux

package notify

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/sys"
)

// cached is how many threads' pidfds are kept. A program's busy threads are few; children that come and go
// push each other out.
const cached = 32

// threads keeps pidfds of threads that made calls, the latest used first.
type threads struct {
	mu   sync.Mutex
	list []thread
}

type thread struct{ tid, pidfd int }

// duplicate takes a descriptor from a thread that waits in a call. waits tells whether it still does: only then is a
// thread id that was just looked up the caller's.
func (t *threads) duplicate(tid, fd int, waits func() bool) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.list, func(e thread) bool { return e.tid == tid }); i >= 0 {
		e := t.list[i]
		n, err := unix.PidfdGetfd(e.pidfd, fd, 0)
		t.list = slices.Delete(t.list, i, i+1)
		if err != unix.ESRCH {
			t.list = slices.Insert(t.list, 0, e)
			return n, err
		}
		// That thread is gone and its id stands for another one.
		unix.Close(e.pidfd)
	}
	pidfd, exact, err := sys.OpenThread(tid)
	if err != nil {
		return -1, err
	}
	if !waits() {
		unix.Close(pidfd)
		return -1, unix.ESRCH
	}
	n, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err == unix.ESRCH || !exact {
		unix.Close(pidfd)
		return n, err
	}
	if len(t.list) >= cached {
		unix.Close(t.list[len(t.list)-1].pidfd)
		t.list = t.list[:len(t.list)-1]
	}
	t.list = slices.Insert(t.list, 0, thread{tid, pidfd})
	return n, err
}

func (t *threads) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.list {
		unix.Close(e.pidfd)
	}
	t.list = nil
}
