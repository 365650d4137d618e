package dial

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
)

// portTries is how many ports are tried until one is free on both sides.
const portTries = 16

// mediate connects a program's socket to the relay, once the server has accepted the relay's.
func (d *Dialer) mediate(c *call) Result {
	_ = unix.SetsockoptInt(c.Socket, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 0)
	o := d.cfg.Links.Opening(c.flow)
	p, err := d.origin(c)
	if err != nil {
		d.observe(c, false, errnoOf(err), false)
		return answer(errnoOf(err))
	}
	if o.Delay > 0 || o.Verb == link.TimeOut || o.Verb == link.Silent {
		return d.hold(c, p, o)
	}
	errno := unix.ECONNREFUSED
	if o.Verb == link.Admit {
		errno = p.reach()
	}
	switch errno {
	case 0:
		return d.join(c, p)
	case unix.EINPROGRESS:
		return d.hold(c, p, o)
	}
	closeAll(p.fd)
	d.observe(c, false, errno, false)
	return d.refuse(c, errno)
}

// approach is the relay's way to a server.
type approach struct {
	server *space
	// from is where the server is to see the client.
	from       netip.AddrPort
	candidates []netip.AddrPort
	// fd is bound to from, as far as that was free, and for the first of the candidates; to is the one
	// that it is connected to or being connected to.
	fd int
	to netip.AddrPort
}

// origin binds the program's socket and the one that calls the server to the same address and port,
// each in its own namespace. A socket that the program has bound keeps its address.
func (d *Dialer) origin(c *call) (*approach, error) {
	p := &approach{server: d.spaces[c.route.Server], candidates: d.candidates(c), fd: -1}
	if c.socket.bound() {
		p.from = netip.AddrPortFrom(c.socket.local.Addr().Unmap(), c.socket.local.Port())
		return p, p.bind(p.candidates[0])
	}
	var err error
	for range portTries {
		if err = p.bind(p.candidates[0]); err != nil {
			return nil, err
		}
		at := netip.AddrPortFrom(loopback(c.v6()), localOf(p.fd).Port())
		if err = unix.Bind(c.Socket, sockaddr(c.socket.domain, at)); err == nil {
			p.from = at
			c.socket.local = at
			return p, nil
		}
		closeAll(p.fd)
		p.fd = -1
		if err != unix.EADDRINUSE {
			return nil, err
		}
	}
	return nil, err
}

// bind makes the socket that calls the server. Where its port is taken there it gets another one.
func (p *approach) bind(to netip.AddrPort) error {
	ip := p.from.Addr()
	if !ip.IsValid() || !ip.IsLoopback() || ip.Is6() != to.Addr().Is6() {
		ip = loopback(to.Addr().Is6())
	}
	fd, err := p.server.bind(netip.AddrPortFrom(ip, p.from.Port()))
	if err == unix.EADDRINUSE && p.from.Port() != 0 {
		fd, err = p.server.bind(netip.AddrPortFrom(ip, 0))
	}
	p.fd = fd
	return err
}

// reach calls the server at each of its addresses. EINPROGRESS means that it has not answered.
func (p *approach) reach() unix.Errno {
	refused := unix.ECONNREFUSED
	for i, to := range p.candidates {
		if i > 0 {
			closeAll(p.fd)
			if err := p.bind(to); err != nil {
				return errnoOf(err)
			}
		}
		domain := unix.AF_INET
		if to.Addr().Is6() {
			domain = unix.AF_INET6
		}
		p.to = to
		switch errno := attempt(p.fd, domain, to); errno {
		case 0, unix.EINPROGRESS:
			return errno
		case unix.ECONNREFUSED:
		default:
			refused = errno
		}
	}
	return refused
}

// join connects the program's socket to its namespace's relay listener.
func (d *Dialer) join(c *call, p *approach) Result {
	relay, err := c.home.relay(c.v6())
	if err != nil {
		closeAll(p.fd)
		d.observe(c, false, errnoOf(err), false)
		return answer(errnoOf(err))
	}
	fd, errno := relay.join(c.socket)
	if fd < 0 {
		closeAll(p.fd)
		d.observe(c, false, errno, false)
		return answer(errno)
	}
	d.table.put(c.socket.cookie, d.mediatedEntry(c, p, relay.addr))
	d.relay(c, fd, p.fd)
	return answer(errno)
}

func (d *Dialer) mediatedEntry(c *call, p *approach, actual netip.AddrPort) entry {
	e := entry{flow: c.flow, asked: c.addr.AddrPort, actual: actual, kept: true}
	if port := localOf(p.fd).Port(); port != p.from.Port() {
		e.local = netip.AddrPortFrom(p.from.Addr(), port)
	}
	return e
}

// relay hands both ends of a connection over.
func (d *Dialer) relay(c *call, client, server int) {
	d.observe(c, false, 0, false)
	cookie, flow := c.socket.cookie, c.flow
	near, err := tcpConn(client)
	if err != nil {
		closeAll(server)
		d.table.dropFlow(cookie, flow)
		return
	}
	far, err := tcpConn(server)
	if err != nil {
		_ = near.Close()
		d.table.dropFlow(cookie, flow)
		return
	}
	// Where it fails the relay has closed both, so the program sees the connection end.
	_ = d.cfg.Links.Relay(flow,
		&clientConn{&relayed{TCPConn: near, space: c.home}, func() { d.table.dropFlow(cookie, flow) }},
		&relayed{TCPConn: far, space: d.spaces[c.route.Server]})
}

// clientConn is the relay's end that leads to the program. When it is closed nothing is to be
// known about the program's socket any more.
type clientConn struct {
	*relayed
	closed func()
}

// Close closes the connection.
func (c *clientConn) Close() error {
	c.closed()
	return c.TCPConn.Close()
}

// tcpConn makes a connection of a descriptor, which it takes over.
func tcpConn(fd int) (*net.TCPConn, error) {
	f := os.NewFile(uintptr(fd), "tcp")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// settle notes where the kernel says that the program's socket is bound, now that it is on its way.
func (p *approach) settle(local netip.AddrPort) {
	p.from = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
}
