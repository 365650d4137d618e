package fault

// Errno is an error number of Linux, the same on amd64 and arm64.
type Errno struct {
	Name   string
	Number int
}

// Errnos is the table of errors that a rule may give, from asm-generic/errno.h.
func Errnos() []Errno {
	return []Errno{
		{"EPERM", 1}, {"ENOENT", 2}, {"EINTR", 4}, {"EIO", 5}, {"ENXIO", 6}, {"EBADF", 9},
		{"EAGAIN", 11}, {"ENOMEM", 12}, {"EACCES", 13}, {"EBUSY", 16}, {"EEXIST", 17},
		{"EXDEV", 18}, {"ENODEV", 19}, {"ENOTDIR", 20}, {"EISDIR", 21}, {"EINVAL", 22},
		{"ENFILE", 23}, {"EMFILE", 24}, {"ETXTBSY", 26}, {"EFBIG", 27}, {"ENOSPC", 28},
		{"EROFS", 30}, {"EMLINK", 31}, {"EPIPE", 32}, {"ENAMETOOLONG", 36}, {"ENOSYS", 38},
		{"ENOTEMPTY", 39}, {"ELOOP", 40}, {"EPROTO", 71}, {"EOVERFLOW", 75},
		{"EMSGSIZE", 90}, {"EOPNOTSUPP", 95}, {"EADDRINUSE", 98}, {"EADDRNOTAVAIL", 99},
		{"ENETDOWN", 100}, {"ENETUNREACH", 101}, {"ENETRESET", 102}, {"ECONNABORTED", 103},
		{"ECONNRESET", 104}, {"ENOBUFS", 105}, {"EISCONN", 106}, {"ENOTCONN", 107},
		{"ETIMEDOUT", 110}, {"ECONNREFUSED", 111}, {"EHOSTDOWN", 112}, {"EHOSTUNREACH", 113},
		{"EALREADY", 114}, {"EINPROGRESS", 115}, {"ESTALE", 116}, {"EDQUOT", 122},
	}
}

// ErrnoNumber returns the number of a name.
func ErrnoNumber(name string) (int, bool) {
	for _, e := range Errnos() {
		if e.Name == name {
			return e.Number, true
		}
	}
	return 0, false
}

// ErrnoName returns the name of a number, or "" for one outside the table.
func ErrnoName(number int) string {
	for _, e := range Errnos() {
		if e.Number == number {
			return e.Name
		}
	}
	return ""
}
