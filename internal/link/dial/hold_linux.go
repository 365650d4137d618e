package dial

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
)

const (
	// goneEvery is how often a hold looks whether its program has given up.
	goneEvery = time.Second
	// sliceMillis is how often a wait for the kernel looks whether anybody still waits for it.
	sliceMillis = 50
	// captureMillis bounds the wait for a SYN, which the kernel sends within the connect.
	captureMillis = 2000
)

// hold is a connection whose SYN is kept back.
type hold struct {
	d *Dialer
	c *call
	p *approach
	// listener drops what reaches it; raw sees the SYN and lets it in again.
	listener, raw int
	addr          netip.AddrPort
	syn           []byte
	v6            bool
	began         time.Duration
}

// hold starts a held connect.
func (d *Dialer) hold(c *call, p *approach, o link.Opening) Result {
	h := &hold{d: d, c: c, p: p, listener: -1, raw: -1, v6: c.v6(), began: d.cfg.Clock.Now()}
	fail := func(errno unix.Errno) Result {
		h.close()
		d.table.drop(c.socket.cookie)
		d.observe(c, false, errno, false)
		return answer(errno)
	}
	if err := h.open(); err != nil {
		if errnoOf(err) == unix.EPERM && o.Verb != link.Silent && o.Verb != link.TimeOut {
			h.close()
			return later(func() Result { return d.inside(c, o) })
		}
		return fail(errnoOf(err))
	}
	e := d.mediatedEntry(c, p, h.addr)
	d.table.put(c.socket.cookie, e)
	if errno := h.begin(); errno != unix.EINPROGRESS {
		return fail(errno)
	}
	if err := h.capture(); err != nil {
		return fail(errnoOf(err))
	}
	d.holding.Add(1)
	go h.run(o)
	if c.socket.nonblocking {
		return answer(unix.EINPROGRESS)
	}
	return later(func() Result { return d.await(c) })
}

// open makes the listener and the raw socket.
func (h *hold) open() error {
	var err error
	ns := h.c.home
	if h.listener, err = ns.bind(netip.AddrPortFrom(loopback(h.v6), 0)); err != nil {
		return err
	}
	h.addr = localOf(h.listener)
	if err = attachFilter(h.listener, dropAll()); err != nil {
		return err
	}
	if err = unix.Listen(h.listener, 1); err != nil {
		return err
	}
	domain := unix.AF_INET
	if h.v6 {
		domain = unix.AF_INET6
	}
	h.raw, err = ns.ns.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	if h.v6 {
		// The kernel computes the checksum, at its place in a TCP header.
		if err = unix.SetsockoptInt(h.raw, unix.IPPROTO_IPV6, unix.IPV6_CHECKSUM, 16); err != nil {
			return err
		}
		if err = unix.Bind(h.raw, sockaddr(domain, netip.AddrPortFrom(loopback6(), 0))); err != nil {
			return err
		}
	} else if err = unix.SetsockoptInt(h.raw, unix.IPPROTO_IP, unix.IP_HDRINCL, 1); err != nil {
		return err
	}
	return attachFilter(h.raw, synTo(h.addr.Port(), h.v6))
}

// begin sends the program's socket off. A blocking one comes back at once because its time limit for
// sending, which counts for connecting too, is short for that moment; its O_NONBLOCK flag is
// shared with the program and stays as it is.
func (h *hold) begin() unix.Errno {
	s := h.c.socket
	if !s.nonblocking {
		tv, err := unix.GetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
		if err != nil {
			return errnoOf(err)
		}
		short := unix.Timeval{Usec: 1}
		if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &short); err != nil {
			return errnoOf(err)
		}
		defer func() { _ = unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, tv) }()
	}
	// Not repeated when interrupted: it is under way then.
	errno := errnoOf(unix.Connect(s.fd, sockaddr(s.domain, h.addr)))
	if errno == unix.EINTR {
		return unix.EINPROGRESS
	}
	return errno
}

