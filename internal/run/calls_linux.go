package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/link/dial"
	"github.com/squallhq/squall/internal/run/args"
	"github.com/squallhq/squall/internal/run/rules"
	"github.com/squallhq/squall/verdict"
)

// subscription is what a service's programs are stopped at: what the leaf may inject into, and what
// the network needs. It cannot grow once a program runs.
func (l *leaf) subscription(service string, datagrams bool) intercept.Subscription {
	sub := intercept.Subscription{
		Calls:      append(l.reach.Calls(service), "connect", "getpeername", "getsockname", "seccomp"),
		Getsockopt: true, NoIOUring: true, Output: true,
	}
	if slices.ContainsFunc(sub.Calls, func(c string) bool { return slices.Contains(fileIO(), c) }) {
		sub.Calls = append(sub.Calls, "io_setup")
	}
	if rules.ChangesFiles(sub.Calls) {
		sub.SharedMappings = true
		sub.Calls = append(sub.Calls, "msync")
	}
	for _, s := range l.system.suite.Services {
		if s.Name == service {
			sub.Calls = append(sub.Calls, observes(s)...)
		}
	}
	sub.Sockets = l.system.net.joins(service)
	l.watchLeaks(service, &sub)
	if datagrams {
		sub.Addressed = true
		sub.Calls = append(sub.Calls, "sendmsg", "sendmmsg", "bind")
	}
	return sub
}

// fileIO returns calls that a program with a context for asynchronous I/O does without.
func fileIO() []string { return []string{"read", "pread64", "write", "pwrite64", "fsync", "fdatasync"} }

// serve answers the calls of a program and its children until none is left. Cheap answers are given
// in this thread: handing each to a goroutine costs several times the answer itself.
func (s *service) serve(p *process) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		c, err := p.session.Next()
		if err != nil {
			s.ended(err)
			return
		}
		s.answer(p.session, c)
	}
}

// ended notes why the answering ended, where that is not the end of the program.
func (s *service) ended(err error) {
	var launch *intercept.LaunchError
	switch {
	case errors.As(err, &launch):
		s.l.note(s.Name, verdict.ServiceNotStarted, startText(err))
	case errors.Is(err, io.EOF), errors.Is(err, intercept.ErrClosed):
	default:
		s.l.note(s.Name, verdict.SupervisionLost, err.Error())
	}
}

func (l *leaf) note(lane string, code verdict.Code, message string) {
	l.log.Append(lane, event.Note, map[string]any{"code": string(code), "message": message})
}

// answer decides a call. Rules come first: a connect may be denied before there is a connection.
func (s *service) answer(session intercept.Session, c intercept.Call) {
	s.leaks(session, c)
	needs := s.l.system.inject.Needs(s.Name, c.Name)
	if !needs.Decide {
		s.recordAllowed(session, c)
		s.proceed(session, c)
		return
	}
	call := s.describe(session, c, needs)
	if !needs.Size || s.measure(session, c, &call) {
		s.decide(session, c, call)
	}
}

// saw counts a call that a rule in force looked at, for the reader of a fault that never fired.
func (s *service) saw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[name]++
}

// describe finds out what the rules look at.
func (s *service) describe(session intercept.Session, c intercept.Call, needs inject.Needs) inject.Call {
	call := inject.Call{Service: s.Name, Name: c.Name, Thread: c.Thread, Args: c.Args}
	f, ok := fault.FamilyOf(c.Name)
	if !ok {
		return call
	}
	if f.Descriptor >= 0 && (needs.Descriptor || needs.Path || needs.Size || needs.Peer) {
		if kind, path, _, err := intercept.Describe(session, c, int(int32(c.Args[f.Descriptor]))); err == nil {
			call.Descriptor, call.Path = kind, path
		}
	}
	if needs.Peer && (call.Descriptor == fault.Socket || call.Descriptor == "") {
		call.Peer = s.peer(session, c, f)
	}
	if f.Path >= 0 && needs.Path {
		call.Path = args.Path(session, c, f)
		call.Other = args.OtherPath(session, c)
	}
	return call
}

// hold waits and then carries the decision out. A program that was interrupted meanwhile makes the
// call again; it is then held for what is left.
func (s *service) hold(session intercept.Session, c intercept.Call, call inject.Call, d inject.Decision) {
	begin := s.l.clock.Now()
	ended := s.l.faults.Ended(d.Rule)
	done, stop := s.l.clock.After(d.Delay)
	defer stop()
	for waiting := true; waiting; {
		tick, cancel := s.l.clock.After(holdCheck)
		select {
		case <-done:
			waiting = false
		case <-ended:
			waiting = false
		case <-tick:
			waiting = session.Alive(c.ID)
		}
		cancel()
	}
	s.carryOut(session, c, call, d, s.l.clock.Now()-begin)
}

// holdCheck is how often a held call is asked whether somebody still waits for it.
const holdCheck = 50 * time.Millisecond

