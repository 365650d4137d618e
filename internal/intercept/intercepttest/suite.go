//go:build linux

package intercepttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/spec"
)

// targetVar makes the test binary a target.
const targetVar = "SQUALL_INTERCEPT_TARGET"

// Main runs the tests of a package, or, in a child of theirs, a target. supervise starts a program under the backend and is used
// by the target that dies while it supervises.
func Main(m *testing.M, b intercept.Backend) {
	if name := os.Getenv(targetVar); name != "" {
		runTarget(name, os.Args[1:], b)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testCase is one property that a backend must have.
type testCase struct {
	name string
	run  func(*testing.T, intercept.Backend)
	// needs says whether the backend can do what the case is about; nil means that every one has to.
	needs func(intercept.Caps) bool
}

// Run runs the suite.
func Run(t *testing.T, b intercept.Backend) {
	if err := b.Probe(); err != nil {
		t.Skipf("backend %s does not work here: %v", b.Name(), err)
	}
	for _, list := range [][]testCase{answerCases(), launchCases(), memoryCases(), crowdCases(), endCases(), programCases()} {
		for _, c := range list {
			if c.needs != nil && !c.needs(b.Caps()) {
				continue // the backend does not claim it
			}
			t.Run(c.name, func(t *testing.T) {
				before := descriptors(t)
				c.run(t, b)
				settle(t, before)
			})
		}
	}
}

// descriptors returns what this process has open.
func descriptors(t *testing.T) map[string]string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasSuffix(to, "/fd") {
			m[e.Name()] = to
		}
	}
	return m
}

// settle waits until nothing is open that was not before. The thread that forked closes its pidfd on its
// own when the program has ended, so it may be a little late.
func settle(t *testing.T, before map[string]string) {
	t.Helper()
	var left []string
	for range 200 {
		left = nil
		for fd, to := range descriptors(t) {
			// The runtime opens its poller once and keeps it.
			if _, ok := before[fd]; !ok && !strings.Contains(to, "[eventpoll]") && !strings.Contains(to, "[eventfd]") {
				left = append(left, fd+" -> "+to)
			}
		}
		if len(left) == 0 {
			return
		}
		unix.Poll(nil, 10)
	}
	t.Errorf("descriptors left open: %v", left)
}

// program is a running target.
type program struct {
	t       *testing.T
	s       intercept.Session
	in, out *os.File
	reaped  bool
}

// target is the test binary as one of the targets.
func target(name string, args ...string) spec.Process {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return spec.Process{Path: self, Args: append([]string{"target"}, args...), Env: append(os.Environ(), targetVar+"="+name,
		// Under the race detector a program would sleep for a second before it exits.
		"GORACE=atexit_sleep_ms=0")}
}

// command is a program found on the path; its case is skipped where there is none.
func command(t *testing.T, name string, args ...string) spec.Process {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s, which is not on this machine", name)
	}
	return spec.Process{Path: path, Args: append([]string{name}, args...), Env: os.Environ()}
}

// begin starts a program with pipes for its input and output.
func begin(t *testing.T, b intercept.Backend, p spec.Process, sub intercept.Subscription) *program {
	t.Helper()
	pr, err := tryBegin(t, b, p, sub)
	if err != nil {
		t.Fatal(err)
	}
	return pr
}

func tryBegin(t *testing.T, b intercept.Backend, p spec.Process, sub intercept.Subscription) (*program, error) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Fd makes a file blocking, which is right for the ends that the program gets.
	p.Stdin, p.Stdout, p.Stderr = int(inR.Fd()), int(outW.Fd()), int(outW.Fd())
	if p.NetNS == 0 {
		p.NetNS = -1
	}
	s, err := b.Start(context.Background(), p, sub)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	pr := &program{t: t, s: s, in: inW, out: outR}
	t.Cleanup(pr.destroy)
	return pr, nil
}

// destroy ends what a failed test left.
func (p *program) destroy() {
	if !p.reaped {
		unix.Kill(p.s.Pid(), unix.SIGKILL)
		p.s.Close()
		p.reap()
	}
	p.in.Close()
	p.out.Close()
}

func (p *program) reap() unix.WaitStatus {
	p.reaped = true
	var st unix.WaitStatus
	for {
		_, err := unix.Wait4(p.s.Pid(), &st, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			p.t.Errorf("wait: %v", err)
		}
		return st
	}
}

// next returns the next call or fails the test.
func (p *program) next() intercept.Call {
	p.t.Helper()
	c, err := p.s.Next()
	if err != nil {
		p.t.Fatalf("waiting for a call: %v", err)
	}
	return c
}

func (p *program) reply(c intercept.Call, r intercept.Reply) {
	p.t.Helper()
	if err := p.s.Reply(c.ID, r); err != nil {
		p.t.Fatalf("answering %s: %v", c.Name, err)
	}
}

// serve answers calls until the session ends, and returns how many answers arrived. Calls that a signal
// took back come again.
func (p *program) serve(answer func(intercept.Call) intercept.Reply) int {
	p.t.Helper()
	n := 0
	for {
		c, err := p.s.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			p.t.Fatalf("waiting for a call: %v", err)
		}
		switch err := p.s.Reply(c.ID, answer(c)); {
		case err == nil:
			n++
		case !errors.Is(err, intercept.ErrGone):
			p.t.Fatalf("answering %s: %v", c.Name, err)
		}
	}
}

func allow(intercept.Call) intercept.Reply { return intercept.Reply{} }

func deny(e unix.Errno) intercept.Reply { return intercept.Reply{Answer: true, Errno: int(e)} }

// line reads one line of the program's output.
func (p *program) line() string {
	p.t.Helper()
	var b []byte
	for c := make([]byte, 1); ; {
		n, err := p.out.Read(c)
		if n == 0 || err != nil {
			p.t.Fatalf("output ends after %q: %v", b, err)
		}
		if c[0] == '\n' {
			return string(b)
		}
		b = append(b, c[0])
	}
}

// end reads the rest of the output, reaps the program and closes the session.
func (p *program) end() (string, unix.WaitStatus) {
	p.t.Helper()
	p.in.Close()
	out, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Errorf("reading output: %v", err)
	}
	p.out.Close()
	st := p.reap()
	if err := p.s.Close(); err != nil {
		p.t.Errorf("closing: %v", err)
	}
	return strings.TrimSpace(string(out)), st
}

// expect ends the program and compares its output.
func (p *program) expect(want string) {
	p.t.Helper()
	out, st := p.end()
	if out != want {
		p.t.Errorf("output %q, want %q", out, want)
	}
	if st != 0 {
		p.t.Errorf("status %s, want a clean exit", status(st))
	}
}

func status(st unix.WaitStatus) string {
	if st.Signaled() {
		return st.Signal().String()
	}
	return fmt.Sprintf("exit %d", st.ExitStatus())
}
