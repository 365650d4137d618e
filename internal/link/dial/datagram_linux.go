package dial

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Datagram is a program's sending to an address.
type Datagram struct {
	// Client is the calling service.
	Client string
	// Socket is a duplicate of the program's socket. The Dialer closes it.
	Socket int
	// Addr is the struct sockaddr from the program's memory.
	Addr []byte
	// Flags are those of the call.
	Flags int
}

// Send decides about a datagram with an address, and prepares its way: where the Result is Native the
// kernel takes it where it belongs. It waits for nothing.
func (d *Dialer) Send(g Datagram) Result {
	defer closeAll(g.Socket)
	c := &call{Request: Request{Client: g.Client, Socket: g.Socket, Addr: g.Addr}, own: d.spaces[g.Client]}
	if res, decided := d.sender(c, g.Flags); decided {
		return res
	}
	c.route = d.resolver.Resolve(c.Client, c.addr, false, d.ownDatagram(c))
	switch c.route.Action {
	case Link:
		if c.home == d.spaces[c.route.Server] && c.home != c.own {
			return native() // a direct socket, which is there already
		}
		if errno := d.pave(c); errno != 0 {
			return answer(errno)
		}
	case Refuse:
		// What a server answers goes to the relay's socket, or to a direct one, in its own namespace.
		if c.asked().Addr().IsLoopback() && c.home.holds(c.asked()) {
			return native()
		}
		d.observe(c, false, unix.Errno(c.route.Errno), true)
		return answer(unix.Errno(c.route.Errno))
	}
	return native()
}

// sender finds out about the socket and the address of a datagram. It returns true where that decides.
func (d *Dialer) sender(c *call, flags int) (Result, bool) {
	raw := c.Addr
	if len(raw) >= 16 && raw[0] == familyUnspec && raw[1] == 0 {
		// The kernel takes that family for AF_INET here.
		raw = append(binary.NativeEndian.AppendUint16(nil, familyINET), raw[2:]...)
	}
	var err error
	if c.addr, err = ParseAddr(raw); err != nil {
		return native(), true
	}
	if c.socket, err = examine(c.Socket); err != nil || c.own == nil || !c.socket.internet() {
		return native(), true
	}
	if c.socket.typ == unix.SOCK_STREAM && flags&unix.MSG_FASTOPEN != 0 {
		return answer(unix.EOPNOTSUPP), true
	}
	if !c.udp() || c.otherFamily() {
		return native(), true
	}
	if c.home = d.homeOf(c); c.home == nil {
		return answer(unix.ENETUNREACH), true
	}
	return Result{}, false
}

// Bind is asked when a program binds a datagram socket, of which socket is a duplicate that stays the
// caller's. Afterwards the kernel carries the call out. A program that takes a port on all addresses
// would else keep fronts for other services from standing at that port.
func (d *Dialer) Bind(socket int) {
	if s, err := examine(socket); err == nil && s.internet() && s.typ == unix.SOCK_DGRAM {
		_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
}

func (s facts) internet() bool { return s.domain == unix.AF_INET || s.domain == unix.AF_INET6 }

func (c *call) udp() bool {
	if c.socket.typ != unix.SOCK_DGRAM {
		return false
	}
	proto, err := unix.GetsockoptInt(c.Socket, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && proto == unix.IPPROTO_UDP
}

// otherFamily reports whether a datagram socket is given an address that it cannot go to, as the kernel tells.
func (c *call) otherFamily() bool {
	return c.addr.Family == familyINET6 && c.socket.domain == unix.AF_INET
}

func (d *Dialer) ownDatagram(c *call) func(int) bool {
	return func(port int) bool {
		v4, v6 := c.own.ns.Bound(port)
		return v4 || v6
	}
}

// pave makes sure that a front stands where the program sends to.
func (d *Dialer) pave(c *call) unix.Errno {
	at := c.asked()
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(loopback(at.Addr().Is6()), at.Port())
	}
	if _, err := d.front(c.home, c.Client, c.route, at); err != nil {
		d.observe(c, false, errnoOf(err), false)
		return errnoOf(err)
	}
	return 0
}

// datagram decides the connect of a datagram socket, which sends nothing and so never fails for want
// of a server.
func (d *Dialer) datagram(c *call) Result {
	if c.otherFamily() {
		return native()
	}
	c.route = d.resolver.Resolve(c.Client, c.addr, true, d.ownDatagram(c))
	switch c.route.Action {
	case Link:
		if !d.cfg.Touched(c.Client, c.route.Server, c.route.Interface) {
			if res, ok := d.directDatagram(c); ok {
				return res
			}
		}
		if c.home != c.own {
			return d.homecoming(c)
		}
		if errno := d.pave(c); errno != 0 {
			return answer(errno)
		}
	case Refuse:
		d.observe(c, false, unix.Errno(c.route.Errno), true)
		return answer(unix.Errno(c.route.Errno))
	case Native:
		if c.home != c.own {
			return d.homecoming(c)
		}
	}
	d.table.drop(c.socket.cookie)
	return native()
}

// directDatagram lets a socket of the server's namespace take the place of the program's. One that is
// bound stays: others know it by its address.
func (d *Dialer) directDatagram(c *call) (Result, bool) {
	server := d.spaces[c.route.Server]
	v4, v6 := server.ns.Bound(c.route.Port)
	to := netip.AddrPortFrom(loopback4(), uint16(c.route.Port))
	switch {
	case v4:
	case v6 && c.socket.domain == unix.AF_INET6:
		to = netip.AddrPortFrom(loopback6(), to.Port())
	case server.holds(netip.AddrPortFrom(d.addrs[c.route.Server], to.Port())):
		to = netip.AddrPortFrom(d.addrs[c.route.Server], to.Port())
	default:
		return Result{}, false
	}
	if c.socket.bound() && c.home == c.own || !c.substitutable() {
		return Result{}, false
	}
	fd, err := d.replacement(c, server, to)
	if err != nil {
		return Result{}, false
	}
	c.flow = d.cfg.Links.Open(c.Client, c.route.Server, c.route.Interface)
	d.table.put(cookieOf(fd), entry{flow: c.flow, asked: c.addr.AddrPort, actual: to, datagram: true})
	d.report(Attempt{Flow: c.flow, Address: c.addr.AddrPort, Datagram: true, Direct: true})
	return Result{Install: fd, CloseOnExec: c.Pid == 0 || closeOnExec(c.Pid, c.FD)}, true
}

// homecoming replaces a socket that was direct before by one of the program's own namespace.
func (d *Dialer) homecoming(c *call) Result {
	home := c.home
	c.home = c.own
	if c.route.Action == Link {
		if errno := d.pave(c); errno != 0 {
			return answer(errno)
		}
	}
	fd, err := d.replacement(c, c.own, c.asked())
	c.home = home
	if err != nil {
		return answer(errnoOf(err))
	}
	d.table.drop(c.socket.cookie)
	return Result{Install: fd, CloseOnExec: c.Pid == 0 || closeOnExec(c.Pid, c.FD)}
}

// replacement makes a datagram socket like the program's in another namespace, connected.
func (d *Dialer) replacement(c *call, in *space, to netip.AddrPort) (int, error) {
	fd, err := in.ns.Socket(c.socket.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	copyOptions(&in.defaults, kind{c.socket.domain, unix.SOCK_DGRAM}, fd, c.Socket)
	if c.socket.domain == unix.AF_INET6 && to.Addr().Is4() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err := unix.Connect(fd, sockaddr(c.socket.domain, to)); err != nil {
		closeAll(fd)
		return -1, err
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, c.socket.flags)
	return fd, err
}
