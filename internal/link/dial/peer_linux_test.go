package dial

import (
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
)

// spy keeps the ends that the links are given.
type spy struct {
	Links
	client, server link.Conn
}

func (s *spy) Relay(f link.Flow, client, server link.Conn) error {
	s.client, s.server = client, server
	return s.Links.Relay(f, client, server)
}

// TestPeerIsTheProgramsSocket: each end of the relay finds the socket of the program that it leads to.
func TestPeerIsTheProgramsSocket(t *testing.T) {
	for name, tt := range map[string]struct {
		network, listen string
		domain          int
		to              string
	}{
		"v4":        {"tcp4", "127.0.0.1:5432", unix.AF_INET, "127.77.0.2:5432"},
		"dual":      {"tcp", "[::]:5432", unix.AF_INET, "127.77.0.2:5432"},
		"v6":        {"tcp6", "[::1]:5432", unix.AF_INET6, "[::1]:5432"},
		"mapped":    {"tcp4", "127.0.0.1:5432", unix.AF_INET6, "[::ffff:127.77.0.2]:5432"},
		"v4, to v6": {"tcp6", "[::1]:5432", unix.AF_INET, "127.0.0.1:5432"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, true)
			ends := &spy{Links: s.links}
			s.d.cfg.Links = ends
			accepted := s.serve("db", tt.network, tt.listen)
			p := s.program("api", tt.domain, 0)
			if errno := p.connect(tt.to); errno != 0 {
				t.Fatal(errno)
			}
			p.echo("hello")
			server := (<-accepted).conn
			want := []uint64{cookieOf(p.fd), connCookie(t, server)}
			for i, c := range []link.Conn{ends.client, ends.server} {
				for range 2 { // the second time where it was found
					fd, err := c.(link.Peered).Peer()
					if err != nil {
						t.Fatal(err)
					}
					if got := cookieOf(fd); got != want[i] {
						t.Errorf("end %d: socket %d, want %d", i, got, want[i])
					}
					closeAll(fd)
				}
			}
			p.close()
			server.Close()
			if fd, err := ends.client.(link.Peered).Peer(); err == nil {
				closeAll(fd)
				t.Error("found a socket that is closed")
			} else if !errors.Is(err, unix.ENOENT) && !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
		})
	}
}

func connCookie(t *testing.T, c net.Conn) (cookie uint64) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { cookie = cookieOf(int(fd)) })
	return cookie
}

// BenchmarkPeer is what it costs to find a program's socket, the first time and later.
func BenchmarkPeer(b *testing.B) {
	s := newSystem(b, true)
	ends := &spy{Links: s.links}
	s.d.cfg.Links = ends
	s.serve("db", "tcp4", "127.0.0.1:5432")
	p := s.program("api", unix.AF_INET, 0)
	if errno := p.connect("127.77.0.2:5432"); errno != 0 {
		b.Fatal(errno)
	}
	p.echo("hello")
	r := ends.client.(*clientConn).relayed
	for name, again := range map[string]bool{"first": false, "again": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !again {
					r.found = place{}
				}
				fd, err := r.Peer()
				if err != nil {
					b.Fatal(err)
				}
				closeAll(fd)
			}
		})
	}
}
