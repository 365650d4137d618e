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

// tied reports whether a process has a socket, of which socket is a duplicate, under another number than fd
// too, or in an epoll set. One that takes its place at fd would be in neither. Where procfs does not tell it
// is taken for tied.
func tied(pid, fd, socket int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(socket, &st); err != nil {
		return true
	}
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/fd", pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer closeAll(dir)
	own, same := strconv.Itoa(fd), fmt.Sprintf("socket:[%d]", st.Ino)
	buf, link := make([]byte, 8192), make([]byte, max(len(eventPoll), len(same))+1)
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil || n <= 0 {
			return err != nil
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			n, err := unix.Readlinkat(dir, name, link)
			switch {
			case err != nil:
			case string(link[:n]) == same && name != own:
				return true
			case string(link[:n]) == eventPoll:
				info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, name))
				if err == nil && watches(info, st.Ino) {
					return true
				}
			}
		}
	}
}

// substitutable reports whether another socket may take the place of the program's.
func (c *call) substitutable() bool { return c.Pid == 0 || !tied(c.Pid, c.FD, c.Socket) }

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

// closeOnExec reports whether a process has its descriptor fd marked so.
func closeOnExec(pid, fd int) bool {
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
