package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Network is the network of one service: a namespace with nothing but loopback, held by one thread.
// In ModeShared it is the machine's. It is safe for concurrent use.
type Network struct {
	name   string
	thread *thread
	shared bool
	fd     int
	inode  uint64

	mu   sync.Mutex // guards diag
	diag int
}

// NewNetwork makes a network whose programs may bind any port, with 127.0.0.0/8 and, where the
// machine has it, ::1.
func (in *Inside) NewNetwork(name string) (*Network, error) {
	n := &Network{name: name, fd: -1, diag: -1, shared: in.Mode == ModeShared}
	t, err := startThread(n.setup)
	if err != nil {
		n.closeFiles()
		return nil, fmt.Errorf("launch: network %s: %w", name, err)
	}
	n.thread = t
	return n, nil
}

// setup runs on the network's thread.
func (n *Network) setup() (err error) {
	// Programs forked by this thread start without the supervisor's capabilities.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	if !n.shared {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("%w: new network namespace: %w", ErrNoNamespaces, err)
		}
		if n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("loopback up: %w", err)
		}
		// Programs bind port 80 as they would as root; the file speaks of the thread's namespace.
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return err
	}
	n.inode = st.Ino
	// Without the diagnosis module Listening reads the tables in /proc.
	n.diag, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		n.diag = -1
	}
	return nil
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return err
	}
	// glibc's getaddrinfo answers no IPv4 address to a caller with AI_ADDRCONFIG where the machine
	// has none but 127.0.0.1: a second one satisfies it.
	if r, err = unix.NewIfreq("lo:1"); err != nil {
		return err
	}
	if err := r.SetInet4Addr([]byte{127, 77, 255, 254}); err != nil {
		return err
	}
	return unix.IoctlIfreq(s, unix.SIOCSIFADDR, r)
}

// Name is what NewNetwork was given.
func (n *Network) Name() string { return n.name }

// Shared reports whether this is the machine's network.
func (n *Network) Shared() bool { return n.shared }

// FD is the namespace's descriptor, for setns in a forked child; -1 where Shared. It stays the
// Network's.
func (n *Network) FD() int { return n.fd }

// Inode identifies the namespace among those of the machine.
func (n *Network) Inode() uint64 { return n.inode }

// Do runs f on the thread that is in the network. Everything else that the Network does waits
// meanwhile, so f does not block.
func (n *Network) Do(f func() error) error { return n.thread.do(f) }

// Socket returns a new socket in the network. It stays there whoever uses it.
func (n *Network) Socket(domain, typ, proto int) (int, error) {
	fd := -1
	err := n.thread.do(func() (err error) {
		fd, err = unix.Socket(domain, typ|unix.SOCK_CLOEXEC, proto)
		return err
	})
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

// Listen is net.Listen in the network; addr has a literal address.
func (n *Network) Listen(network, addr string) (l net.Listener, err error) {
	if err := literal(addr); err != nil {
		return nil, err
	}
	doErr := n.thread.do(func() error {
		l, err = (&net.ListenConfig{}).Listen(context.Background(), network, addr)
		return nil
	})
	if doErr != nil {
		return nil, doErr
	}
	return l, err
}

// ListenPacket is net.ListenPacket in the network; addr has a literal address.
func (n *Network) ListenPacket(network, addr string) (c net.PacketConn, err error) {
	if err := literal(addr); err != nil {
		return nil, err
	}
	doErr := n.thread.do(func() error {
		c, err = (&net.ListenConfig{}).ListenPacket(context.Background(), network, addr)
		return nil
	})
	if doErr != nil {
		return nil, doErr
	}
	return c, err
}

// literal keeps the resolver, which leaves the thread, out of play.
func literal(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if host == "" {
		return nil
	}
	_, err = netip.ParseAddr(host)
	return err
}

// Dial connects to a literal address and port in the network; network is tcp or udp, with 4, 6 or
// nothing after it.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	typ := unix.SOCK_STREAM
	if strings.HasPrefix(network, "udp") {
		typ = unix.SOCK_DGRAM
	} else if !strings.HasPrefix(network, "tcp") {
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.UnknownNetworkError(network)}
	}
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	conn, err := n.dial(ctx, typ, to)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return conn, nil
}

func (n *Network) dial(ctx context.Context, typ int, to netip.AddrPort) (net.Conn, error) {
	domain := unix.AF_INET
	if to.Addr().Is6() && !to.Addr().Is4In6() {
		domain = unix.AF_INET6
	}
	fd, err := n.Socket(domain, typ|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// NewFile finds the descriptor non-blocking and puts it into the poller.
	f := os.NewFile(uintptr(fd), "dial")
	defer f.Close()
	if err := connect(ctx, f, fd, sockaddr(to)); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// connect waits in the poller, not in the network's thread.
func connect(ctx context.Context, f *os.File, fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EINPROGRESS) {
		return os.NewSyscallError("connect", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(past()) })
	defer stop()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	soError := 0
	var optErr error
	err = raw.Write(func(uintptr) bool {
		soError, optErr = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if optErr != nil || soError != 0 {
			return true
		}
		_, peerErr := unix.Getpeername(fd)
		return peerErr == nil
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return ctx.Err()
	case err != nil:
		return err
	case optErr != nil:
		return os.NewSyscallError("getsockopt", optErr)
	case soError != 0:
		return os.NewSyscallError("connect", unix.Errno(soError))
	}
	return nil
}

// Close lets go of the network. The namespace lives on while processes or sockets are in it.
func (n *Network) Close() error {
	n.thread.close()
	n.closeFiles()
	return nil
}

func (n *Network) closeFiles() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, fd := range []*int{&n.fd, &n.diag} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}
