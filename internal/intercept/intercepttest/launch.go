//go:build linux

package intercepttest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/spec"
)

func launchCases() []testCase {
	return []testCase{
		{"exec is the first call", testExecFirst, nil},
		{"exec denied", testExecDenied, nil},
		{"exec fails when it is held", testExecFails, nil},
		{"program that cannot run", testCannotRun, nil},
		{"unknown call", testUnknownCall, nil},
		{"privileges", testPrivileges, nil},
		{"privileges kept", testPrivilegesKept, nil},
		{"own session", testGroup, nil},
		{"open files", testOpenFiles, nil},
		{"network namespace", testNetNS, nil},
		{"descriptors inside", testInside, nil},
		{"threads end", testThreadsEnd, nil},
	}
}

func execs() intercept.Subscription { return intercept.Subscription{Calls: []string{"execve"}} }

func testExecFirst(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("link", "/proc/self/exe"), execs())
	c := p.next()
	self, _ := os.Executable()
	if path, err := intercept.ReadString(p.s, c, c.Args[0], 4096); c.Name != "execve" || path != self || err != nil {
		t.Errorf("got %s(%q), %v", c.Name, path, err)
	}
	if c.Thread != p.s.Pid() {
		t.Errorf("thread %d, want %d", c.Thread, p.s.Pid())
	}
	// A collection stops every thread of this process: one that the held exec held up would stop it for ever.
	runtime.GC()
	p.reply(c, intercept.Reply{})
	p.serve(allow)
	p.expect(self)
}

func testExecDenied(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("mkdir", "/nowhere/d"), execs())
	p.reply(p.next(), deny(unix.ETXTBSY))
	wantLaunchError(t, p, unix.ETXTBSY)
}

func testExecFails(t *testing.T, b intercept.Backend) {
	p := begin(t, b, spec.Process{Path: "/nowhere/program", Args: []string{"x"}}, execs())
	p.reply(p.next(), intercept.Reply{})
	wantLaunchError(t, p, unix.ENOENT)
}

func wantLaunchError(t *testing.T, p *program, want unix.Errno) {
	t.Helper()
	_, err := p.s.Next()
	var e *intercept.LaunchError
	if !errors.As(err, &e) || !errors.Is(err, want) || e.Step != "running the program" {
		t.Errorf("got %v, want %v", err, want)
	}
	if _, st := p.end(); st.ExitStatus() != 127 {
		t.Errorf("%s, want exit 127", status(st))
	}
}

func testCannotRun(t *testing.T, b intercept.Backend) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	self, _ := os.Executable()
	cases := []struct {
		name string
		p    spec.Process
		want unix.Errno
		step string
	}{
		{"missing", spec.Process{Path: "/nowhere/program"}, unix.ENOENT, "running the program"},
		{"not executable", spec.Process{Path: file("plain", "x", 0o644)}, unix.EACCES, "running the program"},
		{"no format", spec.Process{Path: file("text", "hello", 0o755)}, unix.ENOEXEC, "running the program"},
		{"missing interpreter", spec.Process{Path: file("script", "#!/nowhere/sh\n", 0o755)}, unix.ENOENT, "running the program"},
		{"a directory", spec.Process{Path: dir}, unix.EACCES, "running the program"},
		{"no directory", spec.Process{Path: self, Dir: "/nowhere"}, unix.ENOENT, "changing directory"},
		{"not a namespace", spec.Process{Path: self, NetNS: 1}, unix.EINVAL, "entering the network namespace"},
	}
	for _, c := range cases {
		c.p.Args = []string{"x"}
		_, err := tryBegin(t, b, c.p, mkdirs())
		var e *intercept.LaunchError
		if !errors.As(err, &e) || !errors.Is(err, c.want) || e.Step != c.step {
			t.Errorf("%s: got %v, want %v while %s", c.name, err, c.want, c.step)
		}
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}

func testUnknownCall(t *testing.T, b intercept.Backend) {
	if _, err := tryBegin(t, b, target("pause"), intercept.Subscription{Calls: []string{"wirte"}}); err == nil || !strings.Contains(err.Error(), `"wirte"`) {
		t.Errorf("got %v", err)
	}
}

