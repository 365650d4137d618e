package dial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/verdict"
)

// packetProgram is a program with a UDP socket.
func (s *system) packetProgram(service string, domain int, bind string) *program {
	s.t.Helper()
	fd, err := s.ns[service].Socket(domain, unix.SOCK_DGRAM, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &program{s: s, service: service, fd: fd, domain: domain}
	s.t.Cleanup(p.close)
	if bind != "" {
		s.d.Bind(fd)
		if err := unix.Bind(fd, sockaddr(domain, netip.MustParseAddrPort(bind))); err != nil {
			s.t.Fatal(err)
		}
	}
	return p
}

// sendTo is the program's sendto.
func (p *program) sendTo(text, addr string) unix.Errno {
	p.s.t.Helper()
	a := Addr{Family: p.domain, AddrPort: netip.MustParseAddrPort(addr)}
	res := p.s.d.Send(Datagram{Client: p.service, Socket: p.dup(), Addr: a.Raw()})
	if !res.Native {
		return unix.Errno(res.Errno)
	}
	return errnoOf(unix.Sendto(p.fd, []byte(text), 0, sockaddr(p.domain, a.AddrPort)))
}

// receive returns the next datagram and where it comes from.
func (p *program) receive() (string, netip.AddrPort) {
	p.s.t.Helper()
	if !waitFor(p.fd, unix.POLLIN, 3000) {
		p.s.t.Fatalf("%s received nothing", p.service)
	}
	buf := make([]byte, 2048)
	n, from, err := unix.Recvfrom(p.fd, buf, 0)
	if err != nil {
		p.s.t.Fatalf("%s: receive: %v", p.service, err)
	}
	return string(buf[:n]), fromSockaddr(from)
}

func TestDatagram(t *testing.T) {
	tests := []struct {
		name, listen string
		domain       int
		to           string
	}{
		{"name", "0.0.0.0:5432", unix.AF_INET, "127.77.0.2:5432"},
		{"name, loopback", "127.0.0.1:5432", unix.AF_INET, "127.77.0.2:5432"},
		{"name, own address", "127.77.0.2:5432", unix.AF_INET, "127.77.0.2:5432"},
		{"localhost", "0.0.0.0:5432", unix.AF_INET, "127.0.0.1:5432"},
		{"mapped", "0.0.0.0:5432", unix.AF_INET6, "[::ffff:127.77.0.2]:5432"},
		{"v6", "[::]:5432", unix.AF_INET6, "[::1]:5432"},
		{"v6 to v4", "127.0.0.1:5432", unix.AF_INET6, "[::1]:5432"},
	}
	for _, tt := range tests {
		for _, touched := range []bool{false, true} {
			for _, connected := range []bool{false, true} {
				name := tt.name + map[bool]string{true: ",mediated", false: ",direct"}[touched] +
					map[bool]string{true: ",connected", false: ",unconnected"}[connected]
				t.Run(name, func(t *testing.T) {
					exchange(t, newSystem(t, touched), tt.listen, tt.domain, tt.to, touched, connected)
				})
			}
		}
	}
}

func exchange(t *testing.T, s *system, listen string, domain int, to string, touched, connected bool) {
	serverDomain := unix.AF_INET
	if netip.MustParseAddrPort(listen).Addr().Is6() {
		serverDomain = unix.AF_INET6
	}
	server := s.packetProgram("db", serverDomain, listen)
	p := s.packetProgram("api", domain, "")
	for i, text := range []string{"one", "two"} {
		var errno unix.Errno
		switch {
		case !connected:
			errno = p.sendTo(text, to)
		case i == 0:
			if errno = p.connect(to); errno != 0 {
				t.Fatalf("connect: %v", errno)
			}
			fallthrough
		default:
			_, err := unix.Write(p.fd, []byte(text))
			errno = errnoOf(err)
		}
		if errno != 0 {
			t.Fatalf("send: %v", errno)
		}
		got, from := server.receive()
		if got != text || !from.Addr().Unmap().IsLoopback() {
			t.Fatalf("the server received %q from %v", got, from)
		}
		if errno := server.sendTo("re: "+text, from.String()); errno != 0 {
			t.Fatalf("the server's answer to %v: %v", from, errno)
		}
		if got, from = p.receive(); got != "re: "+text {
			t.Fatalf("the program received %q", got)
		}
		if (touched || !connected) && from.String() != to {
			t.Errorf("the answer comes from %v, want %s", from, to)
		}
	}
	if connected {
		if peer, errno := p.peerName(); peer.String() != to || errno != 0 {
			t.Errorf("getpeername = %v, %v, want %s", peer, errno, to)
		}
	}
	if a := s.last(); a.Flow.String() != "api>db.sql#1" || !a.Datagram || a.Errno != 0 || (connected && !touched) != a.Direct {
		t.Errorf("attempt is %+v", a)
	}
}

func TestDatagramRefused(t *testing.T) {
	s := newSystem(t, true)
	p := s.packetProgram("api", unix.AF_INET, "")
	for to, want := range map[string]struct {
		errno unix.Errno
		code  verdict.Code
	}{
		"192.0.2.1:53":   {unix.ENETUNREACH, verdict.UndeclaredAddress},
		"127.77.0.2:53":  {unix.ECONNREFUSED, verdict.UndeclaredAddress},
		"127.0.0.1:9000": {unix.ECONNREFUSED, verdict.AmbiguousLocalhost},
	} {
		if errno := p.sendTo("x", to); errno != want.errno || s.last().Code != want.code {
			t.Errorf("%s: %v, %+v, want %v, %s", to, errno, s.last(), want.errno, want.code)
		}
	}
}

// Nobody at the server's port: a connected socket learns it, as from the server's own kernel.
func TestDatagramNobodyThere(t *testing.T) {
	for _, tt := range []struct {
		domain int
		to     string
		family int
		server string
	}{
		{unix.AF_INET, "127.77.0.2:5432", unix.AF_INET, "127.0.0.1:5432"},
		{unix.AF_INET6, "[::1]:5432", unix.AF_INET6, "[::1]:5432"},
		{unix.AF_INET6, "[::1]:5432", unix.AF_INET6, "[::]:5432"},
		{unix.AF_INET6, "[::ffff:127.77.0.2]:5432", unix.AF_INET, "127.0.0.1:5432"},
	} {
		for _, touched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,%s,touched=%v", tt.to, tt.server, touched), func(t *testing.T) {
				s := newSystem(t, touched)
				p := s.packetProgram("api", tt.domain, "")
				if errno := p.connect(tt.to); errno != 0 {
					t.Fatal(errno)
				}
				if _, err := unix.Write(p.fd, []byte("x")); err != nil {
					t.Fatal(err)
				}
				if !waitFor(p.fd, unix.POLLIN, 3000) {
					t.Fatal("no event")
				}
				if errno := p.soError(); errno != unix.ECONNREFUSED {
					t.Errorf("SO_ERROR is %v, want ECONNREFUSED", errno)
				}
				// It appears later, and the same socket reaches it.
				server := s.packetProgram("db", tt.family, tt.server)
				if _, err := unix.Write(p.fd, []byte("now")); err != nil {
					t.Fatal(err)
				}
				if got, _ := server.receive(); got != "now" {
					t.Errorf("received %q", got)
				}
			})
		}
	}
}

