package join

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns two ends of a TCP connection.
func pair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func fdOf(t testing.TB, c *net.TCPConn) (fd int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(f uintptr) { fd = int(f) }); err != nil {
		t.Fatal(err)
	}
	return fd
}

func kernel(t testing.TB) *Kernel {
	t.Helper()
	k, err := New()
	if err != nil {
		if errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// line is one lane with its four sockets: program, relay, relay, server.
type line struct {
	t          testing.TB
	c, a, b, s *net.TCPConn
	lane       *Lane
	taken      uint64
}

func newLine(t testing.TB, k *Kernel) *line {
	t.Helper()
	l := &line{t: t}
	l.c, l.a = pair(t)
	l.b, l.s = pair(t)
	var err error
	if l.lane, err = k.Enter(fdOf(t, l.c), fdOf(t, l.b)); err != nil {
		t.Fatal(err)
	}
	l.send("counted")
	l.arrives(l.a, "counted")
	l.lane.Settle(fdOf(t, l.c))
	return l
}

func (l *line) open() { l.lane.Open(l.taken, fdOf(l.t, l.b)) }

func (l *line) send(text string) {
	l.t.Helper()
	if _, err := l.c.Write([]byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

// arrives wants a text at one of the sockets, and nothing at the relay's if that is another.
func (l *line) arrives(at *net.TCPConn, text string) {
	l.t.Helper()
	buf := make([]byte, len(text))
	_ = at.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(at, buf); err != nil || string(buf) != text {
		l.t.Fatalf("got %q, %v; want %q", buf, err, text)
	}
	if at == l.a {
		l.taken += uint64(len(text))
	} else if n, err := unix.IoctlGetInt(fdOf(l.t, l.a), unix.TIOCINQ); err != nil || n != 0 {
		l.t.Fatalf("%d bytes at the relay, %v", n, err)
	}
}

func TestGate(t *testing.T) {
	l := newLine(t, kernel(t))
	l.send("shut")
	l.open() // the relay has not read it
	l.send("too")
	l.arrives(l.a, "shuttoo")
	l.open()
	l.send("open")
	l.arrives(l.s, "open")
	l.lane.Pause()
	l.send("paused")
	l.lane.Resume() // something passed
	l.send("still")
	l.arrives(l.a, "pausedstill")
	l.open()
	l.lane.Pause()
	l.lane.Resume()
	l.send("resumed")
	l.arrives(l.s, "resumed")
	l.lane.Bar()
	l.send("barred")
	l.arrives(l.a, "barred")
	l.open()
	l.send("still")
	l.arrives(l.a, "still")
	l.lane.Unbar()
	l.open()
	l.send("unbarred")
	l.arrives(l.s, "unbarred")
	if n := l.lane.Carried(); n != int64(len("openresumedunbarred")) {
		t.Errorf("carried %d", n)
	}
	l.lane.Leave()
	l.send("left")
	l.arrives(l.a, "left")
	l.open()
	l.send("for good")
	l.arrives(l.a, "for good")
}

// TestSocketAsBefore looks at what the kernel's replacements for a program's calls may change.
func TestSocketAsBefore(t *testing.T) {
	l := newLine(t, kernel(t))
	l.open()
	c := fdOf(t, l.c)
	if _, err := l.a.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	wait := []unix.PollFd{{Fd: int32(c), Events: unix.POLLIN}}
	if n, err := unix.Poll(wait, 5000); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	buf := make([]byte, 64)
	if n, _, err := unix.Recvfrom(c, buf, unix.MSG_PEEK); n != 5 || err != nil {
		t.Errorf("peek: %d, %v", n, err)
	}
	if n, err := unix.Read(c, buf); n != 5 || err != nil {
		t.Errorf("read: %d, %v", n, err)
	}
	if n, err := unix.Read(c, buf); err != unix.EAGAIN {
		t.Errorf("empty read: %d, %v", n, err)
	}
	if err := l.a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := l.c.Read(buf); n != 0 || err != io.EOF {
		t.Errorf("end: %d, %v", n, err)
	}
}

// TestPlain: a socket that was given back answers FIONREAD, does not enter again at once, and later does.
func TestPlain(t *testing.T) {
	k := kernel(t)
	l := newLine(t, k)
	l.open()
	c := fdOf(t, l.c)
	if _, err := l.a.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(c), Events: unix.POLLIN}}, 5000); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	k.Plain(c)
	if n, err := unix.IoctlGetInt(c, unix.TIOCINQ); err != nil || n != 5 {
		t.Errorf("FIONREAD: %d, %v; want 5", n, err)
	}
	l.send("plain")
	l.arrives(l.a, "plain")
	other, a := pair(t)
	b, _ := pair(t)
	_ = a
	k.Plain(fdOf(t, other))
	if _, err := k.Enter(fdOf(t, other), fdOf(t, b)); !errors.Is(err, unix.EBUSY) {
		t.Errorf("enter after Plain: %v", err)
	}
	if _, err := k.Enter(fdOf(t, other), fdOf(t, b)); err != nil {
		t.Errorf("enter later: %v", err)
	}
}

// TestBlockingStaysOut: a socket that is blocking may not enter.
func TestBlockingStaysOut(t *testing.T) {
	k := kernel(t)
	c, _ := pair(t)
	b, _ := pair(t)
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.SetNonblock(int(f.Fd()), false); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Enter(int(f.Fd()), fdOf(t, b)); !errors.Is(err, ErrSocket) {
		t.Errorf("enter: %v", err)
	}
}

// TestBudget: a receiver who does not read is felt by the sender, who is never told that there is room
// where there is none.
func TestBudget(t *testing.T) {
	l := newLine(t, kernel(t))
	l.open()
	c := fdOf(t, l.c)
	sent, message := 0, make([]byte, 100)
	for sent < 64<<20 {
		p := []unix.PollFd{{Fd: int32(c), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(p, 0); n == 0 {
			break
		}
		n, err := unix.Write(c, message)
		if err != nil {
			t.Fatalf("after %d bytes: %v", sent, err)
		}
		sent += n
	}
	carried := l.lane.Carried()
	if carried == 0 || carried > largestBudget || sent == 64<<20 {
		t.Errorf("%d bytes were sent, of which %d went past the relay", sent, carried)
	}
	t.Logf("%d bytes were sent, of which %d went past the relay", sent, carried)
}

func TestResetIsThePeers(t *testing.T) {
	l := newLine(t, kernel(t))
	l.open()
	_ = l.s.SetLinger(0)
	l.s.Close()
	p := []unix.PollFd{{Fd: int32(fdOf(t, l.b)), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 5000); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := l.c.Write([]byte("x")); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("first send: %v, want ECONNRESET", err)
	}
	if _, err := l.c.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("second send: %v, want EPIPE", err)
	}
}

// TestTargetGone: what cannot go past the relay goes to it.
func TestTargetGone(t *testing.T) {
	l := newLine(t, kernel(t))
	l.open()
	l.b.Close()
	l.send("pass")
	l.arrives(l.a, "pass")
}

// TestLanesAreReused uses more lanes than there are, and leaves them.
func TestLanesAreReused(t *testing.T) {
	k := kernel(t)
	for range maxLanes + maxLanes/2 {
		c, a := pair(t)
		b, s := pair(t)
		l, err := k.Enter(fdOf(t, c), fdOf(t, b))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		l.Settle(fdOf(t, c))
		l.Open(1, fdOf(t, b))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		l.Leave()
		for _, x := range []io.Closer{c, a, b, s} {
			x.Close()
		}
		if n := l.Carried(); n != 1 {
			t.Fatal(n)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	kernel(b)
	for b.Loop() {
		k, err := New()
		if err != nil {
			b.Fatal(err)
		}
		k.Close()
	}
}
