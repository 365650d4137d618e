package dial

import (
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/intercept/notify"
	"github.com/squallhq/squall/spec"
)

// supervisor answers the calls of one program, as a leaf does.
type supervisor struct {
	s       *system
	service string
	session intercept.Session
}

// run runs a program in a service's namespace to its end and returns what it wrote.
func (s *system) run(service string, args ...string) (stdout, stderr string) {
	s.t.Helper()
	outs := [2]*os.File{s.temp(), s.temp()}
	_, wait := s.supervise(service, nil, outs, args)
	wait()
	return read(s.t, outs[0]), read(s.t, outs[1])
}

// start runs a program until stop is called.
func (s *system) start(service string, args ...string) (stop func()) {
	s.t.Helper()
	pid, wait := s.supervise(service, nil, [2]*os.File{s.temp(), s.temp()}, args)
	return sync.OnceFunc(func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		wait()
	})
}

// supervise starts a program; without a file for its standard input it has /dev/null. wait returns how the
// program ended.
func (s *system) supervise(service string, in *os.File, outs [2]*os.File, args []string) (pid int, wait func() unix.WaitStatus) {
	s.t.Helper()
	stdin := -1
	if in != nil {
		stdin = int(in.Fd())
	}
	session, err := notify.New(notify.Options{}).Start(s.t.Context(), spec.Process{
		Path: args[0], Args: args, Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C"}, Dir: "/",
		Stdin: stdin, Stdout: int(outs[0].Fd()), Stderr: int(outs[1].Fd()), NetNS: s.ns[service].fd, DropCaps: true,
	}, intercept.Subscription{
		Calls:      []string{"connect", "getpeername", "getsockname", "sendmsg", "sendmmsg", "bind"},
		Getsockopt: true, Addressed: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	v := &supervisor{s: s, service: service, session: session}
	done := make(chan error, 1)
	go func() { done <- v.loop() }()
	return session.Pid(), func() (status unix.WaitStatus) {
		s.t.Helper()
		for {
			if _, err := unix.Wait4(session.Pid(), &status, 0, nil); err != unix.EINTR {
				break
			}
		}
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		session.Close()
		return status
	}
}

func (s *system) temp() *os.File {
	f, err := os.CreateTemp(s.t.TempDir(), "out")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() })
	return f
}

func read(t testing.TB, f *os.File) string {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (v *supervisor) loop() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		c, err := v.session.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		v.answer(c)
	}
}

func (v *supervisor) answer(c intercept.Call) {
	socket, err := v.session.Descriptor(c, int(int32(c.Args[0])))
	if err != nil {
		v.reply(c, intercept.Reply{})
		return
	}
	switch c.Name {
	case "connect":
		v.connect(c, socket)
	case "sendto", "sendmsg", "sendmmsg":
		v.send(c, socket)
	case "bind":
		v.s.d.Bind(socket)
		closeAll(socket)
		v.reply(c, intercept.Reply{})
	default:
		v.name(c, socket)
		closeAll(socket)
	}
}

func (v *supervisor) reply(c intercept.Call, r intercept.Reply) { _ = v.session.Reply(c.ID, r) }

func (v *supervisor) connect(c intercept.Call, socket int) {
	addr := make([]byte, min(c.Args[2], 128))
	if n, err := v.session.ReadMemory(c, c.Args[1], addr); err != nil || n != len(addr) {
		closeAll(socket)
		v.reply(c, intercept.Reply{})
		return
	}
	res := v.s.d.Connect(Request{Client: v.service, Socket: socket, Addr: addr, Pid: c.Thread, FD: int(int32(c.Args[0])),
		Alive: func() bool { return v.session.Alive(c.ID) }})
	if res.Later != nil {
		v.s.kept.Add(1)
		go func() { v.result(c, res.Later()) }()
		return
	}
	v.result(c, res)
}

func (v *supervisor) result(c intercept.Call, r Result) {
	reply := intercept.Reply{Answer: !r.Native, Errno: r.Errno}
	if r.Install >= 0 {
		reply.InstallSet, reply.Install, reply.At, reply.CloseOnExec = true, r.Install, int(int32(c.Args[0])), r.CloseOnExec
		defer closeAll(r.Install)
	}
	v.reply(c, reply)
}

func (v *supervisor) send(c intercept.Call, socket int) {
	names, flags, err := Names(c.Name, c.Args, func(addr uint64, p []byte) error {
		n, err := v.session.ReadMemory(c, addr, p)
		if err == nil && n < len(p) {
			err = unix.EFAULT
		}
		return err
	})
	res := native()
	for _, name := range names {
		if res = v.s.d.Send(Datagram{Client: v.service, Socket: dup(socket), Addr: name, Flags: flags}); !res.Native {
			break
		}
	}
	closeAll(socket)
	if err != nil {
		res = native()
	}
	v.result(c, res)
}

func dup(fd int) int {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1
	}
	return n
}

func (v *supervisor) name(c intercept.Call, socket int) {
	buffer, length := c.Args[1], c.Args[2]
	var a Answer
	switch {
	case c.Name == "getpeername":
		a = v.s.d.PeerName(socket)
	case c.Name == "getsockname":
		a = v.s.d.SocketName(socket)
	default:
		buffer, length = c.Args[3], c.Args[4]
		if c.Args[2] == unix.SO_PEERNAME {
			a = v.s.d.PeerName(socket)
			break
		}
		if a = v.s.d.SocketError(socket); !a.Native && a.Errno == 0 {
			a.Addr = binary.NativeEndian.AppendUint32(nil, uint32(a.Value))
		}
	}
	if a.Native || a.Errno != 0 {
		v.reply(c, intercept.Reply{Answer: !a.Native, Errno: a.Errno})
		return
	}
	var n [4]byte
	_, err := v.session.ReadMemory(c, length, n[:])
	cut := a.Addr[:min(len(a.Addr), int(binary.NativeEndian.Uint32(n[:])))]
	if err == nil {
		err = v.session.WriteMemory(c, buffer, cut)
	}
	binary.NativeEndian.PutUint32(n[:], uint32(len(a.Addr)))
	if err == nil {
		err = v.session.WriteMemory(c, length, n[:])
	}
	if err != nil {
		v.s.t.Error(err)
	}
	v.reply(c, intercept.Reply{Answer: true})
}
