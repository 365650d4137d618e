package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/vtime"
)

// keptStatuses bounds what is remembered of children that nobody has asked for; orphans of the
// world's programs are among them.
const keptStatuses = 1024

// Reaper takes the exit statuses of all children of this process, orphans of its descendants
// included. Nothing else in the process may wait for children.
type Reaper struct {
	signals chan os.Signal
	wake    chan struct{}
	quit    chan struct{}
	gone    chan struct{}

	mu      sync.Mutex
	waiting map[int][]chan Exit
	kept    map[int]Exit
	order   []int
	changed chan struct{} // closed and renewed after each round
	empty   bool          // the last round found no child
}

// NewReaper starts to reap.
func NewReaper() *Reaper {
	r := &Reaper{
		signals: make(chan os.Signal, 1),
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		gone:    make(chan struct{}),
		waiting: make(map[int][]chan Exit),
		kept:    make(map[int]Exit),
		changed: make(chan struct{}),
	}
	signal.Notify(r.signals, unix.SIGCHLD)
	go r.run()
	return r
}

// Close stops reaping; it ends no process.
func (r *Reaper) Close() {
	signal.Stop(r.signals)
	close(r.quit)
	<-r.gone
}

func (r *Reaper) run() {
	defer close(r.gone)
	for {
		r.round()
		select {
		case <-r.signals:
		case <-r.wake:
		case <-r.quit:
			return
		}
	}
}

// round takes every status that is there.
func (r *Reaper) round() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty = false
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, unix.WNOHANG|unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			r.empty = errors.Is(err, unix.ECHILD)
		}
		if err != nil || pid == 0 {
			break
		}
		if s.Exited() || s.Signaled() {
			r.ended(pid, exitOf(syscall.WaitStatus(s)))
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Reaper) ended(pid int, e Exit) {
	if waiting := r.waiting[pid]; len(waiting) > 0 {
		delete(r.waiting, pid)
		for _, c := range waiting {
			c <- e
		}
		return
	}
	if _, again := r.kept[pid]; !again {
		r.order = append(r.order, pid)
	}
	r.kept[pid] = e
	if len(r.order) > keptStatuses {
		delete(r.kept, r.order[0])
		r.order = r.order[1:]
	}
}

// Spawn calls fork, which returns the number of a new child, and returns with it the channel of its
// exit. No status is taken meanwhile, so that the number cannot be mixed up with an earlier child's.
func (r *Reaper) Spawn(fork func() (int, error)) (int, <-chan Exit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	c := make(chan Exit, 1)
	r.waiting[pid] = append(r.waiting[pid], c)
	// A child that ended during fork may have sent its signal before there was anything to reap.
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return pid, c, nil
}

// Wait returns a channel that receives the exit of the child, once. Its status is kept for the first
// call where the child has already ended. Call it soon after the fork, or use Spawn: numbers are used
// again.
func (r *Reaper) Wait(pid int) <-chan Exit {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan Exit, 1)
	if e, ok := r.kept[pid]; ok {
		r.forget(pid)
		c <- e
		return c
	}
	r.waiting[pid] = append(r.waiting[pid], c)
	return c
}

func (r *Reaper) forget(pid int) {
	delete(r.kept, pid)
	for i, p := range r.order {
		if p == pid {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// Signal sends a signal to a child that somebody waits for. No such child is unix.ESRCH.
func (r *Reaper) Signal(pid int, sig unix.Signal) error {
	r.mu.Lock() // nothing is reaped meanwhile, so the number stays the child's
	defer r.mu.Unlock()
	if _, ok := r.waiting[pid]; !ok {
		return unix.ESRCH
	}
	return unix.Kill(pid, sig)
}

// KillGroup sends a signal to the process group of a child that somebody waits for: all of it where
// the child leads the group, else the child alone. No such child is unix.ESRCH.
func (r *Reaper) KillGroup(pid int, sig unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[pid]; !ok {
		return unix.ESRCH
	}
	if group, err := unix.Getpgid(pid); err == nil && group == pid {
		return unix.Kill(-pid, sig)
	}
	return unix.Kill(pid, sig)
}

// Stop ends a service: SIGTERM to the process group of its first process pid, and after that has
// ended or grace has passed SIGKILL to everything that is left of the service. exited is the first
// process's channel (from Spawn or Wait), or a copy of it. The Exit is the first process's; forced
// says that it needed SIGKILL.
func (r *Reaper) Stop(ctx context.Context, clock vtime.Clock, pid int, n *Network, exited <-chan Exit, grace time.Duration) (e Exit, forced bool, err error) {
	if err := r.KillGroup(pid, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return Exit{}, false, fmt.Errorf("launch: stop %d: %w", pid, err)
	}
	over, cancel := clock.After(grace)
	defer cancel()
	select {
	case e = <-exited:
		return e, false, r.killService(pid, n)
	case <-over:
	case <-ctx.Done():
	}
	if err := r.killService(pid, n); err != nil {
		return Exit{}, true, err
	}
	return <-exited, true, nil
}

// killService kills what belongs to the service: whoever descends from its first process
// or is in its session or group and, where the service has a network of its own, whoever is in that.
func (r *Reaper) killService(pid int, n *Network) error {
	err := r.killUntil(context.Background(), func() (bool, error) {
		members, err := serviceProcesses(pid, n)
		for _, p := range members {
			_ = p.kill(unix.SIGKILL) // the next round sees whether it worked
		}
		return len(members) == 0, err
	})
	if err != nil {
		return fmt.Errorf("launch: stop %d: %w", pid, err)
	}
	return nil
}

func serviceProcesses(pid int, n *Network) ([]process, error) {
	all, err := readProcesses()
	if err != nil {
		return nil, err
	}
	var out []process
	owned := n != nil && !n.shared
	family := descendants(all, pid)
	for _, p := range descendants(all, os.Getpid()) {
		member := p.pid == pid || p.group == pid || p.session == pid || slices.Contains(family, p)
		if (member || owned && p.inNetwork(n.inode)) && p.alive() {
			out = append(out, p)
		}
	}
	return out, nil
}

// KillAll kills every process of the world but this one and returns when all have been reaped. The
// caller no longer forks.
func (r *Reaper) KillAll(ctx context.Context) error {
	err := r.killUntil(ctx, func() (bool, error) {
		r.mu.Lock()
		empty := r.empty
		r.mu.Unlock()
		if empty {
			return true, nil
		}
		return false, killOthers()
	})
	if err != nil {
		return fmt.Errorf("launch: kill all: %w", err)
	}
	return nil
}

// killUntil calls kill after each round in which something may have ended, until it says that nothing
// is left. A process that was born too late to be seen by one call is seen by the next: its parent
// was seen and killed, and the last one of such a family ends as a child of this process.
func (r *Reaper) killUntil(ctx context.Context, kill func() (done bool, err error)) error {
	for {
		r.round()
		r.mu.Lock()
		changed := r.changed // taken before kill looks, so that no end after it is missed
		r.mu.Unlock()
		if done, err := kill(); done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// killOthers kills all other processes of the pid namespace, or all descendants where this process
// is not its init.
func killOthers() error {
	if os.Getpid() == 1 {
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		return nil
	}
	all, err := readProcesses()
	if err != nil {
		return err
	}
	for _, p := range descendants(all, os.Getpid()) {
		_ = p.kill(unix.SIGKILL)
	}
	return nil
}
