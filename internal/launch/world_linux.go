package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Launcher starts worlds. All are forked by one thread that lives as long as the Launcher, because
// the kernel sends the parent-death signal when the forking *thread* ends.
type Launcher struct {
	thread     *thread
	privileged bool
	open       context.Context
	shut       context.CancelFunc
}

// NewLauncher returns a Launcher.
func NewLauncher() (*Launcher, error) {
	t, err := startThread(nil)
	if err != nil {
		return nil, fmt.Errorf("launch: launcher: %w", err)
	}
	l := &Launcher{thread: t, privileged: privileged()}
	l.open, l.shut = context.WithCancel(context.Background())
	return l, nil
}

// Close ends the Launcher and kills every world that it started.
func (l *Launcher) Close() {
	l.shut()
	l.thread.close()
}

// privileged reports whether this process may make namespaces without a user namespace.
func privileged() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return false
	}
	const need = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_CHROOT
	return data[0].Effective&need == need && os.Geteuid() == 0
}

// WorldConfig says what to start.
type WorldConfig struct {
	// Args is the argument vector of the world process, its name included. Its program is this one.
	Args []string
	// Env is its environment, complete.
	Env []string
	// Dir is its working directory; empty means the caller's.
	Dir string
	// Stdin, Stdout and Stderr are the null device where nil.
	Stdin, Stdout, Stderr *os.File
	// Extra files are found inside by Inside.Extra, in this order.
	Extra []*os.File
	// Mode is ModeNamespaces where empty.
	Mode Mode
}

// World is a running world, seen from outside.
type World struct {
	// Control carries bytes to the world process; closing it is seen there as the end of the stream.
	Control *os.File
	// Events carries bytes from the world process.
	Events *os.File

	mode     Mode
	process  *os.Process
	lifeline *os.File
	done     chan struct{}
	exit     Exit
	waitErr  error
	release  func()
	once     sync.Once
}

// StartWorld starts a world process. It is killed with everything in it when ctx ends, when the
// Launcher is closed, or when the calling process dies in whatever way.
func (l *Launcher) StartWorld(ctx context.Context, c WorldConfig) (*World, error) {
	return l.start(ctx, c, "")
}

// start starts a world; role is that of modeVariable where it is not simply the mode.
func (l *Launcher) start(ctx context.Context, c WorldConfig, role string) (*World, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("launch: start world: %w", err)
	}
	if c.Mode == "" {
		c.Mode = ModeNamespaces
	}
	w := &World{mode: c.Mode, done: make(chan struct{})}
	files, err := w.open(c)
	if err != nil {
		return nil, fmt.Errorf("launch: start world: %w", err)
	}
	defer files.close()
	if role == "" {
		role = string(c.Mode)
	}
	if c.Mode == ModeShared {
		role = guardRole + strconv.Itoa(len(files.child))
	}
	attr := &os.ProcAttr{
		Dir:   c.Dir,
		Env:   append(c.Env[:len(c.Env):len(c.Env)], modeVariable+"="+role),
		Files: files.child,
		Sys:   attributes(c.Mode, l.privileged),
	}
	err = l.thread.do(func() error {
		w.process, err = os.StartProcess("/proc/self/exe", c.Args, attr)
		return err
	})
	if err != nil {
		w.closeFiles()
		if c.Mode == ModeNamespaces && refused(err) {
			return nil, fmt.Errorf("launch: start world: %w: %w", ErrNoNamespaces, err)
		}
		return nil, fmt.Errorf("launch: start world: %w", err)
	}
	go w.wait()
	stopped, closed := context.AfterFunc(ctx, w.end), context.AfterFunc(l.open, w.end)
	w.release = func() {
		stopped()
		closed()
	}
	return w, nil
}

