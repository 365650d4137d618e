package dial

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
)

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// disconnect is connect(AF_UNSPEC).
func disconnect(fd int) error {
	return connectUnspec(fd)
}

// families are the ways to ask for the db's interface.
var families = []struct {
	name   string
	domain int
	to     string
}{
	{"v4", unix.AF_INET, "127.77.0.2:5432"},
	{"v6", unix.AF_INET6, "[::1]:5432"},
	{"mapped", unix.AF_INET6, "[::ffff:127.77.0.2]:5432"},
}

func held(t *testing.T, f func(t *testing.T, s *system, p *program, to string, flags int)) {
	for _, fam := range families {
		for name, flags := range map[string]int{"blocking": 0, "nonblocking": unix.SOCK_NONBLOCK} {
			t.Run(fam.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newSystem(t, true)
				f(t, s, s.program("api", fam.domain, flags), fam.to, flags)
			})
		}
	}
}

// between checks a time. Upper bounds leave room for a busy machine; they are below what a repeated SYN
// would take, which is what has to be told apart.
func between(t *testing.T, what string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s after %v, want %v to %v", what, took, least, most)
	}
}

func TestHeldByLatency(t *testing.T) {
	held(t, func(t *testing.T, s *system, p *program, to string, flags int) {
		accepted := s.serve("db", "tcp", "[::]:5432")
		id := s.install(fault.Latency, func(e *fault.LinkEffect) { e.Delay, e.Connect = 100*time.Millisecond, true })
		began := time.Now()
		errno := p.connect(to)
		if errno := p.done(errno, flags); errno != 0 {
			t.Fatalf("connect: %v", errno)
		}
		between(t, "connected", time.Since(began), 200*time.Millisecond, 950*time.Millisecond)
		s.links.Lift(id)
		p.echo("late")
		c := p.accepted(accepted)
		if name, _ := p.sockName(); name.Port() != c.remote.Port() {
			t.Errorf("getsockname = %v, the server sees %v", name, c.remote)
		}
		if peer, errno := p.peerName(); peer.String() != to || errno != 0 {
			t.Errorf("getpeername = %v, %v, want %s", peer, errno, to)
		}
	})
}

func TestHeldThenRefused(t *testing.T) {
	held(t, func(t *testing.T, s *system, p *program, to string, flags int) {
		s.install(fault.Latency, func(e *fault.LinkEffect) { e.Delay, e.Connect = 100*time.Millisecond, true })
		began := time.Now()
		if errno := p.done(p.connect(to), flags); errno != unix.ECONNREFUSED {
			t.Fatalf("connect: %v, want ECONNREFUSED", errno)
		}
		between(t, "refused", time.Since(began), 200*time.Millisecond, 950*time.Millisecond)
	})
}

func TestRuleRefuses(t *testing.T) {
	held(t, func(t *testing.T, s *system, p *program, to string, flags int) {
		accepted := s.serve("db", "tcp", "[::]:5432")
		id := s.install(fault.Refuse, nil)
		if errno := p.done(p.connect(to), flags); errno != unix.ECONNREFUSED {
			t.Fatalf("connect: %v, want ECONNREFUSED", errno)
		}
		if len(accepted) != 0 || s.links.Fired(id) != 1 {
			t.Errorf("the server accepted %d, the rule fired %d", len(accepted), s.links.Fired(id))
		}
	})
}

func TestRuleTimesOut(t *testing.T) {
	held(t, func(t *testing.T, s *system, p *program, to string, flags int) {
		accepted := s.serve("db", "tcp", "[::]:5432")
		s.install(fault.TimeOut, func(e *fault.LinkEffect) { e.Delay = 300 * time.Millisecond })
		began := time.Now()
		if errno := p.done(p.connect(to), flags); errno != unix.ETIMEDOUT {
			t.Fatalf("connect: %v, want ETIMEDOUT", errno)
		}
		between(t, "timed out", time.Since(began), 300*time.Millisecond, 950*time.Millisecond)
		if len(accepted) != 0 {
			t.Error("the server accepted")
		}
		if errno := p.soError(); errno != 0 {
			t.Errorf("a second SO_ERROR is %v, want none", errno)
		}
	})
}

