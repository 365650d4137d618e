//go:build linux

package link

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// meminfoDrops is the place of the drop counter in SO_MEMINFO, from linux/sock_diag.h.
const meminfoDrops = 8

// drops returns how many segments a socket has dropped.
func drops(fd int) (uint32, error) {
	var info [meminfoDrops + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return info[meminfoDrops], nil
}
