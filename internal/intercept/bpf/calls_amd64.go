//go:build linux

package bpf

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// x32Bit marks the calls of the x32 table, which share the architecture's number.
	x32Bit uint32 = 0x40000000
)

// ownCalls are those that this machine has and others may lack.
func ownCalls() map[string]uint32 {
	return map[string]uint32{
		"open": unix.SYS_OPEN, "creat": unix.SYS_CREAT, "rename": unix.SYS_RENAME, "renameat": unix.SYS_RENAMEAT,
		"unlink": unix.SYS_UNLINK, "rmdir": unix.SYS_RMDIR, "mkdir": unix.SYS_MKDIR,
		"stat": unix.SYS_STAT, "lstat": unix.SYS_LSTAT, "newfstatat": unix.SYS_NEWFSTATAT,
		"fork": unix.SYS_FORK, "vfork": unix.SYS_VFORK, "dup2": unix.SYS_DUP2, "pipe": unix.SYS_PIPE,
		"poll": unix.SYS_POLL, "select": unix.SYS_SELECT, "epoll_wait": unix.SYS_EPOLL_WAIT, "time": unix.SYS_TIME,
		"link": unix.SYS_LINK, "symlink": unix.SYS_SYMLINK, "readlink": unix.SYS_READLINK, "access": unix.SYS_ACCESS,
		"chmod": unix.SYS_CHMOD, "chown": unix.SYS_CHOWN, "getdents": unix.SYS_GETDENTS, "alarm": unix.SYS_ALARM,
	}
}