// An event loop that asks by a second connect instead of SO_ERROR sees the same.
func TestTimeoutByConnect(t *testing.T) {
	s := newSystem(t, true)
	s.install(fault.TimeOut, func(e *fault.LinkEffect) { e.Delay = 50 * time.Millisecond })
	p := s.program("api", unix.AF_INET, unix.SOCK_NONBLOCK)
	if errno := p.connect("127.77.0.2:5432"); errno != unix.EINPROGRESS {
		t.Fatal(errno)
	}
	if !waitFor(p.fd, unix.POLLOUT, 2000) {
		t.Fatal("no event")
	}
	if errno := p.connect("127.77.0.2:5432"); errno != unix.ETIMEDOUT {
		t.Errorf("second connect: %v, want ETIMEDOUT", errno)
	}
}

func TestPartitionHeals(t *testing.T) {
	for _, kind := range []fault.LinkKind{fault.Partition, fault.Blackhole} {
		t.Run(string(kind), func(t *testing.T) {
			held(t, func(t *testing.T, s *system, p *program, to string, flags int) {
				accepted := s.serve("db", "tcp", "[::]:5432")
				id := s.install(kind, nil)
				if flags == 0 {
					time.AfterFunc(250*time.Millisecond, func() { s.links.Lift(id) })
				}
				began := time.Now()
				errno := p.connect(to)
				if flags != 0 {
					cutOff(t, p, to)
					if len(accepted) != 0 {
						t.Error("the server was called")
					}
					began = time.Now()
					s.links.Lift(id)
				}
				if errno := p.done(errno, flags); errno != 0 {
					t.Fatalf("connect: %v", errno)
				}
				between(t, "connected", time.Since(began), 0, 950*time.Millisecond)
				p.echo("healed")
				p.accepted(accepted)
			})
		})
	}
}

// cutOff looks at a non-blocking socket whose SYN is held.
func cutOff(t *testing.T, p *program, to string) {
	t.Helper()
	if waitFor(p.fd, unix.POLLOUT, 150) {
		t.Errorf("an event while cut off: %v", p.soError())
	}
	if _, errno := p.peerName(); errno != unix.ENOTCONN {
		t.Errorf("getpeername while held: %v, want ENOTCONN", errno)
	}
	if errno := p.connect(to); errno != unix.EALREADY {
		t.Errorf("connect while held: %v, want EALREADY", errno)
	}
	if errno := p.soError(); errno != 0 {
		t.Errorf("SO_ERROR while held: %v, want none", errno)
	}
}