func TestDatagramLoss(t *testing.T) {
	s := newSystem(t, true)
	server := s.packetProgram("db", unix.AF_INET, "0.0.0.0:5432")
	p := s.packetProgram("api", unix.AF_INET, "")
	id := s.install(fault.Loss, func(e *fault.LinkEffect) { e.Probability = 1 })
	if errno := p.sendTo("lost", "127.77.0.2:5432"); errno != 0 {
		t.Fatal(errno)
	}
	until(t, "the rule to fire", func() bool { return s.links.Fired(id) == 1 })
	s.links.Lift(id)
	if errno := p.sendTo("kept", "127.77.0.2:5432"); errno != 0 {
		t.Fatal(errno)
	}
	if got, _ := server.receive(); got != "kept" {
		t.Errorf("received %q", got)
	}
}

// Members of a mesh use one port everywhere, on all addresses, and answer to where a message came from.
func TestDatagramMesh(t *testing.T) {
	s := newSystem(t, true)
	cache := s.packetProgram("cache", unix.AF_INET, "0.0.0.0:9000")
	db := s.packetProgram("db", unix.AF_INET, "0.0.0.0:9000")
	for _, round := range []struct {
		a, b   *program
		to, me string
	}{
		{cache, db, "127.77.0.2:9000", "127.77.0.3"},
		{db, cache, "127.77.0.3:9000", "127.77.0.2"},
		{cache, db, "127.77.0.2:9000", "127.77.0.3"},
	} {
		if errno := round.a.sendTo("ping", round.to); errno != 0 {
			t.Fatalf("%s to %s: %v", round.a.service, round.to, errno)
		}
		got, from := round.b.receive()
		if got != "ping" || from.Addr().String() != round.me {
			t.Fatalf("%s received %q from %v, want it from %s", round.b.service, got, from, round.me)
		}
		if errno := round.b.sendTo("pong", from.String()); errno != 0 {
			t.Fatalf("%s answers %v: %v", round.b.service, from, errno)
		}
		if got, from := round.a.receive(); got != "pong" || from.String() != round.to {
			t.Fatalf("%s received %q from %v, want it from %s", round.a.service, got, from, round.to)
		}
	}
}

