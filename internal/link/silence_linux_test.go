package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
)

// inOwnNetwork runs the calling test again in user and network namespaces of its own and reports
// whether this is that second run. An ordinary user may attach filters only there.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv("SQUALL_TEST_NETNS") != "" {
		loopbackUp(t)
		return true
	}
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "SQUALL_TEST_NETNS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	runtime.LockOSThread() // the death signal follows the thread that forked
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("user namespaces are not available here: %v", err)
	}
	if err != nil {
		t.Errorf("in its own network: %v\n%s", err, out)
	}
	return false
}

func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		t.Fatal(err)
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		t.Fatal(err)
	}
}

func setOption(t *testing.T, c *net.TCPConn, level, option, value int) {
	t.Helper()
	control(c, func(fd int) {
		if err := unix.SetsockoptInt(fd, level, option, value); err != nil {
			t.Fatal(err)
		}
	})
}

// silentFor reports what a connection hears within d: nil is silence.
func silentFor(c net.Conn, d time.Duration) error {
	c.SetReadDeadline(time.Now().Add(d))
	defer c.SetReadDeadline(time.Time{})
	var b [64]byte
	n, err := c.Read(b[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("read %q, %v", b[:n], err)
}

func (b *bench) install(t *testing.T, rules ...fault.Rule) {
	t.Helper()
	if err := b.Install(rules...); err != nil {
		t.Fatal(err)
	}
}

func TestPartitionHealsAndFiresHonestly(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	b := newBench(t)
	// A long conversation makes the kernels delay their acknowledgements: the last is late, and must not
	// count as an attempt to send.
	for range 40 {
		say(t, b.client, b.server, "before")
		say(t, b.server, b.client, "before")
	}
	cut := rule("p", fault.LinkEffect{Kind: fault.Partition})
	b.install(t, cut)
	// Long enough for delayed acknowledgements of what went before.
	time.Sleep(120 * time.Millisecond)
	if n := b.Fired("p"); n != 0 {
		t.Fatalf("fired %d though nobody sent anything", n)
	}
	b.Lift("p")
	if n := b.Fired("p"); n != 0 {
		t.Fatalf("lifted: fired %d though nobody sent anything", n)
	}
	b.install(t, cut)
	b.client.Write([]byte("request"))
	if r := b.await(t, OpStall); r.Rule != "p" || r.Direction != fault.Up {
		t.Errorf("stall record %+v", r)
	}
	b.server.Write([]byte("push"))
	if err := silentFor(b.server, 300*time.Millisecond); err != nil {
		t.Fatalf("server: %v", err)
	}
	if err := silentFor(b.client, 10*time.Millisecond); err != nil {
		t.Fatalf("client: %v", err)
	}
	if n := b.Fired("p"); n != 2 {
		t.Errorf("fired %d, want both directions", n)
	}
	b.Lift("p")
	start := time.Now()
	hear(t, b.server, "request")
	hear(t, b.client, "push")
	if d := time.Since(start); d > time.Second {
		t.Errorf("healed after %v", d)
	}
	b.await(t, OpHeal)
	say(t, b.client, b.server, "after")
}

func TestSilenceIsFeltAsByAPulledCable(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	t.Run("user timeout", func(t *testing.T) {
		b := newBench(t)
		say(t, b.client, b.server, "before")
		setOption(t, b.client, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 500)
		b.install(t, rule("p", fault.LinkEffect{Kind: fault.Blackhole}))
		start := time.Now()
		b.client.Write([]byte("into the void"))
		if err := fails(t, b.client); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Fatalf("client sees %v", err)
		}
		if d := time.Since(start); d < 400*time.Millisecond || d > 2*time.Second {
			t.Errorf("timed out after %v", d)
		}
	})
	t.Run("keepalive", func(t *testing.T) {
		b := newBench(t)
		say(t, b.client, b.server, "before")
		b.client.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2})
		b.install(t, rule("p", fault.LinkEffect{Kind: fault.Partition}))
		start := time.Now()
		if err := fails(t, b.client); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Fatalf("client sees %v", err)
		}
		if d := time.Since(start); d < 2500*time.Millisecond || d > 4500*time.Millisecond {
			t.Errorf("timed out after %v", d)
		}
		if n := b.Fired("p"); n == 0 {
			t.Error("a keepalive that was withheld must count")
		}
	})
	t.Run("half open", func(t *testing.T) {
		b := newBench(t)
		say(t, b.client, b.server, "before")
		setOption(t, b.client, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 500)
		setOption(t, b.server, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 500)
		b.install(t, rule("h", fault.LinkEffect{Kind: fault.HalfOpen}))
		b.server.Write([]byte("push"))
		b.client.Write([]byte("request"))
		if err := silentFor(b.server, 400*time.Millisecond); err != nil {
			t.Errorf("server: %v", err)
		}
		if err := fails(t, b.client); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("client sees %v", err)
		}
		if err := silentFor(b.server, 300*time.Millisecond); err != nil {
			t.Errorf("server: %v", err)
		}
	})
}

