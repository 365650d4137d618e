package dial

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
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

// Peer says whom a client's socket is, or with raw is about to be, connected with: an interface of a service. It is false for a
// connection that the client has not made, and for one to nothing that is declared.
func (d *Dialer) Peer(client string, socket int, raw []byte) (link.Flow, bool) {
	if raw == nil {
		if e, ok := d.table.get(cookieOf(socket)); ok && e.flow.Server != "" {
			return e.flow, true
		}
		at := peerOf(socket)
		if !at.IsValid() {
			return link.Flow{}, false
		}
		family := familyINET
		if at.Addr().Is6() {
			family = familyINET6
		}
		raw = Addr{Family: family, AddrPort: at}.Raw()
	}
	to, err := ParseAddr(raw)
	if err != nil {
		return link.Flow{}, false
	}
	route := d.resolver.Resolve(client, to, false, func(int) bool { return false })
	if route.Action != Link {
		return link.Flow{}, false
	}
	return link.Flow{Client: client, Server: route.Server, Interface: route.Interface}, true
}