// capture takes the SYN from the raw socket.
func (h *hold) capture() error {
	buf := make([]byte, 512)
	for {
		n, _, err := unix.Recvfrom(h.raw, buf, 0)
		switch err {
		case nil:
			segment := buf[:n]
			if !h.v6 {
				segment = tcpOf4(segment)
			}
			if len(segment) < ipv4HeaderLen {
				continue
			}
			from, to := ports(segment)
			if to == h.addr.Port() && from == localOf(h.c.Socket).Port() {
				h.syn = append([]byte(nil), buf[:n]...)
				h.p.settle(localOf(h.c.Socket))
				return nil
			}
		case unix.EAGAIN:
			if !waitFor(h.raw, unix.POLLIN, captureMillis) {
				return unix.ETIMEDOUT
			}
		case unix.EINTR:
		default:
			return err
		}
	}
}

// inject lets the SYN in again.
func (h *hold) inject() {
	if h.v6 {
		_ = unix.Sendto(h.raw, h.syn, 0, sockaddr(unix.AF_INET6, netip.AddrPortFrom(loopback6(), 0)))
		return
	}
	complete4(h.syn)
	h.send4(h.syn)
}

func (h *hold) send4(packet []byte) {
	to := netip.AddrFrom4([4]byte(packet[16:20]))
	_ = unix.Sendto(h.raw, packet, 0, sockaddr(unix.AF_INET, netip.AddrPortFrom(to, 0)))
}

// run waits for what the rules decide.
func (h *hold) run(o link.Opening) {
	defer h.d.holding.Done()
	defer h.close()
	for {
		left := goneEvery
		if o.Verb != link.Silent {
			left = o.Delay - (h.d.cfg.Clock.Now() - h.began)
		}
		if left <= 0 {
			break
		}
		switch h.sleep(min(left, goneEvery), o.Changed) {
		case ended:
			h.forget()
			return
		case ruled:
			silent := o.Verb == link.Silent
			if o = h.d.cfg.Links.Opening(h.c.flow); silent && o.Verb != link.Silent {
				// What was lost on the way is sent again from here on.
				h.began = h.d.cfg.Clock.Now()
			}
		}
	}
	switch o.Verb {
	case link.Admit:
		h.pass()
	case link.Refuse:
		h.reject(unix.ECONNREFUSED)
	case link.TimeOut:
		h.expire()
	}
}

// woken says why a wait is over.
type woken int

const (
	elapsed woken = iota
	ruled
	ended
)

func (h *hold) sleep(t time.Duration, changed <-chan struct{}) woken {
	timer, stop := h.d.cfg.Clock.After(t)
	defer stop()
	select {
	case <-timer:
		if t == goneEvery && h.gone() {
			return ended
		}
		return elapsed
	case <-changed:
		return ruled
	case <-h.d.quit:
		return ended
	}
}

// gone reports whether the program has closed its socket: then the port is free again.
func (h *hold) gone() bool {
	fd, err := h.c.home.bind(h.p.from)
	closeAll(fd)
	return err == nil
}

// forget takes out what is known about a socket that the program has closed.
func (h *hold) forget() { h.d.table.dropFlow(h.c.socket.cookie, h.c.flow) }