// refused tells a machine that forbids namespaces from one that is short of something.
func refused(err error) bool {
	for _, e := range []syscall.Errno{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func attributes(m Mode, privileged bool) *syscall.SysProcAttr {
	// A session of its own keeps a terminal's Ctrl-C from ending worlds behind the caller's back.
	a := &syscall.SysProcAttr{Setsid: true}
	if m == ModeShared {
		// The guard outlives the caller on purpose: it cleans up.
		return a
	}
	a.Pdeathsig = syscall.SIGKILL
	a.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET
	if privileged {
		return a
	}
	a.Cloneflags |= unix.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	// exec drops the capabilities of a user other than 0 unless they are ambient.
	a.AmbientCaps = worldCaps()
	return a
}

// worldCaps are those that the supervisor uses within its own user namespace.
func worldCaps() []uintptr {
	return []uintptr{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
		unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP,
		unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_BROADCAST, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW,
		unix.CAP_IPC_OWNER, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE,
		unix.CAP_MKNOD, unix.CAP_SETFCAP,
	}
}

// worldFiles are the files of a world process until it has started.
type worldFiles struct {
	child []*os.File
	ours  []*os.File
}

func (f *worldFiles) close() {
	for _, file := range f.ours {
		_ = file.Close()
	}
}

func (w *World) open(c WorldConfig) (files *worldFiles, err error) {
	files = &worldFiles{}
	defer func() {
		if err != nil {
			files.close()
			w.closeFiles()
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	files.ours = append(files.ours, null)
	for _, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		if f == nil {
			f = null
		}
		files.child = append(files.child, f)
	}
	var control, events, lifeline *os.File
	if control, w.Control, err = os.Pipe(); err != nil {
		return nil, err
	}
	files.ours = append(files.ours, control)
	if w.Events, events, err = os.Pipe(); err != nil {
		return nil, err
	}
	files.ours = append(files.ours, events)
	if lifeline, w.lifeline, err = os.Pipe(); err != nil {
		return nil, err
	}
	files.ours = append(files.ours, lifeline)
	files.child = append(files.child, control, events, lifeline)
	files.child = append(files.child, c.Extra...)
	return files, nil
}

func (w *World) closeFiles() {
	for _, f := range []*os.File{w.Control, w.Events, w.lifeline} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (w *World) wait() {
	state, err := w.process.Wait()
	if err != nil {
		w.waitErr = fmt.Errorf("launch: wait for world: %w", err)
	} else {
		w.exit = exitOf(state.Sys().(syscall.WaitStatus))
	}
	close(w.done)
}

func exitOf(s syscall.WaitStatus) Exit {
	if s.Signaled() {
		return Exit{Code: 128 + int(s.Signal()), Signal: unix.SignalName(s.Signal())}
	}
	return Exit{Code: s.ExitStatus()}
}

// Pid is the world process (in ModeShared its guard), in the caller's pid namespace.
func (w *World) Pid() int { return w.process.Pid }

// Mode is what the world is made of.
func (w *World) Mode() Mode { return w.mode }

// Done is closed when the world and all its processes are gone.
func (w *World) Done() <-chan struct{} { return w.done }

// Wait waits until the world and all its processes are gone, and says how the world process ended.
// What it had written to Events can still be read.
func (w *World) Wait() (Exit, error) {
	<-w.done
	w.release()
	return w.exit, w.waitErr
}

// end begins the end of everything in the world.
func (w *World) end() {
	w.once.Do(func() {
		if w.mode == ModeNamespaces {
			_ = w.process.Kill()
		}
		// The guard of a shared world kills all descendants when its lifeline breaks; killing the
		// guard itself would leave them. One that was stopped would not see it.
		_ = w.lifeline.Close()
		if w.mode == ModeShared {
			_ = w.process.Signal(unix.SIGCONT)
		}
	})
}

// Kill ends the world process and everything in the world, at once, and waits for it.
func (w *World) Kill() {
	w.end()
	<-w.done
}

// Close kills the world if it still runs, and closes Control and Events.
func (w *World) Close() error {
	w.Kill()
	w.release()
	w.closeFiles()
	return nil
}
