package dial

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/verdict"
)

// ways runs a test on direct and on mediated links, with blocking and with non-blocking sockets.
func ways(t *testing.T, f func(t *testing.T, s *system, flags int)) {
	for _, mediated := range []bool{false, true} {
		for _, flags := range []int{0, unix.SOCK_NONBLOCK} {
			t.Run(fmt.Sprintf("mediated=%v,nonblocking=%v", mediated, flags != 0), func(t *testing.T) {
				f(t, newSystem(t, mediated), flags)
			})
		}
	}
}

// done brings a connect to its end as an event loop does and returns the program's error.
func (p *program) done(errno unix.Errno, flags int) unix.Errno {
	p.s.t.Helper()
	if flags&unix.SOCK_NONBLOCK == 0 {
		return errno
	}
	if errno != unix.EINPROGRESS {
		p.s.t.Fatalf("non-blocking connect returned %v, want EINPROGRESS", errno)
	}
	if !waitFor(p.fd, unix.POLLOUT, 5000) {
		p.s.t.Fatal("the socket never became writable")
	}
	return p.soError()
}

func TestConnect(t *testing.T) {
	tests := []struct {
		name, network, listen string
		domain                int
		to, peer              string
		server                string // address on which the server sees the connection
	}{
		{"name, any", "tcp4", "0.0.0.0:5432", unix.AF_INET, "127.77.0.2:5432", "127.77.0.2:5432", "127.77.0.2"},
		{"name, loopback", "tcp4", "127.0.0.1:5432", unix.AF_INET, "127.77.0.2:5432", "127.77.0.2:5432", "127.0.0.1"},
		{"name, own address", "tcp4", "127.77.0.2:5432", unix.AF_INET, "127.77.0.2:5432", "127.77.0.2:5432", "127.77.0.2"},
		{"name, dual", "tcp", "[::]:5432", unix.AF_INET, "127.77.0.2:5432", "127.77.0.2:5432", "127.77.0.2"},
		{"name, v6 only", "tcp6", "[::1]:5432", unix.AF_INET, "127.77.0.2:5432", "127.77.0.2:5432", "::1"},
		{"localhost", "tcp4", "127.0.0.1:5432", unix.AF_INET, "127.0.0.1:5432", "127.0.0.1:5432", "127.0.0.1"},
		{"localhost, own address", "tcp4", "127.77.0.2:5432", unix.AF_INET, "127.0.0.1:5432", "127.0.0.1:5432", "127.77.0.2"},
		{"localhost, v6 only", "tcp6", "[::1]:5432", unix.AF_INET, "127.0.0.1:5432", "127.0.0.1:5432", "::1"},
		{"unspecified", "tcp4", "127.0.0.1:5432", unix.AF_INET, "0.0.0.0:5432", "127.0.0.1:5432", "127.0.0.1"},
		{"v6", "tcp6", "[::1]:5432", unix.AF_INET6, "[::1]:5432", "[::1]:5432", "::1"},
		{"v6 to v4", "tcp4", "127.0.0.1:5432", unix.AF_INET6, "[::1]:5432", "[::1]:5432", "127.0.0.1"},
		{"v6 unspecified", "tcp", "[::]:5432", unix.AF_INET6, "[::]:5432", "[::1]:5432", "::1"},
		{"mapped name", "tcp4", "127.0.0.1:5432", unix.AF_INET6, "[::ffff:127.77.0.2]:5432", "[::ffff:127.77.0.2]:5432", "127.0.0.1"},
		{"mapped localhost", "tcp4", "127.0.0.1:5432", unix.AF_INET6, "[::ffff:127.0.0.1]:5432", "[::ffff:127.0.0.1]:5432", "127.0.0.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ways(t, func(t *testing.T, s *system, flags int) {
				accepted := s.serve("db", tt.network, tt.listen)
				p := s.program("api", tt.domain, flags)
				if errno := p.done(p.connect(tt.to), flags); errno != 0 {
					t.Fatalf("connect: %v", errno)
				}
				p.echo("hello")
				c := p.accepted(accepted)
				if peer, errno := p.peerName(); peer.String() != tt.peer || errno != 0 {
					t.Errorf("getpeername = %v, %v, want %s", peer, errno, tt.peer)
				}
				name, errno := p.sockName()
				if want := c.remote.Port(); name.Port() != want || errno != 0 {
					t.Errorf("getsockname = %v, %v, the server sees port %d", name, errno, want)
				}
				if want := loopback(netip.MustParseAddrPort(tt.to).Addr().Unmap().Is6()); name.Addr().Unmap() != want {
					t.Errorf("getsockname = %v, want %v", name, want)
				}
				if !c.remote.Addr().IsLoopback() || c.local.Addr().String() != tt.server {
					t.Errorf("the server sees %v to %v, want loopback to %s", c.remote, c.local, tt.server)
				}
				if a := s.last(); a.Flow.String() != "api>db.sql#1" || a.Errno != 0 || a.Address.String() != tt.to {
					t.Errorf("attempt is %+v", a)
				}
			})
		})
	}
}