// A socket that was direct may be led elsewhere, and home.
func TestDatagramConnectedAgain(t *testing.T) {
	s := newSystem(t, false)
	db := s.packetProgram("db", unix.AF_INET, "0.0.0.0:5432")
	cache := s.packetProgram("cache", unix.AF_INET, "0.0.0.0:6379")
	own := s.packetProgram("api", unix.AF_INET, "127.0.0.1:4444")
	p := s.packetProgram("api", unix.AF_INET, "")
	for _, step := range []struct {
		to     string
		server *program
	}{{"127.77.0.2:5432", db}, {"127.0.0.1:4444", own}, {"127.0.0.1:6379", cache}, {"127.77.0.2:5432", db}} {
		if errno := p.connect(step.to); errno != 0 {
			t.Fatalf("%s: %v", step.to, errno)
		}
		if _, err := unix.Write(p.fd, []byte(step.to)); err != nil {
			t.Fatalf("%s: %v", step.to, err)
		}
		if got, _ := step.server.receive(); got != step.to {
			t.Errorf("received %q, want %q", got, step.to)
		}
		if peer, errno := p.peerName(); peer.String() != step.to || errno != 0 {
			t.Errorf("getpeername = %v, %v, want %s", peer, errno, step.to)
		}
	}
}

// An IPv6 address for an IPv4 socket is refused by the kernel, also where the socket was direct before.
func TestDatagramOtherFamily(t *testing.T) {
	for _, touched := range []bool{false, true} {
		s := newSystem(t, touched)
		s.packetProgram("db", unix.AF_INET6, "[::]:5432")
		p := s.packetProgram("api", unix.AF_INET, "")
		for _, to := range []string{"[::1]:5432", "[::1]:9999", "[::ffff:127.77.0.2]:5432"} {
			for range 2 {
				req := p.request("127.0.0.1:1")
				req.Addr = Addr{familyINET6, netip.MustParseAddrPort(to)}.Raw()
				if res := s.d.Connect(req); !res.Native {
					t.Errorf("touched %v, %s: %+v", touched, to, res)
				}
				if errno := connect(p.fd, sockaddr(unix.AF_INET6, netip.MustParseAddrPort(to))); errno != unix.EAFNOSUPPORT {
					t.Errorf("the kernel says %v", errno)
				}
				if errno := p.connect("127.77.0.2:5432"); errno != 0 {
					t.Error(errno)
				}
			}
		}
	}
}

