//go:build linux

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// page is memory that the child shares with its parent until it runs its program. Every field is one word and is
// written by one side only; a futex call follows each write.
type page struct {
	// listener is the child's number of its listener plus 1, once it has one; failedWord if it never will.
	listener uint32
	// acknowledged is set by the parent: goOn or giveUp.
	acknowledged uint32
	// failure is stage<<16 | errno of what went wrong in the child.
	failure uint32
	// defaultAction is a struct sigaction of the kernel that nobody writes to: all zero, SIG_DFL.
	defaultAction [4]uint64
}

const (
	failedWord = ^uint32(0)
	goOn       = 1
	giveUp     = 2
)

// The stages of the child, as they stand in page.failure.
const (
	stageParent = iota + 1
	stageNetNS
	stageSession
	stageStdio
	stageClose
	stageDir
	stageLimit
	stageCaps
	stagePrivs
	stageFilter
	stageExec
)

// stageNames name the steps in errors.
func stageName(s uint32) string {
	names := [...]string{"start", "watching the parent", "entering the network namespace", "starting a process group",
		"arranging descriptors", "closing descriptors", "changing directory", "setting limits",
		"dropping capabilities", "giving up new privileges", "installing the filter", "running the program"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown step"
}

// switches are as in Spawn.
type switches struct{ keepGroup, dropCaps, keepPrivs, marked bool }

// childArgs is everything that the child needs, in memory that exists before the fork.
type childArgs struct {
	path, dir  *byte
	argv, envv **byte
	stdio      [3]int
	netns      int
	// alive is the write end of a pipe that closes when the program runs or the child dies.
	alive       int
	parent      uintptr
	limit       *unix.Rlimit
	filter      *unix.SockFprog
	filterFlags uintptr
	switches
	page *page
}

// Signals are numbered from 1 to lastSignal; the kernel wants to know the size of a set of them.
const (
	lastSignal    = 64
	signalSetSize = 8
)

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// fork makes a child that runs a program as told. It is a plain fork: the child has memory of its own, so however
// long its exec is held, nothing in this process waits for it, the garbage collector least of all.
//
// The child is one thread of a program whose other threads are gone. It must not allocate, grow its stack, take a
// lock or write a pointer: raw system calls only.
//
//go:noinline
//go:norace
//go:nosplit
func fork(a *childArgs, pidfd *int32) (uintptr, unix.Errno) {
	runtimeBeforeFork()
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_PIDFD, 0, uintptr(unsafe.Pointer(pidfd)), 0, 0, 0)
	if e != 0 || pid != 0 {
		runtimeAfterFork()
		return pid, e
	}
	runtimeAfterForkInChild()
	stage, e := prepare(a)
	if e == 0 {
		stage, e = confine(a)
	}
	if e == 0 {
		stage = stageExec
		if a.marked {
			const here = LaunchMark<<32 | uintptr(^uint32(-unix.AT_FDCWD-1))
			_, _, e = syscall.RawSyscall6(unix.SYS_EXECVEAT, here, uintptr(unsafe.Pointer(a.path)), uintptr(unsafe.Pointer(a.argv)), uintptr(unsafe.Pointer(a.envv)), 0, 0)
		} else {
			_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(a.path)), uintptr(unsafe.Pointer(a.argv)), uintptr(unsafe.Pointer(a.envv)))
		}
	}
	a.page.failure = stage<<16 | uint32(e)
	a.page.listener = failedWord
	syscall.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&a.page.listener)), futexWake, 1)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

const (
	futexWait = 0
	futexWake = 1
	prCapSet  = 0x18
	prAmbient = 0x2f
)

// defaultSignals undoes what the caller ignores (the shell makes a job in the background ignore SIGINT),
// which the program would ignore too.
//
//go:noinline
//go:norace
//go:nosplit
func defaultSignals(a *childArgs) {
	for sig := uintptr(1); sig <= lastSignal; sig++ {
		// SIGKILL and SIGSTOP are refused; nothing else can fail.
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&a.page.defaultAction)), 0, signalSetSize, 0, 0)
	}
}

