package dial

import (
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
)

// capricious ends each connection that it accepts in a manner that its first byte names.
func (s *system) capricious(service, network, addr string) {
	s.t.Helper()
	l := s.listen(service, network, addr)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c *net.TCPConn) {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(3 * time.Second))
				var b [64]byte
				n, err := c.Read(b[:])
				if n == 0 || err != nil {
					return
				}
				switch b[0] {
				case 'r':
					_ = c.SetLinger(0)
				case 'h':
					_, _ = c.Write(b[:n])
					_ = c.CloseWrite()
					_, _ = io.Copy(io.Discard, c)
				case 'e':
					_, _ = io.Copy(c, c)
				}
			}(c.(*net.TCPConn))
		}
	}()
}

// whim is one connection with an end by chance.
func (s *system) whim(r *rand.Rand) {
	domain, to := unix.AF_INET, "127.77.0.2:5432"
	if r.IntN(4) == 0 {
		domain, to = unix.AF_INET6, "[::1]:5432"
	}
	if r.IntN(8) == 0 {
		to = netip.AddrPortFrom(netip.MustParseAddrPort(to).Addr(), 99).String() // nobody
	}
	flags := []int{0, unix.SOCK_NONBLOCK}[r.IntN(2)]
	fd, err := s.ns["api"].Socket(domain, unix.SOCK_STREAM|flags, 0)
	if err != nil {
		s.t.Error(err)
		return
	}
	p := &program{s: s, service: "api", fd: fd, domain: domain}
	defer p.close()
	req := p.request(to)
	if flags == 0 {
		// A program that ends while it waits; the time limit is its kernel's.
		gone := time.Now().Add(time.Duration(r.IntN(200)) * time.Millisecond)
		req.Alive = func() bool { return time.Now().Before(gone) }
	}
	errno := p.apply(to, s.d.Connect(req))
	if errno != 0 && errno != unix.EINPROGRESS {
		return
	}
	if r.IntN(6) == 0 {
		return // it gives up at once
	}
	if errno == unix.EINPROGRESS && (!waitFor(p.fd, unix.POLLOUT, r.IntN(300)) || p.soError() != 0) {
		return
	}
	_, _ = unix.Write(p.fd, []byte{"crhex"[r.IntN(5)], 1, 2, 3})
	switch r.IntN(5) {
	case 0:
		_ = unix.SetsockoptLinger(p.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	case 1:
		_ = unix.Shutdown(p.fd, unix.SHUT_WR)
		fallthrough
	case 2:
		waitFor(p.fd, unix.POLLIN, r.IntN(100))
	case 3:
		_ = disconnect(p.fd)
	}
}

// Whatever way connections end, under rules that come and go, nothing of them is left.
func TestManyEndingsLeaveNothing(t *testing.T) {
	for _, mediated := range []bool{false, true} {
		s := newSystem(t, mediated)
		s.capricious("db", "tcp", "[::]:5432")
		fds, goroutines := sockets(t), runtime.NumGoroutine()
		stop := make(chan struct{})
		var ruling sync.WaitGroup
		ruling.Go(func() { s.reign(stop) })
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				for range 25 {
					s.whim(r)
				}
			})
		}
		all.Wait()
		close(stop)
		ruling.Wait()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			// What stays open are, of both families, the listener and the port where nobody listens.
			f, g, n := sockets(t)-fds, runtime.NumGoroutine()-goroutines, s.d.table.owned()
			if f <= 4 && g <= 0 && n == 0 {
				break
			}
			if time.Now().After(end) {
				buf := make([]byte, 1<<16)
				t.Fatalf("mediated %v: left behind: %d sockets, %d goroutines, %d entries\n%s", mediated, f, g, n, buf[:runtime.Stack(buf, true)])
			}
		}
	}
}

