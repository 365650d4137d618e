package dial

import (
	"net/netip"

	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/verdict"
)

// Namespace is the network namespace of a service.
type Namespace interface {
	// Socket makes a socket in it; the descriptor is close-on-exec.
	Socket(domain, typ, proto int) (int, error)
	// Listening reports whether a TCP connection to 127.0.0.1 or ::1 at the port would find a listener.
	Listening(port int) (v4, v6 bool)
	// Bound reports the same of UDP.
	Bound(port int) (v4, v6 bool)
}

// Links knows the rules on connections and moves their bytes. A *link.Network is one.
type Links interface {
	// Open numbers a new connection.
	Open(client, server, iface string) link.Flow
	// Opening says what the rules in force do to it. It is asked again, for the same flow, when they
	// change while the connection is held.
	Opening(f link.Flow) link.Opening
	// Relay joins the two ends, which it owns from then on, and returns at once.
	Relay(f link.Flow, client, server link.Conn) error
	// RelayDatagram does the same for UDP.
	RelayDatagram(f link.Flow, client, server link.DatagramConn) error
}

// Attempt is the record of a connect.
type Attempt struct {
	// Flow has a Server, an Interface and a number only where the address led to a declared interface.
	Flow link.Flow
	// Address is what the program asked for.
	Address netip.AddrPort
	// Datagram is set for UDP.
	Datagram bool
	// Direct says that no relay stands between the two.
	Direct bool
	// Errno is what the program was told, 0 for a connection.
	Errno int
	// Code is set where the address itself was at fault.
	Code verdict.Code
}
