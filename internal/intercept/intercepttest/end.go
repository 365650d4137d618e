//go:build linux

package intercepttest

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
)

func endCases() []testCase {
	return []testCase{
		{"killed while a call is held", testKilled, nil},
		{"closed while calls wait", testClosed, nil},
		{"closed while next waits", testClosedIdle, nil},
		{"closed while calls come", testClosedBusy, nil},
		{"supervisor dies", testSupervisorDies, nil},
	}
}

func testKilled(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("mkdir", filepath.Join(t.TempDir(), "d")), mkdirs())
	c := p.next()
	if err := unix.Kill(p.s.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	if p.s.Alive(c.ID) {
		t.Error("a dead caller's call is alive")
	}
	if err := p.s.Reply(c.ID, deny(unix.EIO)); !errors.Is(err, intercept.ErrGone) {
		t.Errorf("answering a dead caller: %v", err)
	}
	if _, st := p.end(); st.Signal() != unix.SIGKILL {
		t.Errorf("got %s", status(st))
	}
	if _, err := p.s.ReadMemory(c, c.Args[1], make([]byte, 8)); !errors.Is(err, intercept.ErrGone) {
		t.Errorf("reading a dead caller: %v", err)
	}
	if _, err := p.s.Descriptor(c, 0); !errors.Is(err, intercept.ErrGone) {
		t.Errorf("descriptor of a dead caller: %v", err)
	}
}

func testClosed(t *testing.T, b intercept.Backend) {
	dir := t.TempDir()
	p := begin(t, b, target("pair", dir+"/a", dir+"/b"), mkdirs())
	first, second := p.next(), p.next()
	if first.Thread == second.Thread {
		t.Error("two calls of one thread wait at once")
	}
	if err := p.s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []intercept.Call{first, second} {
		if err := p.s.Reply(c.ID, intercept.Reply{}); !errors.Is(err, intercept.ErrGone) {
			t.Errorf("answering after the end: %v", err)
		}
	}
	if _, err := p.s.Next(); !errors.Is(err, intercept.ErrClosed) {
		t.Errorf("next after the end: %v", err)
	}
	p.expect("ENOSYS ENOSYS")
}

// testClosedIdle closes under a Next that has nothing to deliver.
func testClosedIdle(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("pause"), mkdirs())
	ended := make(chan error)
	go func() {
		_, err := p.s.Next()
		ended <- err
	}()
	if err := p.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, intercept.ErrClosed) {
		t.Errorf("got %v", err)
	}
	unix.Kill(p.s.Pid(), unix.SIGKILL)
	p.end()
}

// testClosedBusy closes between any two steps of a session at work.
func testClosedBusy(t *testing.T, b intercept.Backend) {
	for i := range 20 {
		p := begin(t, b, target("ppid", "1000000000"), intercept.Subscription{Calls: []string{"getppid"}})
		ended := make(chan error)
		many := make(chan bool)
		go func() {
			for n := 0; ; n++ {
				c, err := p.s.Next()
				if err != nil {
					ended <- err
					return
				}
				if n == 10*i {
					close(many)
				}
				p.s.Reply(c.ID, intercept.Reply{Answer: true})
			}
		}()
		<-many
		if err := p.s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, intercept.ErrClosed) {
			t.Errorf("got %v", err)
		}
		unix.Kill(p.s.Pid(), unix.SIGKILL)
		p.end()
	}
}

// testSupervisorDies kills a process that supervises another; that must not live on. The supervisor runs freely, since
// a supervised program can have no listener of its own.
func testSupervisorDies(t *testing.T, b intercept.Backend) {
	p := target("supervisor")
	cmd := exec.Command(p.Path)
	cmd.Env = p.Env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	cmd.Process.Kill()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 5000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			unix.Kill(pid, unix.SIGKILL)
			t.Errorf("the program outlives its supervisor: %v", err)
		}
		return
	}
}
