package e2e

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listen asks for a listener of its own, as sandboxes do.
func listen(instruction [8]byte) error {
	program := struct {
		length uint16
		_      [6]byte
		filter *byte
	}{length: 1, filter: &instruction[0]}
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

func bytesAt(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }
