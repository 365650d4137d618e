//go:build linux

package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/intercept/bpf"
	"github.com/squallhq/squall/internal/sys"
	"github.com/squallhq/squall/spec"
)

// Options change how a backend works. The zero value is right for calls that may be held.
type Options struct {
	// WaitKillable lets only deadly signals take back a call that has been handed out. A program's own
	// handlers then wait for the answer, however long it is held.
	WaitKillable bool
}

// New returns the backend.
func New(o Options) intercept.Backend { return backend{o} }

type backend struct{ options Options }

func (backend) Name() string { return "notify" }

func (b backend) Caps() intercept.Caps {
	return intercept.Caps{Install: true, Withdraw: !b.options.WaitKillable}
}

func (b backend) Start(ctx context.Context, p spec.Process, sub intercept.Subscription) (intercept.Session, error) {
	filter, err := bpf.Compile(sub)
	if err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	if err := sys.PrepareNudge(); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	s := sys.Spawn{
		Path: p.Path, Args: p.Args, Env: p.Env, Dir: p.Dir,
		Stdio: [3]int{p.Stdin, p.Stdout, p.Stderr}, NetNS: p.NetNS,
		KeepGroup: p.KeepGroup, DropCaps: p.DropCaps, KeepPrivileges: p.KeepPrivileges,
		Filter: filter, ExecHeld: slices.Contains(sub.Calls, "execve"),
		ExecMarked: sub.Children && !slices.Contains(sub.Calls, "execve") && !slices.Contains(sub.Calls, "execveat"),
	}
	if b.options.WaitKillable {
		s.FilterFlags = unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	if s.Files, err = limit(p.OpenFiles); err != nil {
		return nil, err
	}
	child, err := s.Start(ctx)
	if err != nil {
		return nil, translate(err)
	}
	// Kernels before 6.6 do without; the round trip is slower.
	_ = sys.SetSyncWakeUp(child.Listener)
	return newSession(child), nil
}

// limit returns the limit on open files with the given soft part, or nil for none given.
func limit(soft uint64) (*unix.Rlimit, error) {
	if soft == 0 {
		return nil, nil
	}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return nil, fmt.Errorf("notify: reading the limit on open files: %w", err)
	}
	r.Cur = min(soft, r.Max)
	return &r, nil
}

// translate turns what sys says into what the interface promises.
func translate(err error) error {
	var e *sys.SpawnError
	switch {
	case errors.As(err, &e):
		return &intercept.LaunchError{Path: e.Path, Step: e.Step, Err: e.Errno}
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("notify: %w: %w", intercept.ErrNotSupported, err)
	}
	return fmt.Errorf("notify: %w", err)
}

// probePath is a program that no machine has; its exec never happens.
const probePath = "/squall-probe"

// Probe starts a child, stops it at its exec, looks into its memory and its descriptors, and denies the exec. No
// program needs to exist for that.
func (b backend) Probe() error {
	p := spec.Process{Path: probePath, Args: []string{probePath}, Stdin: -1, Stdout: -1, Stderr: -1, NetNS: -1}
	s, err := b.Start(context.Background(), p, intercept.Subscription{Calls: []string{"execve"}})
	if err != nil {
		return fmt.Errorf("%w: %w", intercept.ErrNotSupported, err)
	}
	// Next locks this goroutine to its thread and gives it back at the session's end.
	err = probe(s)
	s.Close()
	if err != nil {
		unix.Kill(s.Pid(), unix.SIGKILL)
	}
	for {
		if _, e := unix.Wait4(s.Pid(), nil, 0, nil); e != unix.EINTR {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("notify: %w: %w", intercept.ErrNotSupported, err)
	}
	return nil
}

func probe(s intercept.Session) error {
	c, err := s.Next()
	if err != nil {
		return fmt.Errorf("waiting for a call: %w", err)
	}
	if path, err := intercept.ReadString(s, c, c.Args[0], 256); err != nil || path != probePath {
		return fmt.Errorf("reading the caller's memory: got %q: %w", path, err)
	}
	fd, err := s.Descriptor(c, 0)
	if err != nil {
		return fmt.Errorf("taking a descriptor: %w", err)
	}
	unix.Close(fd)
	if err := s.Reply(c.ID, intercept.Reply{Answer: true, Errno: int(unix.EXDEV)}); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	if _, err = s.Next(); !errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("the answer did not arrive: %w", err)
	}
	return nil
}
