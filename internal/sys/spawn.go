//go:build linux

package sys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Spawn is a program to be run in a fork of this process.
type Spawn struct {
	Path      string
	Args, Env []string
	// Dir is the working directory; "" means the caller's.
	Dir string
	// Stdio are descriptors of this process; -1 means /dev/null.
	Stdio [3]int
	// NetNS is a network namespace to enter; -1 means none.
	NetNS int
	// KeepGroup leaves the child in the caller's process group; otherwise it gets its own.
	KeepGroup bool
	// DropCaps clears all sets of capabilities.
	DropCaps bool
	// KeepPrivileges leaves no_new_privs unset, for which a filter needs CAP_SYS_ADMIN.
	KeepPrivileges bool
	// Files is the limit on open files; nil means the caller's.
	Files *unix.Rlimit
	// Filter is the seccomp program; with none the child has no listener. FilterFlags are added to NEW_LISTENER.
	Filter      []unix.SockFilter
	FilterFlags uint
	// ExecHeld says that the filter stops at exec, so that Start must return before it.
	ExecHeld bool
	// ExecMarked runs the program by an execveat that a filter can tell by LaunchMark.
	ExecMarked bool
}

// LaunchMark stands in the high half of the first argument of a marked exec, which is an int: the kernel ignores it.
const LaunchMark = 0x53716c6c

// Child is a started program.
type Child struct {
	Pid int
	// Pidfd and Listener belong to the Child until Close; Listener is -1 without a filter.
	Pidfd, Listener int

	path   string
	mu     sync.Mutex
	page   *page
	mapped []byte
}

// SpawnError says which step of starting a program failed.
type SpawnError struct {
	Path string
	// Step is in words: "running the program".
	Step  string
	Errno unix.Errno
}

// Error says which step failed and why.
// Error says what failed, and of which program.
func (e *SpawnError) Error() string { return fmt.Sprintf("sys: %s: %s: %v", e.Path, e.Step, e.Errno) }

// Unwrap returns the errno.
func (e *SpawnError) Unwrap() error { return e.Errno }

// Start forks. It returns when the listener is here and, unless ExecHeld, when the program runs; what fails before
// is a *SpawnError.
//
// The kernel kills the child when the thread that forked it ends, so a thread of its own waits for the first
// process to end, however long that takes.
func (s Spawn) Start(ctx context.Context) (*Child, error) {
	a, undo, err := s.arguments()
	if err != nil {
		return nil, err
	}
	defer undo()
	p, mapped, err := newPage()
	if err != nil {
		return nil, fmt.Errorf("sys: sharing a page: %w", err)
	}
	a.page = p
	var alive [2]int
	if err := unix.Pipe2(alive[:], unix.O_CLOEXEC); err != nil {
		unix.Munmap(mapped)
		return nil, fmt.Errorf("sys: making a pipe: %w", err)
	}
	defer unix.Close(alive[0])
	a.alive = alive[1]
	c := &Child{Listener: -1, path: s.Path, page: p, mapped: mapped}
	err = c.fork(a)
	unix.Close(alive[1])
	if err != nil {
		unix.Munmap(mapped)
		return nil, err
	}
	if err = c.launch(ctx, s, alive[0]); err != nil {
		c.abandon()
		return nil, err
	}
	return c, nil
}