func testPrivileges(t *testing.T, b intercept.Backend) {
	p := target("status", "CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "SigBlk", "SigIgn")
	p.DropCaps = true
	pr := begin(t, b, p, mkdirs())
	pr.serve(allow)
	out, _ := pr.end()
	for _, set := range []string{"CapEff", "CapPrm", "CapAmb"} {
		if !strings.Contains(out, set+" 0000000000000000") {
			t.Errorf("%s is not empty:\n%s", set, out)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(out, "CapBnd 0000000000000000") {
		t.Errorf("the bounding set is not empty:\n%s", out)
	}
	if !strings.Contains(out, "NoNewPrivs 1") || !strings.Contains(out, "SigBlk 0000000000000000") {
		t.Errorf("got\n%s", out)
	}
}

func testPrivilegesKept(t *testing.T, b intercept.Backend) {
	p := target("status", "NoNewPrivs")
	p.KeepPrivileges = true
	pr, err := tryBegin(t, b, p, mkdirs())
	if os.Geteuid() != 0 {
		var e *intercept.LaunchError
		if !errors.As(err, &e) || !errors.Is(err, unix.EACCES) || e.Step != "installing the filter" {
			t.Errorf("without the privilege: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	pr.serve(allow)
	pr.expect("NoNewPrivs 0")
}

func testGroup(t *testing.T, b intercept.Backend) {
	for _, keep := range []bool{false, true} {
		p := target("status", "NSpgid", "Pid")
		p.KeepGroup = keep
		pr := begin(t, b, p, mkdirs())
		want := pr.s.Pid()
		if keep {
			want = unix.Getpgrp()
		}
		pr.serve(allow)
		out, _ := pr.end()
		if !strings.HasSuffix(out, fmt.Sprintf("NSpgid %d", want)) {
			t.Errorf("keep=%v: group %d expected in\n%s", keep, want, out)
		}
	}
}

func testOpenFiles(t *testing.T, b intercept.Backend) {
	p := command(t, "sh", "-c", "ulimit -n")
	p.OpenFiles = 77
	pr := begin(t, b, p, mkdirs())
	pr.serve(allow)
	pr.expect("77")
}

func testNetNS(t *testing.T, b intercept.Backend) {
	type made struct {
		fd   int
		name string
		err  error
	}
	result := make(chan made)
	go func() {
		// The thread keeps the namespace and must end with this goroutine: it is never unlocked.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- made{err: err}
			return
		}
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		name, _ := os.Readlink("/proc/thread-self/ns/net")
		result <- made{fd, name, err}
	}()
	ns := <-result
	if ns.err == unix.EPERM {
		t.Skip("making a network namespace needs CAP_SYS_ADMIN")
	}
	if ns.err != nil {
		t.Fatal(ns.err)
	}
	defer unix.Close(ns.fd)
	p := target("link", "/proc/self/ns/net")
	p.NetNS = ns.fd
	pr := begin(t, b, p, mkdirs())
	pr.serve(allow)
	pr.expect(ns.name)
}

// testInside looks at what a program finds open: its three descriptors and nothing of the supervisor's, also
// while the supervisor has others.
func testInside(t *testing.T, b intercept.Backend) {
	var extra []*os.File
	for range 5 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		unix.FcntlInt(f.Fd(), unix.F_SETFD, 0)
		extra = append(extra, f)
	}
	p := begin(t, b, command(t, "sh", "-c", "echo /proc/$$/fd/*"), mkdirs())
	for _, f := range extra {
		f.Close()
	}
	p.serve(allow)
	out, _ := p.end()
	var open []string
	for _, path := range strings.Fields(out) {
		open = append(open, filepath.Base(path))
	}
	// The shell has the directory open while it lists it.
	if got := strings.Join(open, " "); got != "0 1 2" && got != "0 1 2 3" {
		t.Errorf("open inside: %s", got)
	}
	if _, err := p.s.Next(); !errors.Is(err, io.EOF) && !errors.Is(err, intercept.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// testThreadsEnd ends threads of the supervisor, as code that enters namespaces does. The kernel's parent-death signal
// means the thread that forked: the program must not die with a thread.
func testThreadsEnd(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("parallel", "/nowhere/d"), mkdirs())
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(runtime.LockOSThread)
	}
	wg.Wait()
	c := p.next()
	if _, err := p.in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	p.line()
	p.reply(c, deny(unix.EIO))
	p.serve(allow)
	p.expect("EIO")
}