func TestConnectTwice(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		accepted := s.serve("db", "tcp4", "0.0.0.0:5432")
		p := s.program("api", unix.AF_INET, flags)
		if errno := p.done(p.connect("127.77.0.2:5432"), flags); errno != 0 {
			t.Fatal(errno)
		}
		// A non-blocking socket's second connect collects the result, as in hiredis.
		var want []unix.Errno
		if flags != 0 {
			want = append(want, 0)
		}
		for i, w := range append(want, unix.EISCONN, unix.EISCONN) {
			if errno := p.connect("127.77.0.2:5432"); errno != w {
				t.Errorf("connect %d: %v, want %v", i+2, errno, w)
			}
		}
		p.echo("still here")
		p.accepted(accepted)
		if len(accepted) != 0 {
			t.Error("the server saw more than one connection")
		}
	})
}

func TestConnectRefused(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		for _, to := range []string{"127.77.0.2:5432", "127.0.0.1:5432", "127.77.0.2:99", "127.0.0.1:9000"} {
			p := s.program("api", unix.AF_INET, flags)
			if errno := p.done(p.connect(to), flags); errno != unix.ECONNREFUSED {
				t.Errorf("%s: %v, want ECONNREFUSED", to, errno)
			}
			if s.last().Errno != int(unix.ECONNREFUSED) {
				t.Errorf("%s: attempt is %+v", to, s.last())
			}
			// The same socket may be used again once the error is known.
			if flags == 0 {
				accepted := s.serve("db", "tcp4", "127.0.0.1:5432")
				if errno := p.connect("127.77.0.2:5432"); errno != 0 {
					t.Errorf("%s: connecting again: %v", to, errno)
				}
				c := p.accepted(accepted)
				c.conn.Close()
				return
			}
		}
	})
}

func TestConnectUndeclared(t *testing.T) {
	s := newSystem(t, true)
	for to, want := range map[string]struct {
		errno unix.Errno
		code  verdict.Code
	}{
		"192.0.2.1:80":    {unix.ENETUNREACH, verdict.UndeclaredAddress},
		"127.77.0.2:99":   {unix.ECONNREFUSED, verdict.UndeclaredAddress},
		"127.0.0.1:99":    {unix.ECONNREFUSED, verdict.UndeclaredAddress},
		"127.0.0.1:9000":  {unix.ECONNREFUSED, verdict.AmbiguousLocalhost},
		"127.77.0.3:9000": {unix.ECONNREFUSED, ""},
	} {
		p := s.program("api", unix.AF_INET, 0)
		if errno := p.connect(to); errno != want.errno {
			t.Errorf("%s: %v, want %v", to, errno, want.errno)
		}
		if a := s.last(); a.Code != want.code || a.Address.String() != to || a.Flow.Client != "api" {
			t.Errorf("%s: attempt is %+v, want %s", to, a, want.code)
		}
	}
}

func TestConnectOwnListener(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		accepted := s.serve("api", "tcp4", "127.0.0.1:5432")
		p := s.program("api", unix.AF_INET, flags)
		if errno := p.done(p.connect("127.0.0.1:5432"), flags); errno != 0 {
			t.Fatal(errno)
		}
		p.echo("own")
		p.accepted(accepted)
		if a := s.last(); a != (Attempt{}) {
			t.Errorf("a native connect was recorded: %+v", a)
		}
	})
}