// A program that gives up leaves nothing behind, and the server never hears of it.
func TestHeldAbandoned(t *testing.T) {
	s := newSystem(t, true)
	accepted := s.serve("db", "tcp", "[::]:5432")
	id := s.install(fault.Partition, nil)
	p := s.program("api", unix.AF_INET, unix.SOCK_NONBLOCK)
	if errno := p.connect("127.77.0.2:5432"); errno != unix.EINPROGRESS {
		t.Fatal(errno)
	}
	p.close()
	s.links.Lift(id)
	s.d.holding.Wait()
	if len(accepted) != 0 {
		t.Error("the server accepted an abandoned connection")
	}
	if n := s.d.table.size(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// A blocking connect whose program died frees its waiter at once.
func TestHeldProgramDies(t *testing.T) {
	s := newSystem(t, true)
	s.serve("db", "tcp", "[::]:5432")
	s.install(fault.Partition, nil)
	p := s.program("api", unix.AF_INET, 0)
	req := p.request("127.77.0.2:5432")
	alive := true
	req.Alive = func() bool { return alive }
	res := s.d.Connect(req)
	if res.Later == nil {
		t.Fatalf("%+v, want to wait", res)
	}
	p.close()
	alive = false
	began := time.Now()
	if res := res.Later(); unix.Errno(res.Errno) != unix.EINTR {
		t.Errorf("%+v, want EINTR", res)
	}
	between(t, "freed", time.Since(began), 0, 950*time.Millisecond)
}

// A blocking connect that a signal interrupted and that is called again waits for the same one.
func TestHeldReissued(t *testing.T) {
	s := newSystem(t, true)
	accepted := s.serve("db", "tcp", "[::]:5432")
	s.install(fault.Latency, func(e *fault.LinkEffect) { e.Delay, e.Connect = 100*time.Millisecond, true })
	p := s.program("api", unix.AF_INET, 0)
	req := p.request("127.77.0.2:5432")
	req.Alive = func() bool { return false }
	if res := s.d.Connect(req); res.Later == nil || unix.Errno(res.Later().Errno) != unix.EINTR {
		t.Fatal("want to be interrupted")
	}
	if errno := p.connect("127.77.0.2:5432"); errno != 0 {
		t.Fatal(errno)
	}
	p.echo("hello")
	p.accepted(accepted)
	if len(accepted) != 0 {
		t.Error("the server saw two connections")
	}
}

// SO_SNDTIMEO limits a blocking connect.
func TestHeldSendTimeout(t *testing.T) {
	s := newSystem(t, true)
	s.install(fault.Blackhole, nil)
	p := s.program("api", unix.AF_INET, 0)
	tv := unix.NsecToTimeval(int64(120 * time.Millisecond))
	if err := unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if errno := p.connect("127.77.0.2:5432"); errno != unix.EINPROGRESS {
		t.Errorf("connect: %v, want EINPROGRESS as the kernel has it", errno)
	}
	between(t, "timed out", time.Since(began), 110*time.Millisecond, 900*time.Millisecond)
	if got, _ := unix.GetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO); got.Nano() != tv.Nano() {
		t.Errorf("SO_SNDTIMEO is now %v", got)
	}
}

// A server whose queue is full does not answer; the connect waits for it as it would without us.
func TestServerQueueFull(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		fd, err := s.ns["db"].Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		at := sockaddr(unix.AF_INET, netipLoopback(5432))
		if err := unix.Bind(fd, at); err != nil {
			t.Fatal(err)
		}
		if err := unix.Listen(fd, 0); err != nil {
			t.Fatal(err)
		}
		// A backlog of 0 has room for one.
		filler := s.program("db", unix.AF_INET, 0)
		if err := unix.Connect(filler.fd, at); err != nil {
			t.Fatal(err)
		}
		p := s.program("api", unix.AF_INET, flags)
		began := time.Now()
		time.AfterFunc(200*time.Millisecond, func() {
			if c, _, err := unix.Accept(fd); err == nil {
				unix.Close(c)
			}
		})
		if errno := p.done(p.connect("127.0.0.1:5432"), flags); errno != 0 {
			t.Fatalf("connect: %v", errno)
		}
		between(t, "connected", time.Since(began), 200*time.Millisecond, 2*time.Second)
		if peer, errno := p.peerName(); peer.String() != "127.0.0.1:5432" || errno != 0 {
			t.Errorf("getpeername = %v, %v", peer, errno)
		}
	})
}

// notOurs is a network that grants no raw sockets, as the machine's own does not.
type notOurs struct{ *testNS }

func (n notOurs) Socket(domain, typ, proto int) (int, error) {
	if typ&0xf == unix.SOCK_RAW {
		return -1, unix.EPERM
	}
	return n.testNS.Socket(domain, typ, proto)
}

// In a network that is not ours a latency is kept within the call.
func TestHeldInside(t *testing.T) {
	s := newSystem(t, true)
	s.d.spaces["api"].ns = notOurs{s.ns["api"]}
	s.serve("db", "tcp", "[::]:5432")
	s.install(fault.Latency, func(e *fault.LinkEffect) { e.Delay, e.Connect = 100*time.Millisecond, true })
	for _, flags := range []int{0, unix.SOCK_NONBLOCK} {
		p := s.program("api", unix.AF_INET, flags)
		began := time.Now()
		if errno := p.done(p.connect("127.77.0.2:5432"), flags); errno != 0 {
			t.Fatal(errno)
		}
		between(t, "connected", time.Since(began), 200*time.Millisecond, 950*time.Millisecond)
		p.echo("hello")
	}
	p := s.program("api", unix.AF_INET, 0)
	if errno := p.connect("127.77.0.2:9000"); errno != unix.ECONNREFUSED {
		t.Errorf("nobody there: %v", errno)
	}
}