// Whatever socket a program has and whatever it passes for an address, the supervisor goes on.
func TestAnySocketAndAddress(t *testing.T) {
	for _, mediated := range []bool{false, true} {
		s := newSystem(t, mediated)
		s.capricious("db", "tcp", "[::]:5432")
		s.packetProgram("db", unix.AF_INET6, "[::]:5432")
		r := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			domain := []int{unix.AF_INET, unix.AF_INET6, unix.AF_UNIX}[r.IntN(3)]
			typ := []int{unix.SOCK_STREAM, unix.SOCK_DGRAM}[r.IntN(2)]
			fd, err := s.ns["api"].Socket(domain, typ|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			p := &program{s: s, service: "api", fd: fd, domain: domain}
			for range 4 {
				p.stumble(r)
			}
			p.close()
		}
	}
}

// stumble does one thing to a socket that need not make sense.
func (p *program) stumble(r *rand.Rand) {
	raw := Addr{
		Family:   []int{familyINET, familyINET6}[r.IntN(2)],
		AddrPort: netip.AddrPortFrom([]netip.Addr{loopback4(), loopback6(), ServiceAddr(2), netip.IPv6Unspecified(), netip.IPv4Unspecified(), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("::ffff:127.77.0.2")}[r.IntN(7)], []uint16{5432, 99, 0}[r.IntN(3)]),
	}
	if raw.Family == familyINET && !raw.AddrPort.Addr().Unmap().Is4() {
		raw.Family = familyINET6
	}
	addr := raw.Raw()
	switch r.IntN(6) {
	case 0:
		addr[0], addr[1] = byte(r.IntN(12)), 0
	case 1:
		addr = addr[:r.IntN(len(addr))]
	}
	dup := p.dup()
	defer unix.Close(dup)
	switch r.IntN(6) {
	case 0:
		p.s.d.Send(Datagram{Client: "api", Socket: p.dup(), Addr: addr, Flags: []int{0, unix.MSG_FASTOPEN}[r.IntN(2)]})
	case 1:
		p.s.d.Bind(dup)
		_ = unix.Bind(p.fd, sockaddr(p.domain, netip.AddrPortFrom(loopback(p.domain == unix.AF_INET6), 0)))
	case 2:
		_ = disconnect(p.fd)
		_ = unix.Listen(p.fd, 1)
	default:
		res := p.s.d.Connect(Request{Client: "api", Socket: p.dup(), Addr: addr})
		if res.Install >= 0 {
			_ = unix.Dup3(res.Install, p.fd, unix.O_CLOEXEC)
			unix.Close(res.Install)
		}
		if res.Later != nil {
			p.s.t.Error("a non-blocking socket has to wait")
		}
	}
	for _, ask := range []func(int) Answer{p.s.d.PeerName, p.s.d.SocketName, p.s.d.SocketError} {
		ask(dup)
	}
}

// reign installs and lifts rules.
func (s *system) reign(stop chan struct{}) {
	effects := []fault.LinkEffect{
		{Kind: fault.Latency, Delay: 5 * time.Millisecond, Connect: true}, {Kind: fault.Refuse}, {Kind: fault.Partition},
		{Kind: fault.TimeOut, Delay: 10 * time.Millisecond}, {Kind: fault.Reset, AfterBytes: 2}, {Kind: fault.Blackhole},
		{Kind: fault.Cut, AfterBytes: 1, How: "fin"}, {Kind: fault.HalfOpen}, {Kind: fault.Bandwidth, BytesPerSecond: 1000},
	}
	for i := 0; ; i++ {
		id := s.install(effects[i%len(effects)].Kind, func(e *fault.LinkEffect) { *e = effects[i%len(effects)] })
		select {
		case <-time.After(20 * time.Millisecond):
		case <-stop:
			s.links.Lift(id)
			return
		}
		s.links.Lift(id)
		time.Sleep(5 * time.Millisecond)
	}
}

// owned counts the entries that somebody has to take out.
func (t *table) owned() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.entries {
		if e.kept {
			n++
		}
	}
	return n
}

// sockets counts those of this process.
func sockets(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		// Descriptors may be closed meanwhile.
		if to, err := os.Readlink("/proc/self/fd/" + name.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
