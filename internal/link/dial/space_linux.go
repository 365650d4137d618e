package dial

import (
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// acceptMillis is how long a connection to our own listener may take to come out of it. The kernel
// hands it over within the connect; the bound only keeps a broken machine from stopping us.
const acceptMillis = 2000

// space is a network namespace with what the Dialer keeps open in it.
type space struct {
	service string
	ns      Namespace
	cookie  uint64
	// defaults has a lock of its own.
	defaults defaults

	mu     sync.Mutex
	relays map[bool]*relayListener // by: it is IPv6
	closed map[bool]int            // bound sockets that do not listen
	// datagrams are the UDP addresses that the Dialer holds: fronts, and nil for servers' ends.
	datagrams map[netip.AddrPort]*front
}

func newSpace(service string, ns Namespace) (*space, error) {
	fd, err := ns.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("dial: namespace of %s: %w", service, err)
	}
	defer closeAll(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return nil, fmt.Errorf("dial: namespace of %s: cookie: %w", service, err)
	}
	return &space{service: service, ns: ns, cookie: cookie,
		relays: make(map[bool]*relayListener), closed: make(map[bool]int), datagrams: make(map[netip.AddrPort]*front)}, nil
}

func (sp *space) close() {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, r := range sp.relays {
		closeAll(r.fd)
	}
	for _, fd := range sp.closed {
		closeAll(fd)
	}
	clear(sp.relays)
	clear(sp.closed)
}

// closeFronts ends the datagram flows of the namespace's programs.
func (sp *space) closeFronts() {
	sp.mu.Lock()
	var fronts []*front
	for _, f := range sp.datagrams {
		if f != nil {
			fronts = append(fronts, f)
		}
	}
	sp.mu.Unlock()
	for _, f := range fronts {
		f.close()
	}
}

// bind makes a stream socket at an address of the namespace; port 0 takes a free one.
func (sp *space) bind(at netip.AddrPort) (int, error) {
	domain := unix.AF_INET
	if at.Addr().Is6() {
		domain = unix.AF_INET6
	}
	fd, err := sp.ns.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, sockaddr(domain, at)); err != nil {
		closeAll(fd)
		return -1, err
	}
	return fd, nil
}

func loopback(v6 bool) netip.Addr {
	if v6 {
		return loopback6()
	}
	return loopback4()
}

// closedPort returns an address of the namespace where nobody listens and nobody else ever will.
func (sp *space) closedPort(v6 bool) (netip.AddrPort, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	fd, ok := sp.closed[v6]
	if !ok {
		var err error
		if fd, err = sp.bind(netip.AddrPortFrom(loopback(v6), 0)); err != nil {
			return netip.AddrPort{}, err
		}
		sp.closed[v6] = fd
	}
	return localOf(fd), nil
}

// relay returns the namespace's relay listener.
func (sp *space) relay(v6 bool) (*relayListener, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if r := sp.relays[v6]; r != nil {
		return r, nil
	}
	fd, err := sp.bind(netip.AddrPortFrom(loopback(v6), 0))
	if err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, 4096); err != nil {
		closeAll(fd)
		return nil, err
	}
	r := &relayListener{fd: fd, addr: localOf(fd)}
	sp.relays[v6] = r
	return r, nil
}

// owns reports whether a port is one of the Dialer's own listeners.
func (sp *space) owns(port int) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, r := range sp.relays {
		if int(r.addr.Port()) == port {
			return true
		}
	}
	return false
}

// relayListener is where programs of a namespace are connected to.
type relayListener struct {
	fd   int
	addr netip.AddrPort
	// mu makes connecting and accepting one step, so that what comes out is what went in.
	mu sync.Mutex
}

// join connects a program's socket to the listener and returns the other end. The error is the
// program's: 0 and EINPROGRESS mean that it is connected.
func (r *relayListener) join(s facts) (int, unix.Errno) {
	r.mu.Lock()
	defer r.mu.Unlock()
	errno := connect(s.fd, sockaddr(s.domain, r.addr))
	if errno != 0 && errno != unix.EINPROGRESS {
		return -1, errno
	}
	fd, err := acceptFrom(r.fd, localOf(s.fd).Port())
	if err != nil {
		return -1, unix.ECONNABORTED
	}
	return fd, errno
}

// acceptFrom takes the connection that comes from a port. Others are of nobody who we know.
func acceptFrom(listener int, port uint16) (int, error) {
	for {
		fd, sa, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case err == nil && fromSockaddr(sa).Port() == port:
			return fd, nil
		case err == nil:
			closeAll(fd)
		case err == unix.EAGAIN:
			if !waitFor(listener, unix.POLLIN, acceptMillis) {
				return -1, unix.ETIMEDOUT
			}
		case err != unix.EINTR && err != unix.ECONNABORTED:
			return -1, err
		}
	}
}
