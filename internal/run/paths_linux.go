package run

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
)

// atCall reports whether a call takes a directory's descriptor before its path.
func atCall(name string) bool {
	switch name {
	case "openat", "openat2", "renameat", "renameat2", "unlinkat", "mkdirat", "newfstatat", "statx", "execveat",
		"faccessat", "faccessat2", "readlinkat", "linkat", "fchmodat", "fchownat", "utimensat":
		return true
	}
	return false
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