// carryOut answers a call as decided. What a rule did is written down if it reached the program, and
// before the program goes on: else what it does next could stand in the log before its cause.
func (s *service) carryOut(session intercept.Session, c intercept.Call, call inject.Call, d inject.Decision, held time.Duration) {
	engine := s.l.system.inject
	switch {
	case !session.Alive(c.ID):
		s.withdrawn(call, d, held)
	case d.Rule == "":
		s.recordAllowed(session, c)
		s.proceed(answering{session, func() { engine.Undelivered(call, d, held) }}, c)
	case d.Verb == inject.Deny:
		s.deny(session, c, call, d, held)
	case d.Verb == inject.Partial:
		s.shorten(session, c, call, d)
	case d.Verb == inject.Crash:
		s.crash(session, c, call, d)
	default:
		// It was held as long as the rule says, whatever becomes of it now.
		s.l.drain()
		s.l.log.Append(s.Name, event.Syscall, record(call, d), s.l.faults.Since(d.Rule))
		s.proceed(answering{session, func() { engine.Settled(call) }}, c)
	}
}

// deny gives a program an error. It is in the log if and only if it counts as fired: a call that was
// withdrawn is neither. In one case both are wrong: a signal that comes while the kernel takes the answer
// makes it lose that without a word, and the call comes again as if it were a new one.
func (s *service) deny(session intercept.Session, c intercept.Call, call inject.Call, d inject.Decision, held time.Duration) {
	s.l.drain()
	var err error
	answer := func() bool {
		err = session.Reply(c.ID, intercept.Reply{Answer: true, Errno: d.Errno})
		return err == nil
	}
	if s.l.log.AppendIf(answer, s.Name, event.Syscall, record(call, d), s.l.faults.Since(d.Rule)) {
		return
	}
	s.withdrawn(call, d, held)
	if errors.Is(err, intercept.ErrGone) {
		return
	}
	s.unanswered(c, err)
}

// unanswered notes that a program did not get the answer that it had to get.
func (s *service) unanswered(c intercept.Call, err error) {
	s.l.note(s.Name, verdict.SupervisionLost, fmt.Sprintf("a %s of %s could not be answered: %v", c.Name, s.Name, err))
}

// answering is a session in which it matters whether a call was withdrawn before its answer.
type answering struct {
	intercept.Session
	gone func()
}

// Reply answers a call.
func (a answering) Reply(id uint64, r intercept.Reply) error {
	err := a.Session.Reply(id, r)
	if errors.Is(err, intercept.ErrGone) {
		a.gone()
	}
	return err
}

// withdrawn takes a decision back that did not reach the program: it was interrupted, or it ended.
func (s *service) withdrawn(call inject.Call, d inject.Decision, held time.Duration) {
	s.l.system.inject.Undelivered(call, d, held)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[d.Rule]++
}

// record is what the log says of what a rule did to a call.
func record(call inject.Call, d inject.Decision) map[string]any {
	fields := map[string]any{
		"name": call.Name, "pid": int64(call.Thread), "decision": string(d.Verb), "rule": d.Rule, "index": d.Index,
	}
	if call.Descriptor != "" {
		fields["on"] = string(call.Descriptor)
	}
	if call.Path != "" {
		fields["path"] = call.Path
	}
	if d.Errno != 0 {
		fields["errno"] = fault.ErrnoName(d.Errno)
	}
	if d.Delay > 0 {
		fields["delay_ms"] = d.Delay.Milliseconds()
	}
	return fields
}

// proceed lets a call go on, by the network where that is concerned.
func (s *service) proceed(session intercept.Session, c intercept.Call) {
	switch c.Name {
	case "connect":
		s.connect(session, c)
	case "getpeername", "getsockname", "getsockopt":
		s.socketName(session, c)
	case "sendto", "sendmsg", "sendmmsg":
		s.datagram(session, c)
	case "ioctl", "fcntl", "setsockopt":
		s.plain(session, c)
	case "write", "writev":
		s.write(session, c)
	case "bind":
		s.bind(session, c)
	case "seccomp":
		s.listener(session, c)
	case "io_uring_setup":
		s.bypass(session, c, "io_uring")
	case "mmap":
		s.mmap(session, c)
	case "msync":
		s.msync(session, c)
	case "io_setup":
		s.bypass(session, c, "asynchronous I/O (io_setup)")
	default:
		s.reply(session, c, intercept.Reply{})
	}
}

// reply answers; a call that was withdrawn needs no answer. Where a descriptor cannot be installed (the
// program has lowered its limit below that number) the call still waits, and fails.
func (s *service) reply(session intercept.Session, c intercept.Call, r intercept.Reply) {
	err := session.Reply(c.ID, r)
	if err == nil || errors.Is(err, intercept.ErrGone) {
		return
	}
	s.unanswered(c, err)
	if r.InstallSet {
		_ = session.Reply(c.ID, intercept.Reply{Answer: true, Errno: int(unix.ENOBUFS)})
	}
}

