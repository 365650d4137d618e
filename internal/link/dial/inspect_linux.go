package dial

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Polled reports whether a process has a socket, of which fd is a duplicate, in an epoll set. A
// socket that takes its place would not be in it.
func Polled(pid, fd int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false
	}
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/fd", pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer closeAll(dir)
	buf, link := make([]byte, 8192), make([]byte, len(eventPoll)+1)
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil || n <= 0 {
			return false
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if n, err := unix.Readlinkat(dir, name, link); err != nil || string(link[:n]) != eventPoll {
				continue
			}
			info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, name))
			if err == nil && watches(info, st.Ino) {
				return true
			}
		}
	}
}

// eventPoll is what the link of an epoll descriptor says in procfs.
const eventPoll = "anon_inode:[eventpoll]"

// watches reads the fdinfo of an epoll descriptor: a line "tfd: 5 events: 19 data: ... ino:1f2 sdev:8"
// for each member, with the inode's number in hexadecimal.
func watches(info []byte, inode uint64) bool {
	lines := bufio.NewScanner(bytes.NewReader(info))
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "tfd:") {
			continue
		}
		_, rest, found := strings.Cut(line, "ino:")
		if !found {
			continue
		}
		number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if n, err := strconv.ParseUint(number, 16, 64); err == nil && n == inode {
			return true
		}
	}
	return false
}

// CloseOnExec reports whether a process has its descriptor fd marked so.
func CloseOnExec(pid, fd int) bool {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(info)) {
		value, found := strings.CutPrefix(line, "flags:")
		if !found {
			continue
		}
		flags, err := strconv.ParseUint(strings.TrimSpace(value), 8, 64)
		return err == nil && flags&unix.O_CLOEXEC != 0
	}
	return false
}
