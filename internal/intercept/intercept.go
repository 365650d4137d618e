// Package intercept runs programs so that chosen system calls stop and wait for an answer.
//
// A Backend never decides. It hands out Calls; somebody else answers each with a
// Reply. See notify for the backend that native runs use.
package intercept

import (
	"context"
	"errors"

	"github.com/squallhq/squall/spec"
)

// Backend is a way to stop system calls.
type Backend interface {
	Name() string
	// Probe tries the mechanism for real and returns why it would not work here.
	Probe() error
	Caps() Caps
	// Start runs a program, stopping it and all its children at the calls that sub names, from the exec of
	// the program on. Where sub has execve, Start returns before that exec, which is the first Call; a program
	// that then does not come to run is a *LaunchError from Next. Otherwise Start returns when the program runs,
	// or the *LaunchError itself. The caller reaps the first process.
	Start(ctx context.Context, p spec.Process, sub Subscription) (Session, error)
}

// Caps says what a backend can do.
type Caps struct {
	// Clocks: reads of clocks through the vDSO stop too.
	Clocks bool
	// Schedule: at most one thread runs at a time, chosen by the supervisor.
	Schedule bool
	// Install: a Reply can install a descriptor. Without, that Reply fails with ErrNotSupported.
	Install bool
	// Withdraw: a signal takes a waiting call back, which then comes again. Without, a signal waits for the answer.
	Withdraw bool
}

// Subscription is the set of calls to stop at. It cannot grow once a program runs.
type Subscription struct {
	// Calls are kernel names; a name that the architecture lacks is ignored.
	Calls []string
	// Getsockopt stops at getsockopt(SOL_SOCKET, SO_PEERNAME or SO_ERROR) only.
	Getsockopt bool
	// Addressed stops at sendto only where it has an address. The addresses of sendmsg and sendmmsg stand in
	// memory, where no filter can look: name these calls where they matter.
	Addressed bool
	// Output stops at write and writev to descriptors 1 and 2, so that what programs print keeps its order
	// among them.
	Output bool
	// SharedMappings stops at mmap of a file that is shared and writable: what is written there passes every
	// call by.
	SharedMappings bool
	// Sockets stops at what a socket answers or becomes otherwise while its bytes take a shortcut: ioctl(FIONREAD),
	// ioctl(FIONBIO), fcntl(F_SETFL) without O_NONBLOCK, and setsockopt of TCP_ULP and SO_ZEROCOPY.
	Sockets bool
	// NoIOUring stops at io_uring_setup, by which a program would get past every other stop.
	NoIOUring bool
	// Children stops at execve and execveat, without holding the exec by which Start runs the program.
	Children bool
	// Chance stops at getrandom, except for the eight bytes that glibc draws without blocking for malloc's guard.
	Chance bool
	// Clocks stops at system calls that tell the time. Most programs make none: they ask the vDSO.
	Clocks bool
}

// Session is a program under supervision, with all its children.
type Session interface {
	// Pid is the first process, in the supervisor's pid namespace.
	Pid() int
	// Next waits for the next call. It is called from one goroutine only, which the first call locks to its
	// thread until an error ends the session: io.EOF when no supervised task is left, a *LaunchError where in
	// addition the program never ran, ErrClosed after Close.
	Next() (Call, error)
	// Reply answers a call; from any goroutine. ErrGone means that the call was withdrawn by a
	// signal or by the caller's death: the answer had no effect. In a narrow race with a signal nil is
	// returned and the answer is lost as well: the same call of the same thread comes again.
	Reply(id uint64, r Reply) error
	// Alive reports whether the call still waits. Check it after reading memory and before acting.
	Alive(id uint64) bool
	// ReadMemory fills p from the caller's memory and returns how much could be read.
	ReadMemory(c Call, addr uint64, p []byte) (int, error)
	// WriteMemory writes p into the caller's memory.
	WriteMemory(c Call, addr uint64, p []byte) error
	// Descriptor duplicates a descriptor of the caller into this process (close-on-exec).
	Descriptor(c Call, fd int) (int, error)
	// Close ends the supervision, also under a Next that waits. It does not kill the program: its calls that
	// wait or would have to wait fail with ENOSYS.
	Close() error
}

// Call is a system call that waits for its answer.
type Call struct {
	// ID is unique among waiting calls.
	ID uint64
	// Thread is the calling thread's id, in the supervisor's pid namespace.
	Thread int
	Name   string
	Args   [6]uint64
}

// Reply is the answer to a call. The zero Reply lets it go on as if nothing had been.
type Reply struct {
	// Answer says that the call is not to be executed but returns Value, or Errno where that is not 0.
	Answer bool
	Value  int64
	Errno  int
	// Install, where InstallSet, puts a descriptor of the supervisor into the caller. With At 0 or greater it
	// takes the place of that number and the call then returns Value or Errno, in two steps: a signal may come
	// between them, so that the call is made again with the descriptor in place (ErrGone). With At negative it
	// gets the lowest free number, which the call returns, in one step. CloseOnExec is its flag there. Where
	// installing fails the error says why and the call still waits.
	Install     int
	InstallSet  bool
	At          int
	CloseOnExec bool
}

// ErrGone is returned for a call that no longer waits.
var ErrGone = errors.New("intercept: call no longer waits")

// ErrNotSupported is wrapped by the errors of Probe and Start where the machine lacks something.
var ErrNotSupported = errors.New("intercept: not supported here")

// ErrClosed is returned by Next after Close.
var ErrClosed = errors.New("intercept: session closed")

// LaunchError says why a program did not come to run.
type LaunchError struct {
	Path string
	// Step is what failed, in words: "running the program".
	Step string
	// Err is the errno.
	Err error
}

// Error says which step failed and why.
// Error says what failed, and of which program.
func (e *LaunchError) Error() string {
	return "intercept: " + e.Path + ": " + e.Step + ": " + e.Err.Error()
}

// Unwrap returns the errno.
func (e *LaunchError) Unwrap() error { return e.Err }
