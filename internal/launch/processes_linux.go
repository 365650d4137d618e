package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is what /proc/PID/stat says of one.
type process struct {
	pid, parent, group, session int
	threads                     int
	state                       byte
	start                       string
}

func readProcess(pid int) (process, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(b)
}

// parseStat reads the format of proc_pid_stat(5). The name in parentheses may hold anything.
func parseStat(b []byte) (process, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return process{}, fmt.Errorf("cannot read %q", b)
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 {
		return process{}, fmt.Errorf("cannot read %q", b)
	}
	p := process{state: f[0][0], start: string(f[19])}
	var err error
	for _, n := range []struct {
		to   *int
		from []byte
	}{{&p.pid, bytes.TrimSpace(b[:open])}, {&p.parent, f[1]}, {&p.group, f[2]}, {&p.session, f[3]}, {&p.threads, f[17]}} {
		var e error
		*n.to, e = strconv.Atoi(string(n.from))
		err = errors.Join(err, e)
	}
	return p, err
}

// readProcesses returns those that /proc shows. One that ends meanwhile may be left out.
func readProcesses() ([]process, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []process
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// alive reports whether the process runs: a leader may have ended before its other threads.
func (p process) alive() bool {
	return p.state != 'Z' && p.state != 'X' || p.threads > 1
}

// descendants returns those of root, itself not included.
func descendants(all []process, root int) []process {
	children := make(map[int][]process)
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var out []process
	queue := []int{root}
	for len(queue) > 0 {
		next := children[queue[0]]
		queue = queue[1:]
		for _, p := range next {
			queue = append(queue, p.pid)
			out = append(out, p)
		}
	}
	return out
}

// kill sends a signal to the process that p described, and not to a later one with its number.
func (p process) kill(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	now, err := readProcess(p.pid)
	if err != nil || now.start != p.start {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// inNetwork reports whether the process's network namespace is the one with that inode.
func (p process) inNetwork(inode uint64) bool {
	var st unix.Stat_t
	err := unix.Stat("/proc/"+strconv.Itoa(p.pid)+"/ns/net", &st)
	return err == nil && st.Ino == inode
}
