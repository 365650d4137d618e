package dial

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/vtime"
)

const insideVariable = "SQUALL_DIAL_TEST_INSIDE"

// TestMain runs the tests again in namespaces of their own, with a user namespace where we are not root.
func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SYS_ADMIN, unix.CAP_NET_BIND_SERVICE}
	}
	cmd.SysProcAttr = attr
	runtime.LockOSThread()
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		fmt.Println("SKIP: these tests need namespaces:", err)
		os.Exit(0)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// testNS is a network namespace held by a thread.
type testNS struct {
	work chan func()
	fd   int
}

func newNS(t testing.TB) *testNS {
	t.Helper()
	n := &testNS{work: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ready <- enterNewNetwork()
		for f := range n.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	n.do(func() { n.fd, _ = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	t.Cleanup(func() {
		unix.Close(n.fd)
		close(n.work)
	})
	return n
}

func enterNewNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

func (n *testNS) do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

func (n *testNS) Socket(domain, typ, proto int) (fd int, err error) {
	n.do(func() { fd, err = unix.Socket(domain, typ|unix.SOCK_CLOEXEC, proto) })
	return fd, err
}

func (n *testNS) Listening(port int) (v4, v6 bool) { return n.inTable("tcp", port) }
func (n *testNS) Bound(port int) (v4, v6 bool)     { return n.inTable("udp", port) }

func (n *testNS) inTable(proto string, port int) (v4, v6 bool) {
	n.do(func() {
		any6 := find(proto+"6", port, strings.Repeat("0", 32))
		v4 = any6 || find(proto, port, "00000000") || find(proto, port, "0100007F")
		v6 = any6 || find(proto+"6", port, strings.Repeat("0", 24)+"01000000")
	})
	return v4, v6
}

// find looks for an unconnected socket in one of the kernel's tables. A socket on [::] is taken for one
// that IPv4 reaches too.
func find(table string, port int, addr string) bool {
	f, err := os.Open("/proc/thread-self/net/" + table)
	if err != nil {
		return false
	}
	defer f.Close()
	state := "0A"
	if strings.HasPrefix(table, "udp") {
		state = "07"
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 3 && fields[1] == fmt.Sprintf("%s:%04X", addr, port) && fields[3] == state {
			return true
		}
	}
	return false
}

// system is api, db and cache, each in its namespace, with a Dialer and real links between them.
type system struct {
	t     testing.TB
	ns    map[string]*testNS
	links *link.Network
	d     *Dialer

	// kept counts connects that programs waited for.
	kept atomic.Int64

	mu       sync.Mutex
	attempts []Attempt
}

// newSystem touches all links where mediated is true, none where it is false.
func newSystem(t testing.TB, mediated bool) *system {
	t.Helper()
	s := &system{t: t, ns: map[string]*testNS{}}
	spaces := map[string]Namespace{}
	for _, svc := range shop() {
		s.ns[svc.Name] = newNS(t)
		spaces[svc.Name] = s.ns[svc.Name]
	}
	clock := vtime.Wall()
	s.links = link.New(link.Config{Seed: 1, Clock: clock, Join: true})
	var err error
	s.d, err = New(Config{
		Services: shop(), Namespaces: spaces, Links: s.links, Clock: clock,
		Touched: func(_, _, _ string) bool { return mediated },
		Observe: func(a Attempt) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.attempts = append(s.attempts, a)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.d.Close(); err != nil {
			t.Error(err)
		}
		s.links.Close()
	})
	return s
}

func (s *system) last() Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.attempts) == 0 {
		return Attempt{}
	}
	return s.attempts[len(s.attempts)-1]
}

func (s *system) install(kind fault.LinkKind, change func(*fault.LinkEffect)) string {
	s.t.Helper()
	id := "test/" + string(kind)
	r := fault.Rule{ID: id, Link: &fault.Link{Pair: fault.Pair{A: "api", B: "db"}, Direction: fault.Both,
		Effect: fault.LinkEffect{Kind: kind}}}
	if change != nil {
		change(&r.Link.Effect)
	}
	if err := s.links.Install(r); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// seen is what a server knows about a connection that it accepted.
type seen struct {
	local, remote netip.AddrPort
	conn          net.Conn
}

func (s *system) listen(service, network, addr string) net.Listener {
	s.t.Helper()
	var l net.Listener
	var err error
	s.ns[service].do(func() {
		l, err = (&net.ListenConfig{}).Listen(s.t.Context(), network, addr)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	return l
}

// serve echoes at an address of a service and reports what it accepts.
func (s *system) serve(service, network, addr string) <-chan seen {
	s.t.Helper()
	l := s.listen(service, network, addr)
	accepted := make(chan seen, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- seen{addrPort(c.LocalAddr()), addrPort(c.RemoteAddr()), c}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return accepted
}

func addrPort(a net.Addr) netip.AddrPort {
	ap := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// program is a socket as a supervised program has it.
type program struct {
	s       *system
	service string
	fd      int
	domain  int
	// pid has a table of descriptors for procfs to tell about, see inspectable.
	pid int
}

func (s *system) program(service string, domain, flags int) *program {
	s.t.Helper()
	fd, err := s.ns[service].Socket(domain, unix.SOCK_STREAM|flags, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &program{s: s, service: service, fd: fd, domain: domain}
	s.t.Cleanup(p.close)
	return p
}

func (p *program) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

func (p *program) dup() int {
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		p.s.t.Fatal(err)
	}
	return fd
}

func (p *program) request(addr string) Request {
	a := Addr{Family: p.domain, AddrPort: netip.MustParseAddrPort(addr)}
	return Request{Client: p.service, Socket: p.dup(), Addr: a.Raw(), Pid: p.pid, FD: p.fd}
}

// inspectable gives the program, as it is now, a table of descriptors of its own: a thread's copy of ours.
// What the harness does afterwards is not in it.
func (p *program) inspectable() {
	p.s.t.Helper()
	tid, done := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the copies with it
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			close(tid)
			return
		}
		tid <- unix.Gettid()
		<-done
	}()
	if p.pid = <-tid; p.pid == 0 {
		p.s.t.Fatal("no table of descriptors of its own")
	}
	p.s.t.Cleanup(func() { close(done) })
}

// connect is the program's system call, as the supervisor answers it.
func (p *program) connect(addr string) unix.Errno {
	return p.apply(addr, p.s.d.Connect(p.request(addr)))
}

func (p *program) apply(addr string, res Result) unix.Errno {
	p.s.t.Helper()
	if res.Later != nil {
		res = res.Later()
	}
	if res.Native {
		return errnoOf(unix.Connect(p.fd, sockaddr(p.domain, netip.MustParseAddrPort(addr))))
	}
	if res.Install >= 0 {
		if err := unix.Dup3(res.Install, p.fd, unix.O_CLOEXEC); err != nil {
			p.s.t.Fatal(err)
		}
		unix.Close(res.Install)
	}
	return unix.Errno(res.Errno)
}

// soError is the program's getsockopt(SO_ERROR).
func (p *program) soError() unix.Errno {
	fd := p.dup()
	defer unix.Close(fd)
	a := p.s.d.SocketError(fd)
	if a.Native {
		return socketError(p.fd)
	}
	return unix.Errno(a.Value)
}

func (p *program) name(ask func(int) Answer, kernel func(int) (unix.Sockaddr, error)) (netip.AddrPort, unix.Errno) {
	p.s.t.Helper()
	fd := p.dup()
	defer unix.Close(fd)
	a := ask(fd)
	if a.Native {
		sa, err := kernel(p.fd)
		return fromSockaddr(sa), errnoOf(err)
	}
	if a.Errno != 0 {
		return netip.AddrPort{}, unix.Errno(a.Errno)
	}
	parsed, err := ParseAddr(a.Addr)
	if err != nil {
		p.s.t.Fatal(err)
	}
	return parsed.AddrPort, 0
}

func (p *program) peerName() (netip.AddrPort, unix.Errno) {
	return p.name(p.s.d.PeerName, unix.Getpeername)
}

func (p *program) sockName() (netip.AddrPort, unix.Errno) {
	return p.name(p.s.d.SocketName, unix.Getsockname)
}

// echo sends and wants the same back.
func (p *program) echo(text string) {
	p.s.t.Helper()
	if _, err := unix.Write(p.fd, []byte(text)); err != nil {
		p.s.t.Fatalf("write: %v", err)
	}
	buf := make([]byte, len(text))
	for got := 0; got < len(buf); {
		if !waitFor(p.fd, unix.POLLIN, 5000) {
			p.s.t.Fatal("no echo")
		}
		n, err := unix.Read(p.fd, buf[got:])
		if err != nil || n == 0 {
			p.s.t.Fatalf("read: %d, %v", n, err)
		}
		got += n
	}
	if string(buf) != text {
		p.s.t.Fatalf("echo is %q, want %q", buf, text)
	}
}

func (p *program) accepted(from <-chan seen) seen {
	p.s.t.Helper()
	select {
	case c := <-from:
		return c
	case <-time.After(5 * time.Second):
		p.s.t.Fatal("the server accepted nothing")
		return seen{}
	}
}
