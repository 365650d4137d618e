//go:build linux

package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Data is struct seccomp_data: a system call as a filter sees it.
type Data struct {
	Nr   int32
	Arch uint32
	IP   uint64
	Args [6]uint64
}

// Notif is struct seccomp_notif: a system call that waits for its answer.
type Notif struct {
	ID uint64
	// Pid is the calling thread, in the reader's pid namespace; 0 if it has none there.
	Pid   uint32
	Flags uint32
	Data  Data
}

// NotifResp is struct seccomp_notif_resp: an answer.
type NotifResp struct {
	ID  uint64
	Val int64
	// Error is a negative errno, or 0.
	Error int32
	Flags uint32
}

type addFD struct {
	id         uint64
	flags      uint32
	srcfd      uint32
	newfd      uint32
	newfdFlags uint32
}

const (
	ioctlIDValid  = 0x40082102
	ioctlAddFD    = 0x40182103
	ioctlSetFlags = 0x40082104
)

// Recv waits for the next notification of a listener. n is overwritten.
//
// ENOENT means that nothing was left to deliver: the last task of the filter is gone, or a signal took the
// notification back between the wake-up and the delivery. Only POLLHUP tells these apart.
func Recv(listener int, n *Notif) error {
	// The kernel refuses a buffer that is not zero.
	*n = Notif{}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
	return wrap(e)
}

// Send answers a notification. ENOENT means that nobody waits for it any more.
func Send(listener int, r *NotifResp) error {
	// It never blocks for longer than a mutex is held, so the scheduler need not know.
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(r)))
	return wrap(e)
}

// IDValid reports whether a notification still waits.
func IDValid(listener int, id uint64) bool {
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), ioctlIDValid, uintptr(unsafe.Pointer(&id)))
	return e == 0
}

// AddFD installs fd in the task that waits for id: over its descriptor at, or where at is negative as the
// lowest free one. With send the call returns the new number to the task and is answered by that.
func AddFD(listener int, id uint64, fd, at int, cloexec, send bool) (int, error) {
	a := addFD{id: id, srcfd: uint32(fd)}
	if at >= 0 {
		a.flags |= unix.SECCOMP_ADDFD_FLAG_SETFD
		a.newfd = uint32(at)
	}
	if send {
		a.flags |= unix.SECCOMP_ADDFD_FLAG_SEND
	}
	if cloexec {
		a.newfdFlags = unix.O_CLOEXEC
	}
	n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlAddFD, uintptr(unsafe.Pointer(&a)))
	return int(n), wrap(e)
}

// SetSyncWakeUp asks the kernel to run reader and task on one CPU in turn, which halves a round
// trip. Kernels before 6.6 answer EINVAL.
func SetSyncWakeUp(listener int) error {
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), ioctlSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return wrap(e)
}

// HungUp reports whether no task with the listener's filter is left.
func HungUp(listener int) bool {
	p := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&unix.POLLHUP != 0
}

// wrap keeps a nil error nil: an Errno of 0 in an error is not.
func wrap(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
