package run

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
)

// atCall reports whether a call takes a directory's descriptor before its path.
func atCall(name string) bool {
	switch name {
	case "openat", "openat2", "renameat", "renameat2", "unlinkat", "mkdirat", "newfstatat", "statx", "execveat",
		"faccessat", "faccessat2", "readlinkat", "linkat", "symlinkat", "fchmodat", "fchownat", "utimensat":
		return true
	}
	return false
}

// path returns the absolute path that a call names, without following links, or "".
func (s *service) path(session intercept.Session, c intercept.Call, f fault.Family) string {
	arg, at := f.Path, f.PathAt
	switch {
	case c.Name == "symlink":
		arg, at = 1, -1
	case !atCall(c.Name):
		arg, at = 0, -1
	}
	return named(session, c, arg, at)
}

// otherPath returns the second path of a call that has two, or "".
func otherPath(session intercept.Session, c intercept.Call) string {
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
	name, err := intercept.ReadString(session, c, c.Args[arg], pathLimit)
	if err != nil {
		return ""
	}
	dir := unix.AT_FDCWD
	if at >= 0 {
		dir = int(int32(c.Args[at]))
	}
	return absolute(session, c, dir, name)
}

// absolute makes a path that a program named absolute, by its working directory or by the
// directory's descriptor. It does not follow links: a rule sees the name that the program used.
func absolute(session intercept.Session, c intercept.Call, dir int, name string) string {
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
