// Package args reads what the arguments of a stopped call point to: paths, addresses and buffers.
package args

import (
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
)

// PathLimit bounds a path that is read from a program's memory, as the kernel does.
const PathLimit = 4096

// atCall reports whether a call takes a directory's descriptor before its path.
func atCall(name string) bool {
	switch name {
	case "openat", "openat2", "renameat", "renameat2", "unlinkat", "mkdirat", "newfstatat", "statx", "execveat",
		"faccessat", "faccessat2", "readlinkat", "linkat", "symlinkat", "fchmodat", "fchownat", "utimensat":
		return true
	}
	return false
}

// Path returns the absolute path that a call names, without following links, or "".
func Path(session intercept.Session, c intercept.Call, f fault.Family) string {
	arg, at := f.Path, f.PathAt
	switch {
	case c.Name == "symlink":
		arg, at = 1, -1
	case !atCall(c.Name):
		arg, at = 0, -1
	}
	return named(session, c, arg, at)
}

// OtherPath returns the second path of a call that has two, or "".
func OtherPath(session intercept.Session, c intercept.Call) string {
	switch c.Name {
	case "rename", "link":
		return named(session, c, 1, -1)
	case "renameat", "renameat2", "linkat":
		return named(session, c, 3, 2)
	}
	return ""
}

// named returns the absolute path that one argument names, from the directory that another does; at is -1 for the
// working directory.
func named(session intercept.Session, c intercept.Call, arg, at int) string {
	name, err := intercept.ReadString(session, c, c.Args[arg], PathLimit)
	if err != nil {
		return ""
	}
	dir := unix.AT_FDCWD
	if at >= 0 {
		dir = int(int32(c.Args[at]))
	}
	return Absolute(session, c, dir, name)
}

// Absolute makes a path that a program named absolute, by its working directory or by the
// directory's descriptor. It does not follow links: a rule sees the name that the program used.
func Absolute(session intercept.Session, c intercept.Call, dir int, name string) string {
	if strings.HasPrefix(name, "/") {
		return path.Clean(name)
	}
	if dir == unix.AT_FDCWD {
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", c.Thread))
		if err != nil {
			return ""
		}
		return path.Join(cwd, name)
	}
	_, base, _, err := intercept.Describe(session, c, dir)
	if err != nil || base == "" {
		return ""
	}
	return path.Join(base, name)
}

// SocketAddress reads a socket address, or returns nil where there is none.
func SocketAddress(session intercept.Session, c intercept.Call, at, length uint64) []byte {
	b := make([]byte, min(length&0xffffffff, unix.SizeofSockaddrAny+16))
	if at == 0 || len(b) < 2 {
		return nil
	}
	if n, err := session.ReadMemory(c, at, b); err != nil || n < len(b) {
		return nil
	}
	return b
}

// Give writes a value into a buffer of the program, cut to its length, and the full length beside it.
func Give(session intercept.Session, c intercept.Call, buffer, length uint64, value []byte) unix.Errno {
	var n [4]byte
	if got, err := session.ReadMemory(c, length, n[:]); err != nil || got < 4 {
		return unix.EFAULT
	}
	room := int32(binary.NativeEndian.Uint32(n[:]))
	if room < 0 {
		return unix.EINVAL
	}
	if cut := value[:min(len(value), int(room))]; len(cut) > 0 && session.WriteMemory(c, buffer, cut) != nil {
		return unix.EFAULT
	}
	binary.NativeEndian.PutUint32(n[:], uint32(len(value)))
	if session.WriteMemory(c, length, n[:]) != nil {
		return unix.EFAULT
	}
	return 0
}
