package dial

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// answerMillis is how long the Dialer itself waits for a peer's answer. The kernel answers within
// the connect, unless the peer's queue is full.
const answerMillis = 20

// candidates returns where a route's interface may be found in the server's namespace: first where
// the program asked, since what the program and the server see of each other is native then.
func (d *Dialer) candidates(c *call) []netip.AddrPort {
	port := uint16(c.route.Port)
	v4, v6, own := loopback4(), loopback6(), d.addrs[c.route.Server]
	order := [3]netip.Addr{v4, own, v6}
	switch asked := c.addr.AddrPort.Addr().Unmap(); {
	case asked == own:
		order = [3]netip.Addr{own, v4, v6}
	case asked.Is6():
		order = [3]netip.Addr{v6, v4, own}
	}
	out := make([]netip.AddrPort, 0, len(order))
	for _, ip := range order {
		out = append(out, netip.AddrPortFrom(ip, port))
	}
	return out
}

// peer is a socket on its way to a server.
type peer struct {
	fd int
	to netip.AddrPort
}

// attempt connects a non-blocking socket. EINPROGRESS means that the server has not answered.
func attempt(fd, domain int, to netip.AddrPort) unix.Errno {
	errno := connect(fd, sockaddr(domain, to))
	if errno != unix.EINPROGRESS {
		return errno
	}
	if !waitFor(fd, unix.POLLOUT, answerMillis) {
		return unix.EINPROGRESS
	}
	return socketError(fd)
}

func socketError(fd int) unix.Errno {
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return errnoOf(err)
	}
	return unix.Errno(v)
}

// direct connects a socket of the server's namespace and lets it take the place of the program's.
// It returns false where that cannot be: the program would notice, or a relay has to translate.
func (d *Dialer) direct(c *call, server *space, candidates []netip.AddrPort) (Result, bool) {
	if !c.substitutable() {
		return Result{}, false
	}
	refused := unix.ECONNREFUSED
	for _, to := range candidates {
		if c.socket.domain == unix.AF_INET && to.Addr().Is6() {
			if v4, v6 := server.ns.Listening(int(to.Port())); v6 && !v4 {
				return Result{}, false
			}
			continue
		}
		fd, errno := d.substitute(c, server, to)
		switch errno {
		case 0, unix.EINPROGRESS:
			return d.install(c, peer{fd, to}, errno), true
		case unix.EADDRINUSE, unix.EADDRNOTAVAIL:
			return Result{}, false
		case unix.ECONNREFUSED:
		default:
			refused = errno
		}
	}
	d.observe(c, true, refused, false)
	return d.refuse(c, refused), true
}

// substitute makes a socket like the program's and connects it. It returns the socket where the
// server has accepted it or, with EINPROGRESS, has not answered yet.
func (d *Dialer) substitute(c *call, server *space, to netip.AddrPort) (int, unix.Errno) {
	fd, err := server.ns.Socket(c.socket.domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	copyOptions(&server.defaults, kind{c.socket.domain, unix.SOCK_STREAM}, fd, c.Socket)
	if c.socket.domain == unix.AF_INET6 && to.Addr().Is4() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if c.socket.bound() {
		if err := unix.Bind(fd, sockaddr(c.socket.domain, c.socket.local)); err != nil {
			closeAll(fd)
			return -1, unix.EADDRINUSE
		}
	}
	errno := attempt(fd, c.socket.domain, to)
	if errno != 0 && errno != unix.EINPROGRESS {
		closeAll(fd)
		return -1, errno
	}
	return fd, errno
}

// install finishes a direct connection: the substitute gets the program's flags and is handed out.
func (d *Dialer) install(c *call, p peer, errno unix.Errno) Result {
	cookie := cookieOf(p.fd)
	e := entry{flow: c.flow, asked: c.addr.AddrPort, actual: p.to}
	if local := localOf(p.fd); local.Addr().Unmap().Is6() != c.v6() {
		e.local = netip.AddrPortFrom(loopback(c.v6()), local.Port())
	}
	reached := p.to.Addr() == c.addr.AddrPort.Addr().Unmap() || (c.addr.AddrPort.Addr().IsUnspecified() && p.to.Addr().IsLoopback())
	if !reached || errno != 0 {
		d.table.put(cookie, e)
	}
	if errno == 0 && !c.socket.nonblocking {
		// A socket that waited for its connection knows that it is made; this one has to be told.
		_ = connect(p.fd, sockaddr(c.socket.domain, p.to))
	}
	res := Result{Install: p.fd, CloseOnExec: c.Pid == 0 || closeOnExec(c.Pid, c.FD)}
	_, _ = unix.FcntlInt(uintptr(p.fd), unix.F_SETFL, c.socket.flags)
	if c.socket.nonblocking {
		res.Errno = int(unix.EINPROGRESS)
		d.observe(c, true, 0, false)
		return res
	}
	if errno == 0 {
		d.observe(c, true, 0, false)
		return res
	}
	// The program waits with its own socket, which is empty; the substitute takes its place later.
	return later(func() Result {
		s := c.socket
		s.fd, s.cookie = p.fd, cookie
		err, gone := d.finish(c, s, e)
		if gone || !connectedErrno(err) {
			closeAll(p.fd)
			return answer(err)
		}
		d.observe(c, true, 0, false)
		res.Errno = int(err)
		return res
	})
}