func TestConnectBoundFirst(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		accepted := s.serve("db", "tcp4", "127.0.0.1:5432")
		p := s.program("api", unix.AF_INET, flags)
		if err := unix.Bind(p.fd, sockaddr(unix.AF_INET, netip.MustParseAddrPort("127.0.0.1:7777"))); err != nil {
			t.Fatal(err)
		}
		if errno := p.done(p.connect("127.77.0.2:5432"), flags); errno != 0 {
			t.Fatal(errno)
		}
		c := p.accepted(accepted)
		if name, _ := p.sockName(); name.String() != "127.0.0.1:7777" || c.remote != name {
			t.Errorf("getsockname = %v, the server sees %v", name, c.remote)
		}
	})
}

// A program whose port is taken in the server's namespace keeps it; only the server sees another.
func TestConnectBoundPortTaken(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		accepted := s.serve("db", "tcp4", "127.0.0.1:5432")
		s.serve("db", "tcp4", "127.0.0.1:7777")
		p := s.program("api", unix.AF_INET, flags)
		if err := unix.Bind(p.fd, sockaddr(unix.AF_INET, netip.MustParseAddrPort("127.0.0.1:7777"))); err != nil {
			t.Fatal(err)
		}
		if errno := p.done(p.connect("127.77.0.2:5432"), flags); errno != 0 {
			t.Fatal(errno)
		}
		p.echo("hello")
		p.accepted(accepted)
	})
}

func TestConnectDissolved(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		accepted := s.serve("db", "tcp4", "127.0.0.1:5432")
		s.serve("cache", "tcp4", "127.0.0.1:6379")
		p := s.program("api", unix.AF_INET, flags)
		if errno := p.done(p.connect("127.77.0.2:5432"), flags); errno != 0 {
			t.Fatal(errno)
		}
		p.accepted(accepted)
		res := s.d.Connect(Request{Client: "api", Socket: p.dup(), Addr: make([]byte, 16)})
		if !res.Native {
			t.Fatalf("AF_UNSPEC: %+v, want native", res)
		}
		if err := disconnect(p.fd); err != nil {
			t.Fatal(err)
		}
		if _, errno := p.peerName(); errno != unix.ENOTCONN {
			t.Errorf("getpeername after AF_UNSPEC: %v, want ENOTCONN", errno)
		}
		if errno := p.done(p.connect("127.0.0.1:6379"), flags); errno != 0 {
			t.Fatalf("connecting again: %v", errno)
		}
		p.echo("second life")
		if peer, _ := p.peerName(); peer.String() != "127.0.0.1:6379" {
			t.Errorf("getpeername = %v", peer)
		}
	})
}

// A socket in an epoll set stays the program's own, so that the set goes on working.
func TestConnectPolled(t *testing.T) {
	s := newSystem(t, false)
	s.serve("db", "tcp4", "127.0.0.1:5432")
	p := s.program("api", unix.AF_INET, unix.SOCK_NONBLOCK)
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ep)
	ev := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLET, Fd: int32(p.fd)}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, p.fd, &ev); err != nil {
		t.Fatal(err)
	}
	p.inspectable()
	before := cookieOf(p.fd)
	if errno := p.connect("127.77.0.2:5432"); errno != unix.EINPROGRESS {
		t.Fatal(errno)
	}
	if cookieOf(p.fd) != before || s.last().Direct {
		t.Error("the socket was replaced")
	}
	events := make([]unix.EpollEvent, 4)
	n, err := unix.EpollWait(ep, events, 2000)
	if err != nil || n != 1 || events[0].Events&unix.EPOLLOUT == 0 {
		t.Errorf("epoll: %d events, %v, %v", n, events[:max(n, 0)], err)
	}
	p.echo("hello")
}

