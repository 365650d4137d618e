//go:build linux

package bpf

import "golang.org/x/sys/unix"

// Names returns the names of all calls that can be subscribed on this machine, by number.
func Names() map[int32]string {
	m := map[int32]string{}
	for name, nr := range callNumbers() {
		m[int32(nr)] = name
	}
	return m
}

// callNumbers is the table of calls that can be subscribed on this machine. Not in it are those that
// the launch itself makes behind the filter (futex, exit_group, sched_yield).
func callNumbers() map[string]uint32 {
	m := commonCalls()
	for name, nr := range ownCalls() {
		m[name] = nr
	}
	return m
}

// commonCalls are those that every supported machine has.
func commonCalls() map[string]uint32 {
	return map[string]uint32{
		"openat": unix.SYS_OPENAT, "openat2": unix.SYS_OPENAT2,
		"read": unix.SYS_READ, "readv": unix.SYS_READV, "pread64": unix.SYS_PREAD64,
		"preadv": unix.SYS_PREADV, "preadv2": unix.SYS_PREADV2,
		"write": unix.SYS_WRITE, "writev": unix.SYS_WRITEV, "pwrite64": unix.SYS_PWRITE64,
		"pwritev": unix.SYS_PWRITEV, "pwritev2": unix.SYS_PWRITEV2,
		"fsync": unix.SYS_FSYNC, "fdatasync": unix.SYS_FDATASYNC, "sync": unix.SYS_SYNC,
		"sync_file_range": unix.SYS_SYNC_FILE_RANGE, "syncfs": unix.SYS_SYNCFS, "msync": unix.SYS_MSYNC,
		"close": unix.SYS_CLOSE, "close_range": unix.SYS_CLOSE_RANGE, "lseek": unix.SYS_LSEEK,
		"truncate": unix.SYS_TRUNCATE, "ftruncate": unix.SYS_FTRUNCATE, "fallocate": unix.SYS_FALLOCATE,
		"renameat2": unix.SYS_RENAMEAT2, "unlinkat": unix.SYS_UNLINKAT, "mkdirat": unix.SYS_MKDIRAT,
		"linkat": unix.SYS_LINKAT, "symlinkat": unix.SYS_SYMLINKAT, "readlinkat": unix.SYS_READLINKAT,
		"fchmod": unix.SYS_FCHMOD, "fchmodat": unix.SYS_FCHMODAT, "fchown": unix.SYS_FCHOWN, "fchownat": unix.SYS_FCHOWNAT,
		"statx": unix.SYS_STATX, "fstat": unix.SYS_FSTAT, "statfs": unix.SYS_STATFS, "fstatfs": unix.SYS_FSTATFS,
		"faccessat": unix.SYS_FACCESSAT, "faccessat2": unix.SYS_FACCESSAT2, "getdents64": unix.SYS_GETDENTS64,
		"utimensat": unix.SYS_UTIMENSAT, "flock": unix.SYS_FLOCK, "fcntl": unix.SYS_FCNTL, "ioctl": unix.SYS_IOCTL,
		"dup": unix.SYS_DUP, "dup3": unix.SYS_DUP3, "pipe2": unix.SYS_PIPE2, "chdir": unix.SYS_CHDIR,
		"fchdir": unix.SYS_FCHDIR, "copy_file_range": unix.SYS_COPY_FILE_RANGE, "splice": unix.SYS_SPLICE,
		"tee": unix.SYS_TEE, "vmsplice": unix.SYS_VMSPLICE, "memfd_create": unix.SYS_MEMFD_CREATE,
		"sendfile": unix.SYS_SENDFILE, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2,
		"connect": unix.SYS_CONNECT, "bind": unix.SYS_BIND, "listen": unix.SYS_LISTEN, "accept": unix.SYS_ACCEPT,
		"accept4": unix.SYS_ACCEPT4, "socket": unix.SYS_SOCKET, "socketpair": unix.SYS_SOCKETPAIR,
		"sendto": unix.SYS_SENDTO, "sendmsg": unix.SYS_SENDMSG, "sendmmsg": unix.SYS_SENDMMSG,
		"recvfrom": unix.SYS_RECVFROM, "recvmsg": unix.SYS_RECVMSG, "recvmmsg": unix.SYS_RECVMMSG,
		"shutdown": unix.SYS_SHUTDOWN, "getsockname": unix.SYS_GETSOCKNAME, "getpeername": unix.SYS_GETPEERNAME,
		"getsockopt": unix.SYS_GETSOCKOPT, "setsockopt": unix.SYS_SETSOCKOPT,
		"mmap": unix.SYS_MMAP, "munmap": unix.SYS_MUNMAP, "mprotect": unix.SYS_MPROTECT, "mremap": unix.SYS_MREMAP,
		"brk": unix.SYS_BRK, "madvise": unix.SYS_MADVISE,
		"clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3, "execve": unix.SYS_EXECVE, "execveat": unix.SYS_EXECVEAT,
		"wait4": unix.SYS_WAIT4, "waitid": unix.SYS_WAITID, "kill": unix.SYS_KILL, "tgkill": unix.SYS_TGKILL,
		"setsid": unix.SYS_SETSID, "setpgid": unix.SYS_SETPGID, "unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS,
		"getpid": unix.SYS_GETPID, "gettid": unix.SYS_GETTID, "getppid": unix.SYS_GETPPID, "getuid": unix.SYS_GETUID,
		"getrandom": unix.SYS_GETRANDOM, "uname": unix.SYS_UNAME, "sysinfo": unix.SYS_SYSINFO,
		"clock_gettime": unix.SYS_CLOCK_GETTIME, "gettimeofday": unix.SYS_GETTIMEOFDAY,
		"clock_nanosleep": unix.SYS_CLOCK_NANOSLEEP, "nanosleep": unix.SYS_NANOSLEEP,
		"ppoll": unix.SYS_PPOLL, "pselect6": unix.SYS_PSELECT6, "epoll_pwait": unix.SYS_EPOLL_PWAIT,
		"epoll_ctl": unix.SYS_EPOLL_CTL, "epoll_create1": unix.SYS_EPOLL_CREATE1, "eventfd2": unix.SYS_EVENTFD2,
		"timerfd_create": unix.SYS_TIMERFD_CREATE, "timerfd_settime": unix.SYS_TIMERFD_SETTIME,
		"io_setup": unix.SYS_IO_SETUP, "io_submit": unix.SYS_IO_SUBMIT,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER,
		"seccomp": unix.SYS_SECCOMP, "ptrace": unix.SYS_PTRACE, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
		"pidfd_open": unix.SYS_PIDFD_OPEN, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
	}
}

// elsewhere are names that some machine has: there a subscription with them is right, here they are ignored.
func elsewhere() []string {
	return []string{"open", "creat", "rename", "renameat", "unlink", "rmdir", "mkdir", "stat", "lstat", "newfstatat",
		"fork", "vfork", "dup2", "pipe", "poll", "select", "epoll_wait", "time", "link", "symlink", "readlink", "access",
		"chmod", "chown", "getdents", "alarm"}
}
