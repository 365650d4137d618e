package dial

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// Config is what a Dialer works with.
type Config struct {
	// Services are all services, in the order that gives them their addresses.
	Services []*spec.Service
	// Namespaces has an entry for each service, and one for each other client.
	Namespaces map[string]Namespace
	Links      Links
	// Touched reports whether anything that the leaf subscribed to can act on such connections. All
	// others are direct.
	Touched func(client, server, iface string) bool
	Clock   vtime.Clock
	// Observe is told of each connect once it is decided; from any goroutine, and it must not wait.
	Observe func(Attempt)
}

// Dialer carries out what programs' connects lead to.
type Dialer struct {
	cfg      Config
	resolver *Resolver
	addrs    map[string]netip.Addr
	spaces   map[string]*space
	byNetns  map[uint64]*space
	table    table

	closed  atomic.Bool
	quit    chan struct{}
	holding sync.WaitGroup
}

// New returns a Dialer.
func New(cfg Config) (*Dialer, error) {
	d := &Dialer{
		cfg:      cfg,
		resolver: NewResolver(cfg.Services),
		addrs:    make(map[string]netip.Addr),
		spaces:   make(map[string]*space),
		byNetns:  make(map[uint64]*space),
		quit:     make(chan struct{}),
	}
	for i, s := range cfg.Services {
		d.addrs[s.Name] = ServiceAddr(i + 1)
		if cfg.Namespaces[s.Name] == nil {
			return nil, fmt.Errorf("dial: service %s has no namespace", s.Name)
		}
	}
	for name, ns := range cfg.Namespaces {
		sp, err := newSpace(name, ns)
		if err != nil {
			return nil, err
		}
		d.spaces[name], d.byNetns[sp.cookie] = sp, sp
	}
	return d, nil
}

// Close gives up what is held: those connects stay unanswered in their programs, which are
// expected to be gone. Connections in the relay are the relay's.
func (d *Dialer) Close() error {
	if d.closed.Swap(true) {
		return errors.New("dial: closed already")
	}
	close(d.quit)
	for _, sp := range d.spaces {
		sp.closeFronts()
	}
	d.holding.Wait()
	for _, sp := range d.spaces {
		sp.close()
	}
	return nil
}

// Request is a program's connect.
type Request struct {
	// Client is the calling service.
	Client string
	// Socket is a duplicate of the program's socket. The Dialer closes it.
	Socket int
	// Addr is the struct sockaddr from the program's memory.
	Addr []byte
	// Pid and FD are the calling thread and its descriptor's number, for what only procfs tells.
	// Where Pid is 0 the descriptor counts as close-on-exec, the only one of its socket, and in no epoll set.
	Pid, FD int
	// Alive reports whether the program still waits for the answer; nil means always. It is asked
	// from Result.Later only.
	Alive func() bool
}

func (r Request) alive() bool { return r.Alive == nil || r.Alive() }

// Result is the answer to a connect.
type Result struct {
	// Native lets the kernel execute the call; nothing else is set.
	Native bool
	// Errno is what the call fails with; 0 lets it succeed.
	Errno int
	// Install is a descriptor to put in the place of the program's before the call is answered with
	// Errno, or -1. It is the caller's to close. CloseOnExec is the flag of the program's descriptor.
	Install     int
	CloseOnExec bool
	// Later is set where the program has to wait: the rest of the Result counts for nothing, and
	// the answer is what Later returns. It blocks, so it is called from a goroutine of its own.
	Later func() Result
}

func native() Result                   { return Result{Native: true, Install: -1} }
func answer(errno unix.Errno) Result   { return Result{Errno: int(errno), Install: -1} }
func later(f func() Result) Result     { return Result{Install: -1, Later: f} }
func pendingErrno(e unix.Errno) bool   { return e == unix.EINPROGRESS || e == unix.EALREADY }
func connectedErrno(e unix.Errno) bool { return e == 0 || e == unix.EINPROGRESS }

// call is a connect that is being worked on.
type call struct {
	Request
	socket facts
	// own is the client's namespace, home the one that its socket is of: a socket that was put in the
	// place of the program's own is of the server's.
	own, home *space
	addr      Addr
	route     Route
	flow      link.Flow
}

// Connect decides a connect and carries it out. It waits for no program and for no rule.
func (d *Dialer) Connect(req Request) Result {
	c := &call{Request: req, own: d.spaces[req.Client]}
	res := d.decide(c)
	if res.Later == nil {
		closeAll(req.Socket)
		return res
	}
	wait := res.Later
	res.Later = func() Result {
		defer closeAll(req.Socket)
		return wait()
	}
	return res
}

