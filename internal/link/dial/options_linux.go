package dial

import (
	"slices"
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
// SO_REUSEADDR and SO_REUSEPORT come first: they count when it is bound. Left out on purpose are
// what only listeners use, fast open (data in the SYN has no meaning through a relay), and incoming CPU, which
// the kernel sets by itself.
func options(typ int) []option {
	if typ == unix.SOCK_STREAM {
		return slices.Concat(socketOptions(), tcpOptions(), ipOptions())
	}
	return slices.Concat(socketOptions(), ipOptions(), datagramOptions())
}

// numbers are options of one level whose values are numbers.
func numbers(level int, names ...int) []option {
	all := make([]option, len(names))
	for i, name := range names {
		all[i] = option{level, name, number}
	}
	return all
}

// socketOptions has SO_BINDTOIFINDEX, which is SO_BINDTODEVICE by a number that is the same for every
// namespace's loopback device. SO_BUF_LOCK comes after the sizes that it is about.
func socketOptions() []option {
	return append(numbers(unix.SOL_SOCKET,
		unix.SO_REUSEADDR, unix.SO_REUSEPORT, unix.SO_BINDTOIFINDEX, unix.SO_DEBUG, unix.SO_KEEPALIVE,
		unix.SO_DONTROUTE, unix.SO_OOBINLINE, unix.SO_PRIORITY, unix.SO_MARK, unix.SO_RCVLOWAT,
		unix.SO_TIMESTAMP_OLD, unix.SO_TIMESTAMPNS_OLD, unix.SO_TIMESTAMPING_OLD, unix.SO_TIMESTAMP_NEW,
		unix.SO_TIMESTAMPNS_NEW, unix.SO_TIMESTAMPING_NEW, unix.SO_PEEK_OFF, unix.SO_SELECT_ERR_QUEUE,
		unix.SO_BUSY_POLL, unix.SO_PREFER_BUSY_POLL, unix.SO_MAX_PACING_RATE, unix.SO_ZEROCOPY, unix.SO_TXREHASH),
		option{unix.SOL_SOCKET, unix.SO_RCVBUF, doubled},
		option{unix.SOL_SOCKET, unix.SO_SNDBUF, doubled},
		option{unix.SOL_SOCKET, unix.SO_BUF_LOCK, number},
		option{unix.SOL_SOCKET, unix.SO_LINGER, linger},
		option{unix.SOL_SOCKET, unix.SO_RCVTIMEO, timeval},
		option{unix.SOL_SOCKET, unix.SO_SNDTIMEO, timeval},
	)
}

func tcpOptions() []option {
	return append(numbers(unix.IPPROTO_TCP,
		unix.TCP_NODELAY, unix.TCP_CORK, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT, unix.TCP_SYNCNT,
		unix.TCP_LINGER2, unix.TCP_USER_TIMEOUT, unix.TCP_MAXSEG, unix.TCP_WINDOW_CLAMP, unix.TCP_NOTSENT_LOWAT,
		unix.TCP_THIN_LINEAR_TIMEOUTS, unix.TCP_INQ, unix.TCP_TX_DELAY, unix.TCP_RTO_MAX_MS, unix.TCP_RTO_MIN_US,
		unix.TCP_DELACK_MAX_US),
		option{unix.IPPROTO_TCP, unix.TCP_CONGESTION, text},
	)
}

func ipOptions() []option {
	return append(numbers(unix.IPPROTO_IP,
		unix.IP_FREEBIND, unix.IP_TRANSPARENT, unix.IP_BIND_ADDRESS_NO_PORT, unix.IP_LOCAL_PORT_RANGE,
		unix.IP_TOS, unix.IP_TTL, unix.IP_MINTTL, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, unix.IP_RECVTOS),
		numbers(unix.IPPROTO_IPV6,
			unix.IPV6_FREEBIND, unix.IPV6_TRANSPARENT, unix.IPV6_V6ONLY, unix.IPV6_ADDR_PREFERENCES,
			unix.IPV6_TCLASS, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT, unix.IPV6_MTU_DISCOVER, unix.IPV6_DONTFRAG,
			unix.IPV6_AUTOFLOWLABEL, unix.IPV6_RECVERR)...)
}

// datagramOptions are of use on datagrams only, mostly what comes along with each. Streams have them too, and
// lose them.
func datagramOptions() []option {
	return slices.Concat(
		numbers(unix.SOL_SOCKET, unix.SO_BROADCAST, unix.SO_NO_CHECK, unix.SO_RXQ_OVFL, unix.SO_WIFI_STATUS, unix.SO_NOFCS,
			unix.SO_RCVMARK, unix.SO_RCVPRIORITY),
		numbers(unix.IPPROTO_UDP,
			unix.UDP_CORK, unix.UDP_SEGMENT, unix.UDP_GRO, unix.UDP_NO_CHECK6_TX, unix.UDP_NO_CHECK6_RX),
		numbers(unix.IPPROTO_IP,
			unix.IP_RECVERR_RFC4884, unix.IP_RECVTTL, unix.IP_RECVOPTS, unix.IP_RETOPTS, unix.IP_PKTINFO,
			unix.IP_RECVORIGDSTADDR, unix.IP_RECVFRAGSIZE, unix.IP_PASSSEC, unix.IP_CHECKSUM, unix.IP_MULTICAST_TTL,
			unix.IP_MULTICAST_LOOP, unix.IP_MULTICAST_ALL),
		numbers(unix.IPPROTO_IPV6,
			unix.IPV6_RECVERR_RFC4884, unix.IPV6_RECVPKTINFO, unix.IPV6_RECVHOPLIMIT, unix.IPV6_RECVHOPOPTS,
			unix.IPV6_RECVRTHDR, unix.IPV6_RECVDSTOPTS, unix.IPV6_RECVPATHMTU, unix.IPV6_RECVTCLASS,
			unix.IPV6_RECVORIGDSTADDR, unix.IPV6_RECVFRAGSIZE, unix.IPV6_2292PKTINFO, unix.IPV6_2292HOPOPTS,
			unix.IPV6_2292DSTOPTS, unix.IPV6_2292RTHDR, unix.IPV6_2292HOPLIMIT, unix.IPV6_MULTICAST_IF,
			unix.IPV6_MULTICAST_HOPS, unix.IPV6_MULTICAST_LOOP, unix.IPV6_MULTICAST_ALL, unix.IPV6_ROUTER_ALERT_ISOLATE))
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
	all := options(k.typ)
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
	for i, o := range options(k.typ) {
		if !have[i].ok {
			continue
		}
		if want := o.read(from); want.ok && want != have[i] {
			o.copyTo(fd, from)
		}
	}
}
