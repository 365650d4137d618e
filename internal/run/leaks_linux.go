package run

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/run/args"
	"github.com/squallhq/squall/internal/run/leak"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// namePort is where name servers listen.
const namePort = 53

// watchLeaks adds what shows where a service takes chance from.
func (l *leaf) watchLeaks(service string, sub *intercept.Subscription) {
	counts := l.judge.leaks.Of(service)
	sub.Children = counts.Watches(spec.Children)
	sub.Chance = counts.Watches(spec.Random)
	sub.Clocks = counts.Watches(spec.Clock)
	sub.Addressed = sub.Addressed || counts.Watches(spec.DNS) || counts.Watches(spec.OutsideIO)
}

// leaks counts a call that takes chance from somewhere. It comes before each answer and has to be cheap: a program may ask in a loop.
func (s *service) leaks(session intercept.Session, c intercept.Call) {
	switch c.Name {
	case "getrandom":
		s.chance(c)
	case "clock_gettime", "gettimeofday", "time":
		if cpuTime(c) || !s.sources.Add(spec.Clock) {
			return
		}
		s.leak(spec.Clock, fmt.Sprintf("%s read a clock by a system call, %s", s.Name, c.Name), map[string]any{"call": c.Name})
	case "execve", "execveat":
		if s.sources.Watches(spec.Children) {
			s.child(session, c)
		}
	case "open", "openat":
		if s.sources.Watches(spec.Random) {
			s.device(session, c)
		}
	}
}

// cpuTime reports whether a clock tells how long something has computed.
func cpuTime(c intercept.Call) bool {
	id := int32(c.Args[0])
	return c.Name == "clock_gettime" && (id == unix.CLOCK_PROCESS_CPUTIME_ID || id == unix.CLOCK_THREAD_CPUTIME_ID || id < 0)
}

// guardBytes is what glibc draws, without blocking, for the guard of malloc. No behaviour depends on that.
const guardBytes = 8

func (s *service) chance(c intercept.Call) {
	if c.Args[1] == guardBytes && uint32(c.Args[2]) == unix.GRND_NONBLOCK || !s.sources.Add(spec.Random) {
		return
	}
	s.leak(spec.Random, fmt.Sprintf("%s asked for %d random bytes (getrandom)", s.Name, c.Args[1]), map[string]any{"call": c.Name})
}

// device counts an open of a source of random bytes. Opens are only seen where something else stops at them.
func (s *service) device(session intercept.Session, c intercept.Call) {
	at := c.Args[1]
	if c.Name == "open" {
		at = c.Args[0]
	}
	path, err := intercept.ReadString(session, c, at, args.PathLimit)
	if err != nil || path != "/dev/urandom" && path != "/dev/random" || !s.sources.Add(spec.Random) {
		return
	}
	s.leak(spec.Random, fmt.Sprintf("%s opened %s", s.Name, path), map[string]any{"call": c.Name})
}

// child counts an exec of a program that is not the service's own. What does not exist is not counted: programs look
// for a command in each directory of PATH.
func (s *service) child(session intercept.Session, c intercept.Call) {
	dir, at := unix.AT_FDCWD, c.Args[0]
	if c.Name == "execveat" {
		dir, at = int(int32(c.Args[0])), c.Args[1]
	}
	name, err := intercept.ReadString(session, c, at, args.PathLimit)
	if err != nil {
		return
	}
	path := name
	switch {
	case name == "/proc/self/exe":
		path = fmt.Sprintf("/proc/%d/exe", c.Thread)
	case name == "" && dir != unix.AT_FDCWD:
		path = fmt.Sprintf("/proc/%d/fd/%d", c.Thread, dir)
	case name != "":
		path = args.Absolute(session, c, dir, name)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || unix.Access(real, unix.X_OK) != nil || slices.Contains(leak.Programs(s.Binary), real) || !s.sources.Add(spec.Children) {
		return
	}
	s.leak(spec.Children, fmt.Sprintf("%s ran another program, %s", s.Name, path), map[string]any{"call": c.Name, "path": path})
}

// asksNames counts a connection or datagram to a name server, and a datagram to somewhere outside.
func (s *service) asksNames(address []byte, sent bool) {
	to, err := intercept.DecodeSockaddr(address)
	if err != nil || !to.Addr.IsValid() {
		return
	}
	switch {
	case to.Addr.Port() == namePort:
		if !s.l.declares(namePort) && s.sources.Add(spec.DNS) {
			s.leak(spec.DNS, fmt.Sprintf("%s asked the name server %s", s.Name, to.Addr), map[string]any{"address": to.Addr.String()})
		}
	case sent && !ownNetwork(to.Addr.Addr()) && s.sources.Add(spec.OutsideIO):
		s.leak(spec.OutsideIO, fmt.Sprintf("%s sent a datagram to %s, which nothing declares", s.Name, to.Addr), map[string]any{"address": to.Addr.String()})
	}
}

// ownNetwork reports whether an address leads nowhere but into the service's own network.
func ownNetwork(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsUnspecified()
}

// declares reports whether an interface of the system has a port.
func (l *leaf) declares(port int) bool {
	for _, decl := range l.system.suite.Services {
		for _, face := range decl.Interfaces {
			if face.Port == port {
				return true
			}
		}
	}
	return false
}

// leak records the first use of a source of chance by a service. With a strict contract it has a code, which fails the leaf.
func (s *service) leak(n spec.Nondeterminism, what string, fields map[string]any) {
	record := maps.Clone(fields)
	record["category"], record["message"] = leak.Word(n), what
	if s.l.judge.leaks.Strict() {
		record["code"] = string(verdict.DeterminismLeak)
	}
	e := s.l.log.Append(s.Name, event.Unmet, record)
	s.sources.First(n, what, e.Seq)
}

// undeclared records an attempt to reach something that nothing declares, and that it was refused.
func (l *leaf) undeclared(service string, port uint16, fields map[string]any) {
	counts, n := l.judge.leaks.Of(service), spec.OutsideIO
	if port == namePort {
		n = spec.DNS
	}
	fields["category"] = leak.Word(n)
	if l.judge.leaks.Strict() && counts.Watches(n) {
		fields["code"] = string(verdict.DeterminismLeak)
	}
	first := counts.Add(n)
	e := l.log.Append(service, event.Unmet, fields)
	if first {
		counts.First(n, e.String("message"), e.Seq)
	}
}

// leaked ends the counting and records how often each source was used.
func (l *leaf) leaked() {
	l.judge.leaks.Close()
	for _, r := range l.judge.leaks.Records() {
		if r.Count > 1 {
			l.log.Append(r.Service, event.Unmet, map[string]any{
				"category": r.Category, "count": r.Count, "message": fmt.Sprintf("%s: %s, %d times in all", r.Service, r.Category, r.Count),
			})
		}
	}
}

// assurance is what the leaf's verdict is worth.
func (l *leaf) assurance() bundle.Assurance {
	a := bundle.Assurance{LevelAsked: l.system.suite.Determinism.Level != "", Leaks: l.judge.leaks.Records()}
	a.Level, a.LevelReason = l.judge.leaks.Level()
	a.Shapes, a.Controls = l.controls()
	return a
}