// arguments lays out everything that the child will read.
func (s Spawn) arguments() (*childArgs, func(), error) {
	a := &childArgs{stdio: s.Stdio, netns: s.NetNS, parent: uintptr(os.Getpid()), limit: s.Files,
		switches: switches{s.KeepGroup, s.DropCaps, s.KeepPrivileges, s.ExecMarked}}
	var err error
	if a.path, err = cString(s.Path); err != nil {
		return nil, nil, fmt.Errorf("sys: path %q: %w", s.Path, err)
	}
	if s.Dir != "" {
		if a.dir, err = cString(s.Dir); err != nil {
			return nil, nil, fmt.Errorf("sys: directory %q: %w", s.Dir, err)
		}
	}
	if a.argv, err = cStrings(s.Args); err != nil {
		return nil, nil, fmt.Errorf("sys: arguments: %w", err)
	}
	if a.envv, err = cStrings(s.Env); err != nil {
		return nil, nil, fmt.Errorf("sys: environment: %w", err)
	}
	if len(s.Filter) > 0 {
		a.filter = &unix.SockFprog{Len: uint16(len(s.Filter)), Filter: &s.Filter[0]}
		a.filterFlags = uintptr(s.FilterFlags | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	undo := func() {}
	for i, fd := range a.stdio {
		if fd >= 0 {
			continue
		}
		null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			undo()
			return nil, nil, fmt.Errorf("sys: %s: %w", os.DevNull, err)
		}
		a.stdio[i] = null
		before := undo
		undo = func() { before(); unix.Close(null) }
	}
	return a, undo, nil
}

// fork makes the child from a thread that outlives it.
func (c *Child) fork(a *childArgs) error {
	type born struct {
		pid uintptr
		e   unix.Errno
	}
	result := make(chan born)
	var pidfd int32
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		pid, e := fork(a, &pidfd)
		if e != 0 {
			result <- born{0, e}
			return
		}
		own, err := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 0)
		result <- born{pid, 0}
		if err != nil {
			return
		}
		defer unix.Close(own)
		awaitExit(own, -1)
	}()
	b := <-result
	runtime.KeepAlive(a)
	if b.e != 0 {
		return fmt.Errorf("sys: fork: %w", b.e)
	}
	c.Pid, c.Pidfd = int(b.pid), int(pidfd)
	return nil
}

// awaitExit reports whether the process of a pidfd ended within so many milliseconds; -1 waits for ever.
func awaitExit(pidfd, ms int) bool {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, ms)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// launch takes the listener over and lets the child go on.
func (c *Child) launch(ctx context.Context, s Spawn, alive int) error {
	if len(s.Filter) > 0 {
		if err := c.takeListener(ctx); err != nil {
			return err
		}
		c.page.acknowledge(goOn)
	}
	if s.ExecHeld {
		return nil
	}
	// Exec and death both close the child's end of the pipe.
	p := []unix.PollFd{{Fd: int32(alive), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 100)
		switch {
		case n > 0:
			return c.Failure()
		case err != nil && err != unix.EINTR:
			return fmt.Errorf("sys: waiting for exec: %w", err)
		case ctx.Err() != nil:
			return fmt.Errorf("sys: waiting for exec: %w", ctx.Err())
		}
	}
}

func (c *Child) takeListener(ctx context.Context) error {
	for {
		w := atomic.LoadUint32(&c.page.listener)
		if w == failedWord {
			return c.Failure()
		}
		if w != 0 {
			fd, err := unix.PidfdGetfd(c.Pidfd, int(w-1), 0)
			if err != nil {
				return fmt.Errorf("sys: %s: taking the listener: %w", c.path, err)
			}
			c.Listener = fd
			return nil
		}
		if awaitExit(c.Pidfd, 0) && atomic.LoadUint32(&c.page.listener) == 0 {
			return fmt.Errorf("sys: %s: %w", c.path, errDied)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("sys: %s: waiting for the filter: %w", c.path, err)
		}
		c.page.wait(&c.page.listener, 0)
	}
}

var errDied = errors.New("killed before the program ran")

// Failure returns the *SpawnError of a child that has given up, or nil.
func (c *Child) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page == nil {
		return nil
	}
	w := atomic.LoadUint32(&c.page.failure)
	if w == 0 {
		return nil
	}
	return &SpawnError{c.path, stageName(w >> 16), unix.Errno(w & 0xffff)}
}

// abandon ends a child that could not be launched.
func (c *Child) abandon() {
	c.page.acknowledge(giveUp)
	unix.PidfdSendSignal(c.Pidfd, unix.SIGKILL, nil, 0)
	awaitExit(c.Pidfd, -1)
	// A reaper of all children may have been quicker.
	unix.Wait4(c.Pid, nil, 0, nil)
	c.Close()
}

// Close gives the descriptors and the shared page back. The child goes on.
func (c *Child) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page == nil {
		return
	}
	unix.Close(c.Pidfd)
	if c.Listener >= 0 {
		unix.Close(c.Listener)
	}
	unix.Munmap(c.mapped)
	c.page, c.mapped = nil, nil
}
