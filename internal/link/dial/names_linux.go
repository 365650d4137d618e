package dial

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Answer is what a question about a socket's state is answered with.
type Answer struct {
	// Native lets the kernel answer; nothing else is set.
	Native bool
	// Errno is what the call fails with.
	Errno int
	// Addr is the struct sockaddr to return, whole; the program's buffer may be shorter.
	Addr []byte
	// Value is the number to return, for SocketError.
	Value int32
}

// PeerName answers getpeername, and getsockopt(SO_PEERNAME), for a duplicate of the program's
// socket, which stays the caller's.
func (d *Dialer) PeerName(socket int) Answer {
	e, ok := d.table.get(cookieOf(socket))
	if !ok {
		return Answer{Native: true}
	}
	if _, err := unix.Getpeername(socket); err != nil {
		return Answer{Errno: int(errnoOf(err))}
	}
	asked := e.asked
	if asked.Addr().IsUnspecified() {
		asked = netip.AddrPortFrom(loopback(!asked.Addr().Unmap().Is4()), asked.Port())
	}
	return Answer{Addr: rawFor(socket, asked)}
}

// SocketName answers getsockname.
func (d *Dialer) SocketName(socket int) Answer {
	e, ok := d.table.get(cookieOf(socket))
	if !ok || !e.local.IsValid() {
		return Answer{Native: true}
	}
	return Answer{Addr: rawFor(socket, e.local)}
}

// SocketError answers getsockopt(SO_ERROR). As there, asking takes the error away.
func (d *Dialer) SocketError(socket int) Answer {
	e, ok := d.table.get(cookieOf(socket))
	if !ok || e.unreachable == 0 {
		return Answer{Native: true}
	}
	return Answer{Value: int32(e.translate(socketError(socket)))}
}

func rawFor(socket int, ap netip.AddrPort) []byte {
	family := familyINET
	if domainOf(socket) == unix.AF_INET6 {
		family = familyINET6
		ap = netip.AddrPortFrom(netip.AddrFrom16(ap.Addr().As16()), ap.Port())
	}
	return Addr{Family: family, AddrPort: ap}.Raw()
}