// A socket that the program has under two numbers stays its own, so that both lead to the connection.
func TestConnectDuplicated(t *testing.T) {
	for _, twice := range []bool{false, true} {
		s := newSystem(t, false)
		s.serve("db", "tcp4", "127.0.0.1:5432")
		p := s.program("api", unix.AF_INET, 0)
		other := p.fd
		if twice {
			other = p.dup()
			defer unix.Close(other)
		}
		p.inspectable()
		if errno := p.connect("127.77.0.2:5432"); errno != 0 {
			t.Fatal(errno)
		}
		if s.last().Direct == twice || cookieOf(p.fd) != cookieOf(other) {
			t.Errorf("twice %v: attempt %+v", twice, s.last())
		}
		if _, err := unix.Write(other, []byte("x")); err != nil {
			t.Errorf("twice %v: %v", twice, err)
		}
	}
}

// What cannot be is left to the kernel, and leads nowhere.
func TestConnectHopeless(t *testing.T) {
	listening := func(fd int) error { return unix.Listen(fd, 1) }
	only6 := func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1) }
	for _, tt := range []struct {
		name   string
		domain int
		before func(fd int) error
		addr   Addr
		want   unix.Errno
	}{
		{"listening", unix.AF_INET, listening, Addr{familyINET, netip.MustParseAddrPort("127.77.0.2:5432")}, unix.EISCONN},
		{"IPv6 only", unix.AF_INET6, only6, Addr{familyINET6, netip.MustParseAddrPort("[::ffff:127.77.0.2]:5432")}, unix.ENETUNREACH},
		{"IPv6 address", unix.AF_INET, nil, Addr{familyINET6, netip.MustParseAddrPort("[::1]:5432")}, unix.EAFNOSUPPORT},
		{"IPv4 address", unix.AF_INET6, nil, Addr{familyINET, netip.MustParseAddrPort("127.77.0.2:5432")}, unix.EINVAL},
		{"IPv4 address, no listener", unix.AF_INET6, nil, Addr{familyINET, netip.MustParseAddrPort("127.77.0.3:99")}, unix.EINVAL},
	} {
		ways(t, func(t *testing.T, s *system, flags int) {
			s.serve("db", "tcp", "[::]:5432")
			p := s.program("api", tt.domain, flags)
			if tt.before != nil {
				if err := tt.before(p.fd); err != nil {
					t.Fatal(err)
				}
			}
			req := p.request("127.0.0.1:1")
			req.Addr = tt.addr.Raw()
			if res := s.d.Connect(req); !res.Native || s.last() != (Attempt{}) {
				t.Errorf("%s: %+v, attempt %+v", tt.name, res, s.last())
			}
			if errno := connect(p.fd, sockaddr(tt.addr.Family, tt.addr.AddrPort)); errno != tt.want {
				t.Errorf("%s: the kernel says %v, want %v", tt.name, errno, tt.want)
			}
		})
	}
}

func TestDirectKeepsOptions(t *testing.T) {
	s := newSystem(t, false)
	s.serve("db", "tcp4", "127.0.0.1:5432")
	p := s.program("api", unix.AF_INET, unix.SOCK_NONBLOCK)
	set := map[[2]int]int{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY}: 1, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}: 77,
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}: 7, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT}: 3,
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}: 1234, {unix.SOL_SOCKET, unix.SO_KEEPALIVE}: 1,
		{unix.SOL_SOCKET, unix.SO_RCVBUF}: 50000, {unix.SOL_SOCKET, unix.SO_SNDBUF}: 60000,
		{unix.SOL_SOCKET, unix.SO_REUSEADDR}: 1, {unix.IPPROTO_IP, unix.IP_TOS}: 0x10,
		{unix.SOL_SOCKET, unix.SO_OOBINLINE}: 1,
	}
	for k, v := range set {
		if err := unix.SetsockoptInt(p.fd, k[0], k[1], v); err != nil {
			t.Fatal(k, err)
		}
	}
	lingering := unix.Linger{Onoff: 1, Linger: 9}
	if err := unix.SetsockoptLinger(p.fd, unix.SOL_SOCKET, unix.SO_LINGER, &lingering); err != nil {
		t.Fatal(err)
	}
	tv := unix.Timeval{Sec: 3}
	if err := unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		t.Fatal(err)
	}
	want := make(map[option]value)
	for _, o := range options(unix.SOCK_STREAM) {
		if v := o.read(p.fd); v.ok && o.name != unix.TCP_MAXSEG && o.name != unix.TCP_WINDOW_CLAMP {
			want[o] = v
		}
	}
	before := cookieOf(p.fd)
	if errno := p.connect("127.77.0.2:5432"); errno != unix.EINPROGRESS {
		t.Fatal(errno)
	}
	if cookieOf(p.fd) == before || !s.last().Direct {
		t.Fatal("the socket was not replaced")
	}
	for o, w := range want {
		if got := o.read(p.fd); got != w {
			t.Errorf("option %d of level %d is %v, was %v", o.name, o.level, got, w)
		}
	}
	if flags, _ := unix.FcntlInt(uintptr(p.fd), unix.F_GETFL, 0); flags&unix.O_NONBLOCK == 0 {
		t.Error("O_NONBLOCK is gone")
	}
}