// listener notes a program that wants to supervise others itself: the kernel allows one listener for a
// tree of processes and answers EBUSY, so the program does not do what it does elsewhere.
func (s *service) listener(session intercept.Session, c intercept.Call) {
	if c.Args[0] == unix.SECCOMP_SET_MODE_FILTER && c.Args[1]&unix.SECCOMP_FILTER_FLAG_NEW_LISTENER != 0 {
		s.l.note(s.Name, verdict.ListenerTaken, s.Name+" asked for a system call listener of its own and got EBUSY")
	}
	s.reply(session, c, intercept.Reply{})
}

// write lets a write go on. Before one to standard output or error, whatever any service has printed
// goes into the log: so of two lines of which one led to the other, through whatever programs, the
// first stands first, although they come through two pipes.
func (s *service) write(session intercept.Session, c intercept.Call) {
	if fd := int(int32(c.Args[0])); fd == unix.Stdout || fd == unix.Stderr {
		s.l.drain()
	}
	s.reply(session, c, intercept.Reply{})
}

// bypass refuses io_uring and its elder: what goes through them passes every rule by. Programs fall back
// to ordinary calls, as on the many machines that forbid them.
func (s *service) bypass(session intercept.Session, c intercept.Call, what string) {
	s.l.log.Append(s.Name, event.Note, map[string]any{
		"message": s.Name + " asked for " + what + ", which no fault could see; it was refused with ENOSYS",
	})
	s.reply(session, c, intercept.Reply{Answer: true, Errno: int(unix.ENOSYS)})
}

// connect leads a connection where the system's declaration says.
func (s *service) connect(session intercept.Session, c intercept.Call) {
	fd := int(int32(c.Args[0]))
	address := args.SocketAddress(session, c, c.Args[1], c.Args[2])
	if address == nil {
		s.reply(session, c, intercept.Reply{})
		return
	}
	family := binary.NativeEndian.Uint16(address)
	if family == unix.AF_UNIX {
		s.connectSocket(session, c, address)
		return
	}
	if family != unix.AF_INET && family != unix.AF_INET6 && family != unix.AF_UNSPEC {
		s.reply(session, c, intercept.Reply{})
		return
	}
	s.asksNames(address, false)
	socket, err := session.Descriptor(c, fd)
	if err != nil {
		s.reply(session, c, intercept.Reply{})
		return
	}
	s.l.drain() // what it printed or wrote before stands before the connection
	result := s.l.system.net.dialer.Connect(dial.Request{
		Client: s.Name, Socket: socket, Addr: address, Pid: c.Thread, FD: fd,
		Alive: func() bool { return session.Alive(c.ID) },
	})
	if result.Later == nil {
		s.connected(session, c, result)
		return
	}
	s.holds.Go(func() { s.connected(session, c, result.Later()) })
}

func (s *service) connected(session intercept.Session, c intercept.Call, r dial.Result) {
	switch {
	case r.Native:
		s.reply(session, c, intercept.Reply{})
	case r.Install >= 0:
		s.reply(session, c, intercept.Reply{
			Answer: true, Errno: r.Errno, InstallSet: true, Install: r.Install,
			At: int(int32(c.Args[0])), CloseOnExec: r.CloseOnExec,
		})
		_ = unix.Close(r.Install)
	default:
		s.reply(session, c, intercept.Reply{Answer: true, Errno: r.Errno})
	}
}

// plain lets a call go on that a socket whose bytes take a shortcut does not bear: so they do not, before it is made.
func (s *service) plain(session intercept.Session, c intercept.Call) {
	s.unjoin(session, c)
	s.reply(session, c, intercept.Reply{})
}

// socketName answers what a program asks about a socket whose other end is not what it seems.
func (s *service) socketName(session intercept.Session, c intercept.Call) {
	socket, err := session.Descriptor(c, int(int32(c.Args[0])))
	if err != nil {
		s.reply(session, c, intercept.Reply{})
		return
	}
	defer unix.Close(socket)
	d := s.l.system.net.dialer
	buffer, length := c.Args[1], c.Args[2]
	var a dial.Answer
	switch {
	case c.Name == "getpeername":
		a = d.PeerName(socket)
	case c.Name == "getsockname":
		a = d.SocketName(socket)
	case c.Args[2] == unix.SO_PEERNAME:
		a, buffer, length = d.PeerName(socket), c.Args[3], c.Args[4]
	default:
		a, buffer, length = d.SocketError(socket), c.Args[3], c.Args[4]
		if !a.Native && a.Errno == 0 {
			a.Addr = binary.NativeEndian.AppendUint32(nil, uint32(a.Value))
		}
	}
	switch {
	case a.Native:
		s.reply(session, c, intercept.Reply{})
	case a.Errno != 0:
		s.reply(session, c, intercept.Reply{Answer: true, Errno: a.Errno})
	default:
		s.reply(session, c, intercept.Reply{Answer: true, Errno: int(args.Give(session, c, buffer, length, a.Addr))})
	}
}
