package dial

import (
	"sync"

	"golang.org/x/sys/unix"
)

// shape is how an option's value is read and written.
type shape int

const (
	number shape = iota
	// doubled numbers are reported as twice what was set.
	doubled
	linger
	timeval
	text
)

// option is a socket option that a program may set before it connects.
type option struct {
	level, name int
	shape       shape
}

// options is the table of what a socket that takes another's place must have in common with it.
// SO_REUSEADDR and SO_REUSEPORT come first: they count when it is bound. TCP_FASTOPEN_CONNECT is
// left out on purpose: data in the SYN has no meaning through a relay.
func options() []option {
	return []option{
		{unix.SOL_SOCKET, unix.SO_REUSEADDR, number},
		{unix.SOL_SOCKET, unix.SO_REUSEPORT, number},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, number},
		{unix.SOL_SOCKET, unix.SO_DONTROUTE, number},
		{unix.SOL_SOCKET, unix.SO_OOBINLINE, number},
		{unix.SOL_SOCKET, unix.SO_PRIORITY, number},
		{unix.SOL_SOCKET, unix.SO_MARK, number},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, doubled},
		{unix.SOL_SOCKET, unix.SO_SNDBUF, doubled},
		{unix.SOL_SOCKET, unix.SO_RCVLOWAT, number},
		{unix.SOL_SOCKET, unix.SO_LINGER, linger},
		{unix.SOL_SOCKET, unix.SO_RCVTIMEO, timeval},
		{unix.SOL_SOCKET, unix.SO_SNDTIMEO, timeval},
		{unix.SOL_SOCKET, unix.SO_ZEROCOPY, number},
		{unix.SOL_SOCKET, unix.SO_BUSY_POLL, number},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, number},
		{unix.IPPROTO_TCP, unix.TCP_CORK, number},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, number},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, number},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, number},
		{unix.IPPROTO_TCP, unix.TCP_SYNCNT, number},
		{unix.IPPROTO_TCP, unix.TCP_LINGER2, number},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, number},
		{unix.IPPROTO_TCP, unix.TCP_MAXSEG, number},
		{unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, number},
		{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, number},
		{unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, number},
		{unix.IPPROTO_TCP, unix.TCP_INQ, number},
		{unix.IPPROTO_TCP, unix.TCP_CONGESTION, text},
		{unix.IPPROTO_IP, unix.IP_TOS, number},
		{unix.IPPROTO_IP, unix.IP_TTL, number},
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, number},
		{unix.IPPROTO_IP, unix.IP_RECVERR, number},
		{unix.IPPROTO_IP, unix.IP_RECVTOS, number},
		{unix.IPPROTO_IP, unix.IP_FREEBIND, number},
		{unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, number},
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, number},
		{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, number},
		{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, number},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, number},
	}
}

// value is an option's value; ok is false where the socket has no such option.
type value struct {
	a, b int64
	text string
	ok   bool
}

func (o option) read(fd int) value {
	switch o.shape {
	case linger:
		l, err := unix.GetsockoptLinger(fd, o.level, o.name)
		if err != nil {
			return value{}
		}
		return value{a: int64(l.Onoff), b: int64(l.Linger), ok: true}
	case timeval:
		tv, err := unix.GetsockoptTimeval(fd, o.level, o.name)
		if err != nil {
			return value{}
		}
		return value{a: tv.Nano(), ok: true}
	case text:
		s, err := unix.GetsockoptString(fd, o.level, o.name)
		return value{text: s, ok: err == nil}
	default:
		v, err := unix.GetsockoptInt(fd, o.level, o.name)
		return value{a: int64(v), ok: err == nil}
	}
}

// copyTo gives fd the value that from has. An option that fd refuses is one that it cannot have.
func (o option) copyTo(fd, from int) {
	switch o.shape {
	case linger:
		if l, err := unix.GetsockoptLinger(from, o.level, o.name); err == nil {
			_ = unix.SetsockoptLinger(fd, o.level, o.name, l)
		}
	case timeval:
		if tv, err := unix.GetsockoptTimeval(from, o.level, o.name); err == nil {
			_ = unix.SetsockoptTimeval(fd, o.level, o.name, tv)
		}
	case text:
		if s, err := unix.GetsockoptString(from, o.level, o.name); err == nil {
			_ = unix.SetsockoptString(fd, o.level, o.name, s)
		}
	default:
		v, err := unix.GetsockoptInt(from, o.level, o.name)
		if err != nil {
			return
		}
		if o.shape == doubled {
			v /= 2
		}
		_ = unix.SetsockoptInt(fd, o.level, o.name, v)
	}
}

// kind is a domain and a type of socket.
type kind struct{ domain, typ int }

// defaults are what fresh sockets of a namespace have, read once for each kind. The sysctls behind
// them are not expected to change while a leaf runs.
type defaults struct {
	mu sync.Mutex
	of map[kind][]value
}

func (d *defaults) get(k kind, fresh int) []value {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := d.of[k]; ok {
		return v
	}
	all := options()
	v := make([]value, len(all))
	for i, o := range all {
		v[i] = o.read(fresh)
	}
	if d.of == nil {
		d.of = make(map[kind][]value)
	}
	d.of[k] = v
	return v
}

// copyOptions gives fd, a fresh socket, what the program has set on from. Only what differs is
// set: setting a buffer's size at all, for one, turns its automatic tuning off.
func copyOptions(d *defaults, k kind, fd, from int) {
	have := d.get(k, fd)
	for i, o := range options() {
		if !have[i].ok {
			continue
		}
		if want := o.read(from); want.ok && want != have[i] {
			o.copyTo(fd, from)
		}
	}
}