// What is known about a mediated connection is forgotten with it.
func TestTableForgets(t *testing.T) {
	s := newSystem(t, true)
	accepted := s.serve("db", "tcp4", "127.0.0.1:5432")
	p := s.program("api", unix.AF_INET, 0)
	if errno := p.connect("127.77.0.2:5432"); errno != 0 {
		t.Fatal(errno)
	}
	if s.d.table.size() != 1 {
		t.Fatalf("%d entries", s.d.table.size())
	}
	p.accepted(accepted)
	p.close()
	until(t, "the table to be empty", func() bool { return s.d.table.size() == 0 })
}

// Many programs at once get each their own connection.
func TestConnectMany(t *testing.T) {
	for _, mediated := range []bool{false, true} {
		s := newSystem(t, mediated)
		accepted := s.serve("db", "tcp4", "127.0.0.1:5432")
		go func() {
			for range accepted {
			}
		}()
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				for j := range 5 {
					flags := unix.SOCK_NONBLOCK * (j % 2)
					p := s.program("api", unix.AF_INET, flags)
					if errno := p.done(p.connect("127.77.0.2:5432"), flags); errno != 0 {
						t.Errorf("connect: %v", errno)
						return
					}
					p.echo(fmt.Sprintf("this is %d of %d", j, i))
					p.close()
				}
			})
		}
		all.Wait()
		until(t, "the table to be empty", func() bool { return !mediated || s.d.table.size() == 0 })
	}
}

// Data in the SYN has no meaning through a relay, so the option does nothing.
func TestFastOpenCleared(t *testing.T) {
	ways(t, func(t *testing.T, s *system, flags int) {
		var err error
		s.ns["api"].do(func() {
			// For clients, and without a cookie: so the first connect is a fast one already.
			err = os.WriteFile("/proc/sys/net/ipv4/tcp_fastopen", []byte("5"), 0)
		})
		if err != nil {
			t.Skip("cannot turn fast open on here: ", err)
		}
		accepted := s.serve("db", "tcp4", "0.0.0.0:5432")
		p := s.program("api", unix.AF_INET, flags)
		if err := unix.SetsockoptInt(p.fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
			t.Fatal(err)
		}
		if errno := p.done(p.connect("127.77.0.2:5432"), flags); errno != 0 {
			t.Fatal(errno)
		}
		p.accepted(accepted)
		p.echo("hello")
	})
}

func BenchmarkConnect(b *testing.B) {
	for _, mediated := range []bool{false, true} {
		b.Run(fmt.Sprintf("mediated=%v", mediated), func(b *testing.B) {
			s := newSystem(b, mediated)
			l := s.listen("db", "tcp4", "0.0.0.0:5432")
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Close()
				}
			}()
			for b.Loop() {
				b.StopTimer()
				p := s.program("api", unix.AF_INET, 0)
				req := p.request("127.77.0.2:5432")
				b.StartTimer()
				res := s.d.Connect(req)
				b.StopTimer()
				if errno := p.apply("127.77.0.2:5432", res); errno != 0 {
					b.Fatal(errno)
				}
				p.close()
				b.StartTimer()
			}
		})
	}
}
