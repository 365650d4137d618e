package dial

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
)

const (
	// maxDatagram is the most that a UDP datagram holds.
	maxDatagram = 64 << 10
	// maxQueued is how many datagrams of one flow wait for the relay; more are lost, as in a socket.
	maxQueued = 256
	// maxFlows is how many flows a front keeps. UDP has no end that could be seen, so the one
	// that was silent longest makes room.
	maxFlows = 512
)

// front is a UDP socket at a server's address in a client's namespace. What programs send to that
// address reaches it natively; each address that they send from is a flow of its own.
type front struct {
	d     *Dialer
	route Route
	// at is the address, in home; client is whose programs are there.
	at     netip.AddrPort
	client string
	home   *space
	conn   *net.UDPConn

	mu    sync.Mutex
	flows map[netip.AddrPort]*datagramEnd
	clock int64
}

// front returns the front of an address in a namespace, which it makes where there is none. It returns
// nil, without an error, where the other end of another flow stands at that very address: what is sent
// there reaches the server as well.
func (d *Dialer) front(home *space, client string, route Route, at netip.AddrPort) (*front, error) {
	home.mu.Lock()
	defer home.mu.Unlock()
	if f, taken := home.datagrams[at]; taken {
		return f, nil
	}
	fd, err := home.packet(at)
	if err != nil {
		return nil, err
	}
	conn, err := udpConn(fd)
	if err != nil {
		return nil, err
	}
	f := &front{d: d, route: route, at: at, client: client, home: home, conn: conn, flows: make(map[netip.AddrPort]*datagramEnd)}
	home.datagrams[at] = f
	d.holding.Add(1)
	go f.read()
	return f, nil
}

// packet makes a UDP socket at an address. It shares the address with a program's socket that is
// bound to all addresses, see Dialer.Bind; the kernel prefers the more particular one.
func (sp *space) packet(at netip.AddrPort) (int, error) {
	domain := unix.AF_INET
	if at.Addr().Is6() {
		domain = unix.AF_INET6
	}
	fd, err := sp.ns.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if domain == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := unix.Bind(fd, sockaddr(domain, at)); err != nil {
		closeAll(fd)
		return -1, err
	}
	return fd, nil
}

// udpConn makes a connection of a descriptor, which it takes over.
func udpConn(fd int) (*net.UDPConn, error) {
	f := os.NewFile(uintptr(fd), "udp")
	defer f.Close()
	conn, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// read hands what programs send to the flow of its sender.
func (f *front) read() {
	defer f.d.holding.Done()
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := f.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if f.d.closed.Load() {
				return
			}
			continue // an ICMP error of something that was sent earlier
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		end := f.flow(from)
		if end == nil {
			continue
		}
		select {
		case end.queue <- append([]byte(nil), buf[:n]...):
		default:
		}
	}
}

// flow returns the flow of a sender, nil where it cannot be made.
func (f *front) flow(from netip.AddrPort) *datagramEnd {
	f.mu.Lock()
	f.clock++
	end := f.flows[from]
	if end != nil {
		end.used = f.clock
		f.mu.Unlock()
		return end
	}
	end = &datagramEnd{front: f, to: from, used: f.clock, queue: make(chan []byte, maxQueued), closed: make(chan struct{})}
	f.flows[from] = end
	oldest := f.crowded()
	f.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	flow := f.d.cfg.Links.Open(f.client, f.route.Server, f.route.Interface)
	a := Attempt{Flow: flow, Address: f.at, Datagram: true}
	server, err := f.d.backOf(f, from)
	if err == nil {
		f.d.report(a)
		err = f.d.cfg.Links.RelayDatagram(flow, end, server)
	}
	if err != nil {
		a.Errno = int(errnoOf(err))
		f.d.report(a)
		_ = end.Close()
		return nil
	}
	return end
}

// crowded returns the flow that has to make room. It is called with mu held.
func (f *front) crowded() *datagramEnd {
	if len(f.flows) <= maxFlows {
		return nil
	}
	var oldest *datagramEnd
	for _, end := range f.flows {
		if oldest == nil || end.used < oldest.used {
			oldest = end
		}
	}
	return oldest
}

// datagramEnd is the client's end of a datagram flow.
type datagramEnd struct {
	front  *front
	to     netip.AddrPort
	queue  chan []byte
	used   int64 // guarded by front.mu
	once   sync.Once
	closed chan struct{}
}

// Read returns the next datagram from the program.
func (e *datagramEnd) Read(p []byte) (int, error) {
	select {
	case b := <-e.queue:
		return copy(p, b), nil
	case <-e.closed:
		return 0, io.EOF
	}
}

// Write sends a datagram to the program, from the address that it wrote to.
func (e *datagramEnd) Write(p []byte) (int, error) {
	n, err := e.front.conn.WriteToUDPAddrPort(p, e.to)
	if err != nil && !e.ended() {
		return len(p), nil // lost, as on any network
	}
	return n, err
}

func (e *datagramEnd) ended() bool {
	select {
	case <-e.closed:
		return true
	default:
		return e.front.d.closed.Load()
	}
}

// Close ends the flow; the next datagram of its sender begins another one.
func (e *datagramEnd) Close() error {
	e.once.Do(func() {
		close(e.closed)
		e.front.mu.Lock()
		if e.front.flows[e.to] == e {
			delete(e.front.flows, e.to)
		}
		e.front.mu.Unlock()
	})
	return nil
}

func (f *front) close() {
	_ = f.conn.Close()
	f.mu.Lock()
	ends := make([]*datagramEnd, 0, len(f.flows))
	for _, e := range f.flows {
		ends = append(ends, e)
	}
	f.mu.Unlock()
	for _, e := range ends {
		_ = e.Close()
	}
}

