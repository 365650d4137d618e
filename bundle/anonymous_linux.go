package bundle

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// newAnonymous returns a file in dir without a name: when the process dies, the kernel takes it away.
// File systems that have no such files get one with a hidden name.
func newAnonymous(dir string) (*anonymous, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	switch {
	case err == nil:
		return &anonymous{File: os.NewFile(uintptr(fd), dir+"/(bundle)")}, nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOENT):
		return newHidden(dir)
	}
	return nil, &os.PathError{Op: "open", Path: dir, Err: err}
}

// link gives a nameless file a name.
func (a *anonymous) link(name string) error {
	from := "/proc/self/fd/" + strconv.Itoa(int(a.Fd()))
	if err := unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: from, New: name, Err: err}
	}
	return nil
}
