//go:build linux

package intercepttest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/sys"
)

func installs(c intercept.Caps) bool { return c.Install }

func withdraws(c intercept.Caps) bool { return c.Withdraw }

func answerCases() []testCase {
	return []testCase{
		{"deny", testDeny, nil},
		{"allow", testAllow, nil},
		{"value", testValue, nil},
		{"hold one thread", testHold, nil},
		{"signal while held", testReissue, withdraws},
		{"signal without restart", testInterrupted, withdraws},
		{"install over a number", testInstallOver, installs},
		{"install lowest", testInstallLowest, installs},
		{"install fails", testInstallFails, installs},
		{"io_uring", testUring, nil},
	}
}

func mkdirs() intercept.Subscription {
	return intercept.Subscription{Calls: []string{"mkdirat"}}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func testDeny(t *testing.T, b intercept.Backend) {
	dir := filepath.Join(t.TempDir(), "d")
	p := begin(t, b, target("mkdir", dir), mkdirs())
	c := p.next()
	if path, err := intercept.ReadString(p.s, c, c.Args[1], 4096); c.Name != "mkdirat" || path != dir || err != nil {
		t.Errorf("got %s(%q), %v", c.Name, path, err)
	}
	p.reply(c, deny(unix.ENOSPC))
	p.serve(allow)
	p.expect("ENOSPC")
	if exists(dir) {
		t.Error("the call had its effect")
	}
}

func testAllow(t *testing.T, b intercept.Backend) {
	dir := filepath.Join(t.TempDir(), "d")
	p := begin(t, b, target("mkdir", dir), mkdirs())
	if n := p.serve(allow); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	p.expect("ok")
	if !exists(dir) {
		t.Error("the call had no effect")
	}
}

func testValue(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("ppid", "3"), intercept.Subscription{Calls: []string{"getppid"}})
	next := int64(1 << 33)
	p.serve(func(intercept.Call) intercept.Reply {
		next++
		return intercept.Reply{Answer: true, Value: next}
	})
	p.expect(fmt.Sprint(3*(1<<33) + 6))
}

// testHold has the program do something on another thread while a call is held: no clock is needed to see
// that only the caller waits.
func testHold(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("parallel", filepath.Join(t.TempDir(), "d")), mkdirs())
	c := p.next()
	if _, err := p.in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := p.line(); got != "alive" {
		t.Fatalf("got %q", got)
	}
	if !p.s.Alive(c.ID) {
		t.Error("the held call is not alive")
	}
	p.reply(c, deny(unix.EIO))
	if p.s.Alive(c.ID) {
		t.Error("the answered call is alive")
	}
	p.serve(allow)
	p.expect("EIO")
}

// testReissue takes a held call back by a signal that Go handles with SA_RESTART.
func testReissue(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("mkdir", filepath.Join(t.TempDir(), "d")), mkdirs())
	first := p.next()
	for i := range 20 {
		if err := unix.Tgkill(p.s.Pid(), first.Thread, unix.SIGURG); err != nil {
			t.Fatal(err)
		}
		second := p.next()
		if second.ID == first.ID || second.Thread != first.Thread || second.Name != first.Name || second.Args != first.Args {
			t.Fatalf("round %d: %+v came back as %+v", i, first, second)
		}
		if p.s.Alive(first.ID) {
			t.Error("the call that was taken back is alive")
		}
		if err := p.s.Reply(first.ID, deny(unix.EIO)); !errors.Is(err, intercept.ErrGone) {
			t.Errorf("answering what was taken back: %v", err)
		}
		first = second
	}
	p.reply(first, deny(unix.EDQUOT))
	p.serve(allow)
	p.expect("EDQUOT")
}

// testInterrupted takes it back by one whose handler does not restart it: the program sees EINTR and no
// call comes again.
func testInterrupted(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("eintr", filepath.Join(t.TempDir(), "d")), mkdirs())
	c := p.next()
	if err := unix.Tgkill(p.s.Pid(), c.Thread, sys.NudgeSignal); err != nil {
		t.Fatal(err)
	}
	if n := p.serve(allow); n != 0 {
		t.Errorf("%d more calls", n)
	}
	p.expect("EINTR")
}

// given is a descriptor that has something to read.
func given(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return r
}

func testInstallOver(t *testing.T, b intercept.Backend) {
	for _, cloexec := range []bool{false, true} {
		p := begin(t, b, target("over"), intercept.Subscription{Calls: []string{"connect"}})
		f := given(t, "hello")
		c := p.next()
		p.reply(c, intercept.Reply{InstallSet: true, Install: int(f.Fd()), At: int(c.Args[0]), CloseOnExec: cloexec})
		f.Close()
		p.serve(allow)
		flags := map[bool]int{true: unix.FD_CLOEXEC}[cloexec]
		p.expect(fmt.Sprintf("ok 0 %d hello", flags))
	}
}

func testInstallLowest(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("lowest"), intercept.Subscription{Calls: []string{"socket"}})
	f := given(t, "lowest hello")
	p.reply(p.next(), intercept.Reply{InstallSet: true, Install: int(f.Fd()), At: -1})
	f.Close()
	p.serve(allow)
	p.expect("lowest hello")
}

// testInstallFails gives a descriptor that is none: the error says so and the call can still be answered.
func testInstallFails(t *testing.T, b intercept.Backend) {
	for _, at := range []int{-1, 50} {
		p := begin(t, b, target("mkdir", "/nowhere/d"), mkdirs())
		c := p.next()
		if err := p.s.Reply(c.ID, intercept.Reply{InstallSet: true, Install: 9999, At: at}); !errors.Is(err, unix.EBADF) {
			t.Errorf("at %d: got %v, want EBADF", at, err)
		}
		p.reply(c, deny(unix.EACCES))
		p.serve(allow)
		p.expect("EACCES")
	}
}

func testUring(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("uring"), intercept.Subscription{NoIOUring: true})
	c := p.next()
	if c.Name != "io_uring_setup" {
		t.Errorf("got %s", c.Name)
	}
	p.reply(c, deny(unix.ENOSYS))
	p.serve(allow)
	p.expect("ENOSYS")
}
