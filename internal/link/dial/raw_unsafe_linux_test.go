package dial

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// connectUnspec dissolves a socket's association; the package unix has no such address.
func connectUnspec(fd int) error {
	var raw [16]byte
	_, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&raw)), unsafe.Sizeof(raw))
	if e != 0 {
		return e
	}
	return nil
}

func netipLoopback(port uint16) netip.AddrPort { return netip.AddrPortFrom(loopback4(), port) }
