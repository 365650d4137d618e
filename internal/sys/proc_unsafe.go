//go:build linux

package sys

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidfdThread is PIDFD_THREAD: the descriptor stands for one thread instead of its group.
const pidfdThread = unix.O_EXCL

// OpenThread returns a pidfd for a thread. Kernels before 6.9 only have them for groups; there the
// thread's group stands for it, and exact is false.
func OpenThread(tid int) (fd int, exact bool, err error) {
	fd, err = unix.PidfdOpen(tid, pidfdThread)
	if err != unix.EINVAL {
		return fd, true, err
	}
	group, err := threadGroup(tid)
	if err != nil {
		return -1, false, err
	}
	fd, err = unix.PidfdOpen(group, 0)
	return fd, false, err
}

func threadGroup(tid int) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, unix.ESRCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "Tgid:"); ok {
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return 0, unix.ESRCH
}

// pageSize bounds one piece of a transfer: a piece that cannot be read does not spoil those before it.
const pageSize = 4096

// ReadVM copies memory of another task into p. It returns how much could be read, which is less than
// asked where a mapping ends; an error only where that is nothing.
func ReadVM(tid int, addr uint64, p []byte) (int, error) {
	return transfer(unix.SYS_PROCESS_VM_READV, tid, addr, p)
}

// WriteVM copies p into memory of another task; see ReadVM.
func WriteVM(tid int, addr uint64, p []byte) (int, error) {
	return transfer(unix.SYS_PROCESS_VM_WRITEV, tid, addr, p)
}

// remoteIovec is struct iovec with an address that is no pointer here.
type remoteIovec struct{ base, len uint64 }

func transfer(call uintptr, tid int, addr uint64, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		var pieces [16]remoteIovec
		n, bytes := 0, 0
		for n < len(pieces) && done+bytes < len(p) {
			at := addr + uint64(done+bytes)
			size := min(pageSize-int(at%pageSize), len(p)-done-bytes)
			pieces[n] = remoteIovec{at, uint64(size)}
			bytes += size
			n++
		}
		local := unix.Iovec{Base: &p[done]}
		local.SetLen(bytes)
		got, _, e := unix.Syscall6(call, uintptr(tid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&pieces[0])), uintptr(n), 0)
		if e != 0 && done == 0 {
			return 0, e
		}
		if e != 0 {
			return done, nil
		}
		done += int(got)
		if int(got) < bytes {
			return done, nil
		}
	}
	return done, nil
}

// SameFile reports whether two tasks' descriptors are one open file description.
func SameFile(pid1, fd1, pid2, fd2 int) (bool, error) {
	const kcmpFile = 0
	r, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(pid1), uintptr(pid2), kcmpFile, uintptr(fd1), uintptr(fd2), 0)
	return e == 0 && r == 0, wrap(e)
}

// SocketCookie returns the number that names a socket for the machine's lifetime.
func SocketCookie(fd int) (uint64, error) {
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
}

// kernelAction is struct sigaction as rt_sigaction takes it; the layout after flags differs by machine and
// is carried through untouched.
type kernelAction struct {
	handler uintptr
	flags   uint64
	rest    [6]uint64
}

// NudgeSignal interrupts a thread that waits in Recv. It is the last real-time signal but one, which
// nothing else uses.
const NudgeSignal = unix.Signal(63)

// PrepareNudge makes NudgeSignal interrupt system calls in this process: Go's own handler, which ignores that
// signal, stays but loses the flag that restarts them.
func PrepareNudge() error {
	const setSize, restartFlag = 8, 0x10000000
	var a kernelAction
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(NudgeSignal), 0, uintptr(unsafe.Pointer(&a)), setSize, 0, 0); e != 0 {
		return fmt.Errorf("sys: reading signal action: %w", e)
	}
	if a.handler <= 1 {
		return fmt.Errorf("sys: signal %d has no handler", NudgeSignal)
	}
	a.flags &^= restartFlag
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(NudgeSignal), uintptr(unsafe.Pointer(&a)), 0, setSize, 0, 0); e != 0 {
		return fmt.Errorf("sys: setting signal action: %w", e)
	}
	return nil
}

// Nudge sends NudgeSignal to a thread of this process.
func Nudge(tid int) error { return unix.Tgkill(os.Getpid(), tid, NudgeSignal) }
