package run

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/run/logfile"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// tailInterval is how often observed files are looked at. What matters is read without waiting for that, see
// leaf.drain.
const tailInterval = 10 * time.Millisecond

// callCount is how many observed calls of a service become events.
const callCount = 200_000

// observation is what is recorded of a service beside its output.
type observation struct {
	mu    sync.Mutex
	calls []*observedCalls
	count int
	files []*logfile.File
	// broken are the files that could not be read, which is said once.
	broken map[int]bool
}

// observedCalls are calls that are recorded.
type observedCalls struct {
	spec.Observer
	glob *inject.Glob
}

func newObservedCalls(o spec.Observer) *observedCalls {
	c := &observedCalls{Observer: o}
	if o.Path != "" {
		g := inject.Compile(o.Path)
		c.glob = &g
	}
	return c
}

func (o *observedCalls) selects(call inject.Call) bool {
	return slices.Contains(o.Calls, call.Name) &&
		(len(o.On) == 0 || slices.Contains(o.On, string(call.Descriptor))) &&
		(o.glob == nil || o.glob.Match(call.Path))
}

// observes returns the calls that a service is observed at from its start on.
func observes(s *spec.Service) []string {
	var calls []string
	for _, o := range s.Observe {
		calls = append(calls, o.Calls...)
	}
	return calls
}

// observe begins to follow the service's files, from where they end now. It does so once: a restart adds to them.
func (s *service) observe() {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if s.watch.broken != nil {
		return
	}
	s.watch.broken = map[int]bool{}
	for _, o := range s.Observe {
		switch o.Kind {
		case spec.Syscalls:
			s.watch.calls = append(s.watch.calls, newObservedCalls(o))
		case spec.LogFile:
			decode := s.decoder(o.Kind, o.Path)
			line := func(b []byte) {
				fields := decode(b)
				fields["path"] = o.Path
				s.l.log.Append(s.Name, event.File, fields)
			}
			full := func() {
				s.l.note(s.Name, verdict.EventsDropped, fmt.Sprintf("%s of %s has more lines than are judged", o.Path, s.Name))
			}
			s.watch.files = append(s.watch.files, logfile.Open(o.Path, line, full))
		}
	}
}

// decoder returns how the lines of a stream or file are read.
func (s *service) decoder(kind spec.ObserverKind, path string) func([]byte) map[string]any {
	var d spec.Decoder
	for _, o := range s.Observe {
		if o.Kind == kind && o.Path == path {
			d = o.Decoder
		}
	}
	decode, err := d.Compile()
	if err != nil {
		s.l.note(s.Name, verdict.WorldFailed, err.Error())
		decode, _ = spec.Decoder{}.Compile() // the one for JSON always works
	}
	return decode
}

// follow looks at the files until quit is closed, and then reads them to their ends.
func (s *service) follow(quit <-chan struct{}) {
	for {
		tick, stop := s.l.clock.After(tailInterval)
		select {
		case <-tick:
			s.tails((*logfile.File).Drain)
		case <-quit:
			stop()
			s.tails((*logfile.File).End)
			return
		}
	}
}

// tails does something with each file.
func (s *service) tails(do func(*logfile.File) error) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for i, f := range s.watch.files {
		if err := do(f); err != nil && !s.watch.broken[i] {
			s.watch.broken[i] = true
			s.l.note(s.Name, verdict.EventsDropped, fmt.Sprintf("a file of %s that is observed can't be read: %v", s.Name, err))
		}
	}
}

// observed reports whether calls of a name are recorded at present.
func (s *service) observed(name string) bool {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return slices.ContainsFunc(s.watch.calls, func(o *observedCalls) bool { return slices.Contains(o.Calls, name) })
}

// recordAllowed records a call that no rule changes, before it is made.
func (s *service) recordAllowed(session intercept.Session, c intercept.Call) {
	if !s.observed(c.Name) {
		return
	}
	call := s.describe(session, c, inject.Needs{Descriptor: true, Path: true})
	s.watch.mu.Lock()
	wanted := slices.ContainsFunc(s.watch.calls, func(o *observedCalls) bool { return o.selects(call) })
	if wanted {
		s.watch.count++
	}
	count := s.watch.count
	s.watch.mu.Unlock()
	switch {
	case !wanted || count > callCount+1:
	case count == callCount+1:
		s.l.note(s.Name, verdict.EventsDropped, fmt.Sprintf("%s made more than %d of the calls that are observed; the rest is not recorded", s.Name, callCount))
	default:
		s.l.drain()
		fields := record(call, inject.Decision{Verb: "allow"})
		delete(fields, "rule")
		delete(fields, "index")
		s.l.log.Append(s.Name, event.Syscall, fields)
	}
}

// trace records calls of a service until stop is called.
func (l *leaf) trace(service string, list []spec.Observer) (stop func(), err error) {
	s := l.services[service]
	if s == nil {
		return nil, fmt.Errorf("run: trace: no service %q", service)
	}
	var mine []*observedCalls
	for _, o := range list {
		for _, name := range o.Calls {
			if !slices.Contains(s.sub.Calls, name) {
				why := "calls of " + service + " to " + name + " were not subscribed to when it started"
				return nil, &spec.Ended{Code: string(verdict.NotSubscribed), Detail: why, Position: o.Position}
			}
		}
		mine = append(mine, newObservedCalls(o))
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	s.watch.calls = append(s.watch.calls, mine...)
	return func() {
		s.watch.mu.Lock()
		defer s.watch.mu.Unlock()
		s.watch.calls = slices.DeleteFunc(s.watch.calls, func(o *observedCalls) bool { return slices.Contains(mine, o) })
	}, nil
}