func TestOneWayPartition(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	b := newBench(t)
	say(t, b.client, b.server, "before")
	b.install(t, toward(rule("p", fault.LinkEffect{Kind: fault.Partition}), fault.AToB))
	say(t, b.server, b.client, "the other way passes")
	b.client.Write([]byte("lost"))
	if err := silentFor(b.server, 150*time.Millisecond); err != nil {
		t.Fatalf("server: %v", err)
	}
	if b.Fired("p") != 1 {
		t.Errorf("fired %d", b.Fired("p"))
	}
	b.Lift("p")
	hear(t, b.server, "lost")
}

func TestOverlappingPartitionsAreIndependent(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	b := newBench(t)
	say(t, b.client, b.server, "before")
	b.install(t, rule("p", fault.LinkEffect{Kind: fault.Partition}), rule("q", fault.LinkEffect{Kind: fault.Blackhole}))
	b.client.Write([]byte("request"))
	b.await(t, OpStall)
	b.Lift("p")
	if err := silentFor(b.server, 400*time.Millisecond); err != nil {
		t.Fatalf("q is still in force: %v", err)
	}
	b.Lift("q")
	hear(t, b.server, "request")
}

func TestPartitionHoldsWhatTheRelayHasTaken(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	b := newBench(t, rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 100 * time.Millisecond}))
	b.client.Write([]byte("held"))
	b.client.CloseWrite()
	time.Sleep(30 * time.Millisecond) // on its way through the latency
	b.install(t, rule("p", fault.LinkEffect{Kind: fault.Partition}))
	if err := silentFor(b.server, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if b.Fired("p") != 1 {
		t.Errorf("fired %d", b.Fired("p"))
	}
	b.Lift("p")
	hear(t, b.server, "held")
	if err := fails(t, b.server); err != io.EOF {
		t.Errorf("server sees %v", err)
	}
	if r := b.await(t, OpHeal); r.Bytes != 4 {
		t.Errorf("heal record %+v", r)
	}
}

// The end of a program under a partition: its FIN is withheld, and counts.
func TestPartitionWithholdsFin(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	b := newBench(t)
	say(t, b.client, b.server, "before")
	time.Sleep(60 * time.Millisecond) // until delayed acknowledgements are through
	b.install(t, rule("p", fault.LinkEffect{Kind: fault.Partition}))
	b.client.Close()
	if err := silentFor(b.server, 150*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	b.await(t, OpStall)
	b.Lift("p")
	if err := fails(t, b.server); err != io.EOF {
		t.Errorf("server sees %v", err)
	}
}

func TestSilencedListenerAnswersNoSyn(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	// The filter of a multipath socket, Go's default for listeners, is not to be had.
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, _ := l.(*net.TCPListener).SyscallConn()
	raw.Control(func(fd uintptr) { err = Silence(int(fd)) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", l.Addr().String(), 100*time.Millisecond); err == nil {
		t.Fatal("connected through silence")
	}
	raw.Control(func(fd uintptr) {
		if n, err := Withheld(int(fd)); n == 0 || err != nil {
			t.Errorf("withheld %d, %v", n, err)
		}
		err = Unsilence(int(fd))
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", l.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// An ordinary user in a network that is not his gets the typed error, and the rule is not half in force.
func TestSilenceNeedsAnOwnedNetwork(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may attach filters anywhere; this is for the run as an ordinary user")
	}
	b := newBench(t)
	p := rule("p", fault.LinkEffect{Kind: fault.Partition})
	if err := b.Install(p); !errors.Is(err, ErrNeedsOwnedNetwork) {
		t.Fatalf("got %v", err)
	}
	if len(b.Matching("api", "db", "pg")) != 0 {
		t.Error("a rule that was refused is in force")
	}
	say(t, b.client, b.server, "goes on")
}
