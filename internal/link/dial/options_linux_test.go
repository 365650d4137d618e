package dial

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// changed sets an option of a fresh socket to a value that it does not have by itself, and returns that value.
func changed(fd, level, name int) (int, bool) {
	was, err := unix.GetsockoptInt(fd, level, name)
	if err != nil {
		return 0, false
	}
	for _, v := range []int{1, 0, 2, was + 1, 3, 100, 1000, 100000} {
		if unix.SetsockoptInt(fd, level, name, v) != nil {
			continue
		}
		if now, err := unix.GetsockoptInt(fd, level, name); err == nil && now != was {
			return v, true
		}
	}
	return 0, false
}

// notCarried are the options that a socket in another's place is not given.
func notCarried(typ int) map[[2]int]string {
	none := map[[2]int]string{
		{unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT}:   "data in the SYN has no meaning through a relay",
		{unix.IPPROTO_TCP, unix.TCP_FASTOPEN_NO_COOKIE}: "data in the SYN has no meaning through a relay",
		{unix.IPPROTO_TCP, unix.TCP_FASTOPEN}:           "of listeners",
		{unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT}:       "of listeners",
		{unix.IPPROTO_TCP, unix.TCP_SAVE_SYN}:           "of listeners",
		{unix.IPPROTO_TCP, unix.TCP_REPAIR}:             "makes a connection without a peer",
		{unix.IPPROTO_UDP, unix.UDP_ENCAP}:              "of tunnels",
		{unix.IPPROTO_IP, unix.IP_OPTIONS}:              "options of the header, which networks do not pass",
		{unix.IPPROTO_IPV6, 11}:                         "flow labels are leased within a namespace",
		{unix.IPPROTO_IPV6, 33}:                         "flow labels are leased within a namespace",
		{unix.SOL_SOCKET, unix.SO_LOCK_FILTER}:          "filters are not carried",
		{unix.SOL_SOCKET, unix.SO_INCOMING_CPU}:         "the kernel sets it with each segment that arrives",
		{unix.IPPROTO_TCP, unix.TCP_QUICKACK}:           "a state that the kernel changes",
	}
	if typ == unix.SOCK_STREAM {
		for _, o := range datagramOptions() {
			none[[2]int{o.level, o.name}] = "of datagrams"
		}
	}
	return none
}

// Every option with a number for a value that the kernel lets a program set before it connects is found on
// the socket that takes the place of the program's, as it would be on one that connected natively.
func TestEveryOptionIsCarried(t *testing.T) {
	for _, kind := range []struct {
		name        string
		domain, typ int
		to, at      string
	}{
		{"tcp4", unix.AF_INET, unix.SOCK_STREAM, "127.77.0.2:5432", "127.0.0.1:5432"},
		{"tcp6", unix.AF_INET6, unix.SOCK_STREAM, "[::1]:5432", "[::1]:5432"},
		{"udp4", unix.AF_INET, unix.SOCK_DGRAM, "127.77.0.2:5432", "127.0.0.1:5432"},
		{"udp6", unix.AF_INET6, unix.SOCK_DGRAM, "[::1]:5432", "[::1]:5432"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := newSystem(t, false)
			if kind.typ == unix.SOCK_STREAM {
				accepted := s.serve("db", "tcp", kind.at)
				go func() {
					for {
						select {
						case c := <-accepted:
							c.conn.Close()
						case <-t.Context().Done():
							return
						}
					}
				}()
			} else {
				s.packetProgram("db", kind.domain, kind.at)
			}
			tried, none := 0, notCarried(kind.typ)
			for level, last := range map[int]int{unix.SOL_SOCKET: 90, unix.IPPROTO_IP: 60, unix.IPPROTO_IPV6: 90, unix.IPPROTO_TCP: 60, unix.IPPROTO_UDP: 110} {
				for name := 1; name <= last; name++ {
					if none[[2]int{level, name}] != "" {
						continue
					}
					fd, err := s.ns["api"].Socket(kind.domain, kind.typ, 0)
					if err != nil {
						t.Fatal(err)
					}
					p := &program{s: s, service: "api", fd: fd, domain: kind.domain}
					if v, ok := changed(p.fd, level, name); ok {
						tried++
						carried(t, p, kind.to, kind.at, [3]int{level, name, v})
					}
					p.close()
				}
			}
			if t.Logf("%d options", tried); tried < 20 {
				t.Errorf("only %d options could be set", tried)
			}
		})
	}
}

func carried(t *testing.T, p *program, to, at string, o [3]int) {
	t.Helper()
	what := fmt.Sprintf("option %d of level %d, set to %d,", o[1], o[0], o[2])
	before := cookieOf(p.fd)
	typ, _ := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if errno := p.connect(to); errno != 0 {
		t.Errorf("%s: connect: %v", what, errno)
		return
	}
	if cookieOf(p.fd) == before || !p.s.last().Direct {
		t.Errorf("%s: the socket was not replaced", what)
		return
	}
	got, err := unix.GetsockoptInt(p.fd, o[0], o[1])
	control, errControl := p.s.ns["db"].Socket(p.domain, typ, 0)
	if errControl != nil {
		t.Fatal(errControl)
	}
	defer unix.Close(control)
	_ = unix.SetsockoptInt(control, o[0], o[1], o[2])
	if err := unix.Connect(control, sockaddr(p.domain, netip.MustParseAddrPort(at))); err != nil {
		t.Errorf("%s: control: %v", what, err)
		return
	}
	want, errWant := unix.GetsockoptInt(control, o[0], o[1])
	if got != want || errnoOf(err) != errnoOf(errWant) {
		t.Errorf("%s is %d, %v; want %d, %v", what, got, err, want, errWant)
	}
}
