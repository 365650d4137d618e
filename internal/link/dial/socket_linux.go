package dial

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// facts is what the Dialer knows about a program's socket.
type facts struct {
	fd          int
	domain      int
	typ         int
	cookie      uint64
	netns       uint64
	nonblocking bool
	flags       int
	// local is where it is bound; its port is 0 where it is not.
	local netip.AddrPort
}

func examine(fd int) (facts, error) {
	s := facts{fd: fd, domain: domainOf(fd)}
	if s.domain != unix.AF_INET && s.domain != unix.AF_INET6 {
		return s, nil
	}
	var err error
	if s.typ, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return s, err
	}
	if s.flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil {
		return s, err
	}
	s.nonblocking = s.flags&unix.O_NONBLOCK != 0
	s.cookie = cookieOf(fd)
	s.netns, _ = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if sa, err := unix.Getsockname(fd); err == nil {
		s.local = fromSockaddr(sa)
	}
	return s, nil
}

func (s facts) bound() bool { return s.local.Port() != 0 }

// hopeless reports whether a connect of a stream socket fails whatever there is, as the kernel itself tells best:
// the socket listens, speaks another protocol than TCP, or cannot go to such an address.
func (c *call) hopeless() bool {
	option := func(level, name int) int {
		v, _ := unix.GetsockoptInt(c.Socket, level, name)
		return v
	}
	if proto := option(unix.SOL_SOCKET, unix.SO_PROTOCOL); proto != unix.IPPROTO_TCP && proto != unix.IPPROTO_MPTCP {
		return true
	}
	if option(unix.SOL_SOCKET, unix.SO_ACCEPTCONN) != 0 {
		return true
	}
	if c.addr.Family == familyUnspec {
		return false
	}
	only6 := c.addr.AddrPort.Addr().Is4In6() && option(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY) != 0
	return only6 || c.addr.Family != c.socket.domain
}

func domainOf(fd int) int {
	d, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return -1
	}
	return d
}

// cookieOf returns the number by which the kernel tells sockets apart; it is never used again.
func cookieOf(fd int) uint64 {
	c, _ := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	return c
}

// sockaddr returns an address for a socket of a domain: an IPv4 address is mapped for AF_INET6.
func sockaddr(domain int, ap netip.AddrPort) unix.Sockaddr {
	if domain == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().Unmap().As4()}
}

func fromSockaddr(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

func localOf(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return fromSockaddr(sa)
}

// peerOf returns the address that a socket is connected to, the zero value where it is not.
func peerOf(fd int) netip.AddrPort {
	sa, err := unix.Getpeername(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return fromSockaddr(sa)
}

// connect calls connect once. The runtime's own signals interrupt slow calls; the kernel goes on
// with the connection then, and the repeated call waits for it.
func connect(fd int, sa unix.Sockaddr) unix.Errno {
	for {
		err := errnoOf(unix.Connect(fd, sa))
		if err != unix.EINTR {
			return err
		}
	}
}

// waitFor polls one descriptor and reports whether any of the events, an error or a hang-up came.
func waitFor(fd int, events int16, timeoutMillis int) bool {
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p, timeoutMillis)
		if err == unix.EINTR {
			continue
		}
		return err == nil && n > 0
	}
}

// errnoOf returns the error number in err, EIO for an error that has none.
func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return unix.EIO
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