// pass calls the server and lets the SYN in when it has answered.
func (h *hold) pass() {
	if h.gone() {
		h.forget()
		return
	}
	errno := unix.EINPROGRESS
	if !h.p.to.IsValid() {
		errno = h.p.reach()
	}
	for errno == unix.EINPROGRESS {
		if waitFor(h.p.fd, unix.POLLOUT, sliceMillis) {
			errno = socketError(h.p.fd)
		} else if h.d.closed.Load() || h.gone() {
			h.forget()
			return
		}
	}
	if errno != 0 {
		h.reject(errno)
		return
	}
	if port := localOf(h.p.fd).Port(); port != h.p.from.Port() {
		h.d.table.change(h.c.socket.cookie, func(e *entry) { e.local = netip.AddrPortFrom(h.p.from.Addr(), port) })
	}
	if err := unix.SetsockoptInt(h.listener, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil {
		h.reject(unix.ECONNABORTED)
		return
	}
	h.inject()
	fd, err := acceptFrom(h.listener, h.p.from.Port())
	if err != nil {
		h.forget()
		return
	}
	server := h.p.fd
	h.p.fd = -1
	h.d.relay(h.c, fd, server)
}

// reject makes the kernel answer the SYN with RST: nobody listens any more.
func (h *hold) reject(errno unix.Errno) {
	closeAll(h.listener)
	h.listener = -1
	h.d.table.change(h.c.socket.cookie, func(e *entry) { e.kept = false })
	h.inject()
	h.d.observe(h.c, false, errno, false)
}

// expire ends the connect with an ICMP error, which stands for a time-out.
func (h *hold) expire() {
	h.d.table.change(h.c.socket.cookie, func(e *entry) { e.kept, e.unreachable = false, unix.ETIMEDOUT })
	h.d.observe(h.c, false, unix.ETIMEDOUT, false)
	if !h.v6 {
		h.send4(unreachable4(h.syn, icmpHost))
		return
	}
	h.c.home.unreachable6(loopback6(), unreachable6(loopback6(), loopback6(), protoTCP, icmp6Host, h.syn))
}

func (h *hold) close() {
	closeAll(h.listener, h.raw, h.p.fd)
	h.listener, h.raw, h.p.fd = -1, -1, -1
}

// inside delays a connect in the call itself. That is all that can be done in a network that is not
// ours; a program that connects from an event loop stands still meanwhile.
func (d *Dialer) inside(c *call, o link.Opening) Result {
	h := &hold{d: d, c: c, began: d.cfg.Clock.Now()}
	for {
		left := o.Delay - (d.cfg.Clock.Now() - h.began)
		if left <= 0 {
			break
		}
		switch h.sleep(min(left, sliceMillis*time.Millisecond), o.Changed) {
		case ended:
			return answer(unix.EINTR)
		case ruled:
			o = d.cfg.Links.Opening(c.flow)
		}
		if !c.alive() {
			return answer(unix.EINTR)
		}
	}
	errno := unix.ECONNREFUSED
	if o.Verb == link.Admit {
		p, err := d.origin(c)
		if err != nil {
			return answer(errnoOf(err))
		}
		if errno = p.reach(); errno == 0 {
			return d.join(c, p)
		}
		closeAll(p.fd)
		if errno == unix.EINPROGRESS {
			errno = unix.ETIMEDOUT
		}
	}
	d.observe(c, false, errno, false)
	return d.refuse(c, errno)
}

// await waits for a blocking socket's connection.
func (d *Dialer) await(c *call) Result {
	e, ok := d.table.get(c.socket.cookie)
	if !ok {
		e.actual = peerOf(c.Socket)
	}
	errno, _ := d.finish(c, c.socket, e)
	return answer(errno)
}

// finish waits until a connection is decided, for as long as the program's time limit allows. It
// returns true where nobody waits for it any more.
func (d *Dialer) finish(c *call, s facts, e entry) (unix.Errno, bool) {
	tv, err := unix.GetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
	if err != nil {
		return errnoOf(err), true
	}
	limit, began := time.Duration(tv.Nano()), d.cfg.Clock.Now()
	for {
		wait := sliceMillis
		if limit > 0 {
			left := limit - (d.cfg.Clock.Now() - began)
			if left <= 0 {
				return unix.EINPROGRESS, false
			}
			wait = min(wait, int(left/time.Millisecond)+1)
		}
		if waitFor(s.fd, unix.POLLOUT, wait) {
			break
		}
		if d.closed.Load() || !c.alive() {
			return unix.EINTR, true
		}
	}
	if now, ok := d.table.get(s.cookie); ok {
		e = now
	}
	return d.repeat(s, e, e.actual), false
}