// prepare gives the child its place: parent, network, group, descriptors, directory.
//
//go:noinline
//go:norace
//go:nosplit
func prepare(a *childArgs) (uint32, unix.Errno) {
	if _, _, e := syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0); e != 0 {
		return stageParent, e
	}
	// The parent may have died before the line above; then nobody would ever tell.
	if p, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); p != a.parent {
		return stageParent, unix.ESRCH
	}
	defaultSignals(a)
	if a.netns >= 0 {
		if _, _, e := syscall.RawSyscall(unix.SYS_SETNS, uintptr(a.netns), unix.CLONE_NEWNET, 0); e != 0 {
			return stageNetNS, e
		}
	}
	if !a.keepGroup {
		if _, _, e := syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0); e != 0 {
			return stageSession, e
		}
	}
	if e := arrange(a); e != 0 {
		return stageStdio, e
	}
	if a.alive > 3 {
		if _, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, uintptr(a.alive-1), 0); e != 0 {
			return stageClose, e
		}
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(a.alive+1), uintptr(^uint32(0)), 0); e != 0 {
		return stageClose, e
	}
	if a.dir != nil {
		if _, _, e := syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(a.dir)), 0, 0); e != 0 {
			return stageDir, e
		}
	}
	if a.limit != nil {
		if _, _, e := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(a.limit)), 0, 0, 0); e != 0 {
			return stageLimit, e
		}
	}
	return 0, 0
}

// arrange puts the three standard descriptors in place. All sources are first copied out of the way: any of
// them may be 0, 1 or 2 itself.
//
//go:noinline
//go:norace
//go:nosplit
func arrange(a *childArgs) unix.Errno {
	fd, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(a.alive), unix.F_DUPFD_CLOEXEC, 3)
	if e != 0 {
		return e
	}
	a.alive = int(fd)
	for i := range a.stdio {
		fd, _, e = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(a.stdio[i]), unix.F_DUPFD_CLOEXEC, 3)
		if e != 0 {
			return e
		}
		a.stdio[i] = int(fd)
	}
	for i := range a.stdio {
		if _, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(a.stdio[i]), uintptr(i), 0); e != 0 {
			return e
		}
	}
	return 0
}

type capHeader struct {
	version uint32
	pid     int32
}

// capData is all zero here: effective, permitted and inheritable capabilities.
type capData struct{ _, _, _ uint32 }

// confine takes the child's privileges and installs the filter. What follows until the program runs is futex,
// execve and exit_group; of these only execve may be in a filter.
//
//go:noinline
//go:norace
//go:nosplit
func confine(a *childArgs) (uint32, unix.Errno) {
	// Refused only by kernels that have no ambient capabilities.
	syscall.RawSyscall6(unix.SYS_PRCTL, prAmbient, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if !a.keepPrivs {
		if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
			return stagePrivs, e
		}
	}
	if a.dropCaps {
		if e := dropCaps(); e != 0 {
			return stageCaps, e
		}
	}
	if a.filter == nil {
		return 0, 0
	}
	fd, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, a.filterFlags, uintptr(unsafe.Pointer(a.filter)))
	if e != 0 {
		return stageFilter, e
	}
	p := a.page
	p.listener = uint32(fd) + 1
	syscall.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.listener)), futexWake, 1)
	for p.acknowledged == 0 {
		syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.acknowledged)), futexWait, 0, 0, 0, 0)
	}
	if p.acknowledged != goOn {
		return stageFilter, unix.ECANCELED
	}
	return 0, 0
}

// dropCaps empties the bounding set too: without that, root's exec would bring all back.
//
//go:noinline
//go:norace
//go:nosplit
func dropCaps() unix.Errno {
	for c := uintptr(0); c < 64; c++ {
		// EINVAL ends the list; without the right to (EPERM) there is nothing that exec could bring back.
		if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, prCapSet, c, 0, 0, 0, 0); e != 0 {
			break
		}
	}
	h := capHeader{version: 0x20080522}
	var d [2]capData
	_, _, e := syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&d)), 0)
	return e
}

// wait sleeps until a word of the page is no longer old, at most for a tenth of a second.
func (p *page) wait(word *uint32, old uint32) {
	t := unix.Timespec{Nsec: 100e6}
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old), uintptr(unsafe.Pointer(&t)), 0, 0)
}

func (p *page) acknowledge(word uint32) {
	p.acknowledged = word
	unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.acknowledged)), futexWake, 1)
}

func newPage() (*page, []byte, error) {
	b, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, err
	}
	return (*page)(unsafe.Pointer(&b[0])), b, nil
}

func cString(s string) (*byte, error) { return unix.BytePtrFromString(s) }

func cStrings(list []string) (**byte, error) {
	p := make([]*byte, len(list)+1)
	for i, s := range list {
		c, err := cString(s)
		if err != nil {
			return nil, err
		}
		p[i] = c
	}
	return &p[0], nil
}