func (d *Dialer) decide(c *call) Result {
	var err error
	if c.addr, err = ParseAddr(c.Addr); err != nil {
		return native()
	}
	if c.socket, err = examine(c.Socket); err != nil {
		return native()
	}
	if c.own == nil || !c.socket.internet() {
		return native()
	}
	if c.home = d.homeOf(c); c.home == nil {
		return answer(unix.ENETUNREACH)
	}
	switch {
	case c.socket.typ == unix.SOCK_STREAM:
		return d.stream(c)
	case c.udp():
		return d.datagram(c)
	}
	return native()
}

// homeOf returns the namespace that a program's socket is of, nil for one that is none of ours. Where
// all services share the machine's network it is always the client's.
func (d *Dialer) homeOf(c *call) *space {
	if c.own.cookie == c.socket.netns {
		return c.own
	}
	return d.byNetns[c.socket.netns]
}

func (d *Dialer) stream(c *call) Result {
	if c.hopeless() {
		return native()
	}
	if c.addr.Family != familyUnspec {
		if res, ok := d.again(c); ok {
			return res
		}
	}
	c.route = d.resolver.Resolve(c.Client, c.addr, false, func(port int) bool {
		v4, v6 := c.own.ns.Listening(port)
		return (v4 || v6) && !c.own.owns(port)
	})
	switch c.route.Action {
	case Link:
		c.flow = d.cfg.Links.Open(c.Client, c.route.Server, c.route.Interface)
		if !d.cfg.Touched(c.Client, c.route.Server, c.route.Interface) {
			if res, ok := d.direct(c, d.spaces[c.route.Server], d.candidates(c)); ok {
				return res
			}
		}
		return d.mediate(c)
	case Refuse:
		d.observe(c, false, unix.Errno(c.route.Errno), true)
		return d.refuse(c, unix.Errno(c.route.Errno))
	case Forget:
		d.table.drop(c.socket.cookie)
		return native()
	}
	if c.home != c.own {
		// Its socket is not in the program's own network any more, so the kernel would look elsewhere.
		if res, ok := d.direct(c, c.own, []netip.AddrPort{c.asked()}); ok {
			return res
		}
		return answer(unix.EADDRINUSE)
	}
	return native()
}

// again answers a connect on a socket that has one behind it, as the kernel would.
func (d *Dialer) again(c *call) (Result, bool) {
	e, known := d.table.get(c.socket.cookie)
	to := e.actual
	if !known {
		if to = peerOf(c.Socket); !to.IsValid() {
			return Result{}, false
		}
	}
	if !c.socket.nonblocking && !waitFor(c.Socket, unix.POLLOUT, 0) {
		return later(func() Result { return d.await(c) }), true
	}
	return answer(d.repeat(c.socket, e, to)), true
}

// repeat calls connect on the duplicate once more, which returns what became of the first one.
func (d *Dialer) repeat(s facts, e entry, to netip.AddrPort) unix.Errno {
	errno := e.translate(connect(s.fd, sockaddr(s.domain, to)))
	if errno != 0 && errno != unix.EISCONN && !pendingErrno(errno) {
		d.table.drop(s.cookie)
	}
	return errno
}

func (d *Dialer) observe(c *call, direct bool, errno unix.Errno, refused bool) {
	a := Attempt{Flow: c.flow, Address: c.addr.AddrPort, Direct: direct, Errno: int(errno)}
	a.Datagram = c.socket.typ == unix.SOCK_DGRAM
	if refused {
		a.Flow.Client, a.Code = c.Client, c.route.Code
	}
	d.report(a)
}

func (d *Dialer) report(a Attempt) {
	if d.cfg.Observe != nil {
		d.cfg.Observe(a)
	}
}

// refuse lets a connect fail. A refusal happens for real, so that it reaches the program in the
// order in which it would: a non-blocking socket is told by an event.
func (d *Dialer) refuse(c *call, errno unix.Errno) Result {
	if errno != unix.ECONNREFUSED {
		return answer(errno)
	}
	to, err := c.home.closedPort(c.v6())
	if err != nil {
		return answer(errno)
	}
	got := connect(c.Socket, sockaddr(c.socket.domain, to))
	if got == 0 {
		return answer(errno)
	}
	if got == unix.EINPROGRESS {
		d.table.put(c.socket.cookie, entry{flow: c.flow, asked: c.addr.AddrPort, actual: to})
	}
	return answer(got)
}

// asked is the program's address, with a mapped IPv4 address as what it is.
func (c *call) asked() netip.AddrPort {
	return netip.AddrPortFrom(c.addr.AddrPort.Addr().Unmap(), c.addr.AddrPort.Port())
}

// v6 reports whether the program asked for an address that is IPv6 in earnest.
func (c *call) v6() bool { return !c.addr.AddrPort.Addr().Unmap().Is4() }
