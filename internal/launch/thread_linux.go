package launch

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// thread is one operating system thread that runs functions for others, one at a time. What
// belongs to a thread and not to a process (its network namespace, being the parent for
// parent-death signals) stays stable in it.
type thread struct {
	work chan func()
	quit chan struct{}
	once sync.Once
	gone chan struct{}
}

// startThread returns once the thread exists and setup has run on it.
func startThread(setup func() error) (*thread, error) {
	t := &thread{work: make(chan func()), quit: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error, 1)
	go t.run(setup, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return t, nil
}

func (t *thread) run(setup func() error, ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end before the process does and /proc/self speaks of it: leave
		// it alone. It stays locked here until the other goroutine has a thread of its own.
		second := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(second)
			t.loop(setup, ready)
		}()
		<-second
		runtime.UnlockOSThread()
		return
	}
	t.loop(setup, ready)
}

func (t *thread) loop(setup func() error, ready chan<- error) {
	defer close(t.gone)
	if setup != nil {
		if err := setup(); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.quit:
			return
		}
	}
}

// do runs f on the thread and waits for it.
func (t *thread) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case t.work <- func() { result <- f() }:
		return <-result
	case <-t.gone:
		return ErrClosed
	}
}

// close ends the thread after what it is doing now.
func (t *thread) close() {
	t.once.Do(func() { close(t.quit) })
	<-t.gone
}
