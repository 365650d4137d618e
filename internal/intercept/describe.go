//go:build linux

package intercept

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/sys"
)

// Describe says what a descriptor of a caller leads to: its kind; the path of a file or directory, as seen from the
// supervisor's root; the cookie of a socket.
func Describe(s Session, c Call, fd int) (kind fault.Descriptor, path string, cookie uint64, err error) {
	own, err := s.Descriptor(c, fd)
	if err != nil {
		return "", "", 0, err
	}
	defer unix.Close(own)
	return DescribeOwn(own)
}

// DescribeOwn is Describe for a descriptor of this process.
func DescribeOwn(fd int) (kind fault.Descriptor, path string, cookie uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", "", 0, fmt.Errorf("intercept: descriptor: %w", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		cookie, err = sys.SocketCookie(fd)
		if err != nil {
			return "", "", 0, fmt.Errorf("intercept: socket cookie: %w", err)
		}
		return fault.Socket, "", cookie, nil
	case unix.S_IFIFO:
		return fault.Pipe, "", 0, nil
	case unix.S_IFCHR:
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			return fault.TTY, "", 0, nil
		}
		return fault.Other, "", 0, nil
	case unix.S_IFREG:
		kind = fault.File
	case unix.S_IFDIR:
		kind = fault.Other
	default:
		return fault.Other, "", 0, nil
	}
	path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", "", 0, fmt.Errorf("intercept: path of a descriptor: %w", err)
	}
	// The kernel marks a file that has no name any more. A file may be called so, too; then the mark is part of a
	// name that exists.
	if short, ok := strings.CutSuffix(path, " (deleted)"); ok && st.Nlink == 0 {
		path = short
	}
	return kind, path, 0, nil
}