func TestDatagramFlowsMakeRoom(t *testing.T) {
	s := newSystem(t, true)
	server := s.packetProgram("db", unix.AF_INET, "0.0.0.0:5432")
	for i := range maxFlows + 10 {
		// The kernel may choose a port twice, and that would be the same flow.
		p := s.packetProgram("api", unix.AF_INET, fmt.Sprintf("127.0.0.1:%d", 20000+i))
		if errno := p.sendTo("x", "127.77.0.2:5432"); errno != 0 {
			t.Fatal(errno)
		}
		server.receive()
		p.close()
	}
	f := s.d.spaces["api"].datagrams[netip.MustParseAddrPort("127.77.0.2:5432")]
	f.mu.Lock()
	n := len(f.flows)
	f.mu.Unlock()
	if n != maxFlows {
		t.Errorf("%d flows are kept, want %d", n, maxFlows)
	}
	until(t, "the servers' ends to close", func() bool {
		sp := s.d.spaces["db"]
		sp.mu.Lock()
		defer sp.mu.Unlock()
		return len(sp.datagrams) <= maxFlows
	})
}

func TestFastOpenRefused(t *testing.T) {
	s := newSystem(t, true)
	p := s.program("api", unix.AF_INET, 0)
	a := Addr{Family: familyINET, AddrPort: netip.MustParseAddrPort("127.77.0.2:5432")}
	res := s.d.Send(Datagram{Client: "api", Socket: p.dup(), Addr: a.Raw(), Flags: unix.MSG_FASTOPEN})
	if unix.Errno(res.Errno) != unix.EOPNOTSUPP {
		t.Errorf("%+v, want EOPNOTSUPP", res)
	}
}

func TestNames(t *testing.T) {
	memory := make([]byte, 4096)
	read := func(addr uint64, p []byte) error {
		if addr+uint64(len(p)) > uint64(len(memory)) {
			return errors.New("outside")
		}
		copy(p, memory[addr:])
		return nil
	}
	a := Addr{Family: familyINET, AddrPort: netip.MustParseAddrPort("127.77.0.2:53")}.Raw()
	b := Addr{Family: familyINET, AddrPort: netip.MustParseAddrPort("127.77.0.3:53")}.Raw()
	copy(memory[1024:], a)
	copy(memory[2048:], b)
	header := func(at int, name uint64) {
		binary.NativeEndian.PutUint64(memory[at:], name)
		binary.NativeEndian.PutUint32(memory[at+8:], 16)
	}
	header(100, 1024)
	header(100+sizeMmsghdr, 2048)
	header(100+2*sizeMmsghdr, 1024)
	header(100+3*sizeMmsghdr, 0)
	for _, tt := range []struct {
		call  string
		args  [6]uint64
		want  [][]byte
		flags int
		fails bool
	}{
		{"sendto", [6]uint64{3, 0, 0, 7, 1024, 16}, [][]byte{a}, 7, false},
		{"sendto", [6]uint64{3, 0, 0, 7, 0, 16}, nil, 7, false},
		{"sendto", [6]uint64{3, 0, 0, 7, 5000, 16}, nil, 7, true},
		{"sendmsg", [6]uint64{3, 100, 7}, [][]byte{a}, 7, false},
		{"sendmmsg", [6]uint64{3, 100, 4, 7}, [][]byte{a, b}, 7, false},
		{"write", [6]uint64{}, nil, 0, true},
	} {
		names, flags, err := Names(tt.call, tt.args, read)
		if (err != nil) != tt.fails || flags != tt.flags || len(names) != len(tt.want) {
			t.Errorf("%s: %v, %d, %v", tt.call, names, flags, err)
			continue
		}
		for i := range names {
			if string(names[i]) != string(tt.want[i]) {
				t.Errorf("%s: name %d is %v", tt.call, i, names[i])
			}
		}
	}
}

// The kernel takes our packets for what they are meant to be; here their checksums are looked at alone.
func TestChecksum(t *testing.T) {
	// RFC 1071, section 3.
	if got := fold(sum16(0, []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7})); got != ^uint16(0xddf2) {
		t.Errorf("%04x", got)
	}
	ap := netip.MustParseAddrPort
	p := unreachable4(emptyUDP4(ap("127.0.0.1:1"), ap("127.0.0.2:2")), icmpPort)
	if fold(sum16(0, p[:ipv4HeaderLen])) != 0 || fold(sum16(0, p[ipv4HeaderLen:])) != 0 {
		t.Error("checksums are wrong")
	}
}
