package launch

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardRole and probeRole are the roles of a re-executed program beside the modes.
const (
	guardRole = "guard:"
	probeRole = "probe"
)

// lifelineExit is the exit code of a world whose caller has died.
const lifelineExit = 137

// Inside is the world process's own view of how it was started.
type Inside struct {
	// Mode is what the world is made of.
	Mode Mode
	// Control and Events are the ends of the caller's World.Control and World.Events.
	Control, Events *os.File
}

// Enter reports whether this process was started by StartWorld. main calls it before anything
// else; where the process is a helper of this package Enter never returns.
func Enter() (*Inside, bool) {
	role, ok := os.LookupEnv(modeVariable)
	if !ok {
		return nil, false
	}
	_ = os.Unsetenv(modeVariable)
	if n, found := strings.CutPrefix(role, guardRole); found {
		files, err := strconv.Atoi(n)
		if err != nil {
			fatal(err)
		}
		os.Exit(guard(files))
	}
	probing := role == probeRole
	if probing {
		role = string(ModeNamespaces)
	}
	in, err := enter(Mode(role))
	if err != nil {
		fatal(err)
	}
	if probing {
		os.Exit(in.probe())
	}
	return in, true
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "squall:", err)
	os.Exit(2)
}

func enter(m Mode) (*Inside, error) {
	if m != ModeNamespaces && m != ModeShared {
		return nil, fmt.Errorf("launch: enter: unknown mode %q", m)
	}
	if err := closeOnExec(); err != nil {
		return nil, fmt.Errorf("launch: enter: %w", err)
	}
	if m == ModeShared {
		// Orphans come to this process and not to the machine's init, so that they can be found.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("launch: enter: subreaper: %w", err)
		}
	}
	if err := dropAmbient(); err != nil {
		return nil, fmt.Errorf("launch: enter: ambient capabilities: %w", err)
	}
	watchLifeline(func() { os.Exit(lifelineExit) })
	return &Inside{
		Mode:    m,
		Control: pollable(controlFD, "control"),
		Events:  pollable(eventsFD, "events"),
	}, nil
}

// Extra returns the n-th of WorldConfig.Extra, or nil where there is none. Each is asked for once.
func (in *Inside) Extra(n int) *os.File {
	return os.NewFile(uintptr(extraFD+n), "extra"+strconv.Itoa(n))
}

// pollable makes reads and writes wait in the poller, not in a thread each.
func pollable(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// closeOnExec keeps what was handed to the world from its programs. The runtime's own
// descriptors have the flag already.
func closeOnExec() error {
	err := unix.CloseRange(controlFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil || (err != unix.ENOSYS && err != unix.EINVAL) {
		return err
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= controlFD {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// dropAmbient makes programs start without the supervisor's capabilities. With cgo (test binaries
// only) the call for all threads does not exist; a Network's thread clears its own again anyway.
func dropAmbient() error {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if errno != 0 && errno != syscall.ENOTSUP {
		return errno
	}
	return nil
}

// watchLifeline calls gone when the process at the other end has died or wants the end. Where
// the parent-death signal works it comes first; it is lost when the parent dies between the
// fork and the asking for it.
func watchLifeline(gone func()) {
	f := pollable(lifelineFD, "lifeline")
	go func() {
		var b [1]byte
		_, _ = f.Read(b[:])
		runtime.KeepAlive(f)
		gone()
	}()
}