// datagramBack is the server's end of a datagram flow: a socket in the server's namespace.
type datagramBack struct {
	d      *Dialer
	server *space
	front  *front
	client netip.AddrPort
	conn   *net.UDPConn
	at     netip.AddrPort
	own    netip.Addr

	mu sync.Mutex
	to netip.AddrPort
	// heard is set once the server has sent something: then it is known where it is.
	heard bool
}

// backOf makes the server's end for what comes from an address. The server sees that port where it
// is free and, where the program asked by name, the client's own address.
func (d *Dialer) backOf(f *front, from netip.AddrPort) (*datagramBack, error) {
	b := &datagramBack{d: d, server: d.spaces[f.route.Server], front: f, client: from, own: d.addrs[f.route.Server]}
	v4, v6 := b.server.ns.Bound(f.route.Port)
	ips := []netip.Addr{loopback4()}
	if name, ok := d.addrs[f.client]; ok {
		ips = []netip.Addr{name, loopback4()}
		if f.at.Addr() != b.own {
			ips = []netip.Addr{loopback4(), name}
		}
	}
	// A server that is not there yet is expected where it was asked for.
	if !v4 && (v6 || f.at.Addr().Is6()) {
		ips = []netip.Addr{loopback6()}
	}
	var candidates []netip.AddrPort
	for _, ip := range ips {
		candidates = append(candidates, netip.AddrPortFrom(ip, from.Port()))
	}
	candidates = append(candidates, netip.AddrPortFrom(ips[0], 0))
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	var err error
	for _, at := range candidates {
		if _, taken := b.server.datagrams[at]; taken || b.server.shadowed(at, f.route.Port) {
			continue
		}
		var fd int
		if fd, err = b.server.packet(at); err != nil {
			continue
		}
		b.at = localOf(fd)
		if b.conn, err = udpConn(fd); err != nil {
			return nil, err
		}
		b.server.datagrams[b.at] = nil
		return b, nil
	}
	if err == nil {
		err = unix.EADDRINUSE
	}
	return nil, err
}

// shadowed reports whether a socket at an address would take what is meant for the server itself.
func (sp *space) shadowed(at netip.AddrPort, port int) bool {
	return int(at.Port()) == port && (at.Addr() == loopback4() || at.Addr() == loopback6())
}

// target says where the server is. Until it has answered it may yet appear elsewhere.
func (b *datagramBack) target() (to netip.AddrPort, there bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard {
		return b.to, true
	}
	port := b.front.route.Port
	v4, v6 := b.server.ns.Bound(port)
	ip := b.own
	switch {
	case b.at.Addr().Is6():
		ip, there = loopback6(), v6
	case v4:
		ip, there = loopback4(), true
	default:
		there = b.server.holds(netip.AddrPortFrom(ip, uint16(port)))
	}
	b.to = netip.AddrPortFrom(ip, uint16(port))
	return b.to, there
}

// holds reports whether a UDP socket has an address of the namespace.
func (sp *space) holds(at netip.AddrPort) bool {
	domain := unix.AF_INET
	if at.Addr().Is6() {
		domain = unix.AF_INET6
	}
	fd, err := sp.ns.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer closeAll(fd)
	return unix.Bind(fd, sockaddr(domain, at)) == unix.EADDRINUSE
}

// Read returns the next datagram from the server.
func (b *datagramBack) Read(p []byte) (int, error) {
	for {
		n, from, err := b.conn.ReadFromUDPAddrPort(p)
		if err != nil {
			return n, err
		}
		if int(from.Port()) != b.front.route.Port {
			continue
		}
		b.mu.Lock()
		b.heard, b.to = true, netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		b.mu.Unlock()
		return n, nil
	}
}

// Write sends a datagram to the server. Where there is none the program is told as by the server's
// kernel.
func (b *datagramBack) Write(p []byte) (int, error) {
	to, there := b.target()
	if !there {
		b.front.home.portUnreachable(b.client, b.front.at)
		return len(p), nil
	}
	n, err := b.conn.WriteToUDPAddrPort(p, to)
	if err != nil && !b.d.closed.Load() {
		return len(p), nil
	}
	return n, err
}

// Close ends the flow.
func (b *datagramBack) Close() error {
	b.server.mu.Lock()
	delete(b.server.datagrams, b.at)
	b.server.mu.Unlock()
	return b.conn.Close()
}

// portUnreachable tells a program that nobody is at the port that it sent to. A socket that is
// connected there gets ECONNREFUSED from it.
func (sp *space) portUnreachable(client, server netip.AddrPort) {
	if client.Addr().Is6() && server.Addr().Is6() {
		datagram := emptyUDP(client.Port(), server.Port())
		sp.unreachable6(client.Addr(), unreachable6(client.Addr(), server.Addr(), protoUDP, icmp6Port, datagram))
		return
	}
	if !client.Addr().Is4() || !server.Addr().Is4() {
		return
	}
	fd, err := sp.ns.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return
	}
	defer closeAll(fd)
	packet := unreachable4(emptyUDP4(client, server), icmpPort)
	_ = unix.Sendto(fd, packet, 0, sockaddr(unix.AF_INET, netip.AddrPortFrom(client.Addr(), 0)))
}

// unreachable6 sends an ICMPv6 message to an address of the namespace.
func (sp *space) unreachable6(to netip.Addr, message []byte) {
	fd, err := sp.ns.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return
	}
	defer closeAll(fd)
	_ = unix.Sendto(fd, message, 0, sockaddr(unix.AF_INET6, netip.AddrPortFrom(to, 0)))
}

var _ link.DatagramConn = (*datagramBack)(nil)
