package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/run/disturb"
	"github.com/squallhq/squall/internal/run/transfer"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// processes are the rules on the leaf's processes.
func (l *leaf) processes() *disturb.Processes {
	return disturb.New(disturb.Config{
		Clock: l.clock,
		Act: func(ctx context.Context, name string, a spec.Action) error {
			s := l.services[name]
			if s == nil {
				return fmt.Errorf("run: %s: no service %q", a, name)
			}
			if a != spec.Restart && s.down() {
				return fmt.Errorf("%s was not running", name)
			}
			return s.act(ctx, a)
		},
		Fired: func(r fault.Rule, n int) {
			l.log.Append(r.Process.Service, event.Fault, map[string]any{"op": "fired", "rule": r.ID, "fired": int64(n)}, l.faults.Since(r.ID))
		},
		Failed: func(r fault.Rule, err error) {
			l.log.Append(event.Driver, event.Note, map[string]any{"message": fmt.Sprintf("%s: %v", r.ID, err)})
		},
	})
}

// down reports whether the service's program has ended.
func (s *service) down() bool {
	p := s.current()
	if p == nil {
		return true
	}
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// standLimit is how long a pause waits for the threads of a service to stand still.
const standLimit = 2 * time.Second

// standStill waits until the service does nothing any more. A thread that waits for a device can't stop at once.
func (s *service) standStill(ctx context.Context, p *process) {
	for begin := s.l.clock.Now(); s.l.clock.Now()-begin < standLimit && !disturb.Stopped(p.session.Pid()); {
		if vtime.Sleep(ctx, s.l.clock, time.Millisecond) != nil {
			return
		}
	}
}

// signal sends a signal that the service may outlive.
func (s *service) signal(p *process, a spec.Action) error {
	sig := unix.SignalNum(a.Signal())
	if sig == 0 {
		return fmt.Errorf("run: %s: no signal %q", s.Name, a.Signal())
	}
	switch sig {
	case unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT:
		p.expected.Store(true)
	}
	if err := s.l.system.reaper.KillGroup(p.session.Pid(), sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("run: %s %s: %w", a, s.Name, err)
	}
	s.l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": string(spec.Kill), "signal": a.Signal()})
	return nil
}

// crash ends the service's processes at a call, which is not made, or of which a part is.
func (s *service) crash(session intercept.Session, c intercept.Call, call inject.Call, d inject.Decision) {
	s.l.drain()
	fields := record(call, d)
	if d.Bytes > 0 {
		fields["bytes"], fields["asked"] = d.Bytes, d.Size
	}
	failed := false
	happen := func() bool {
		if !session.Alive(c.ID) {
			return false
		}
		if d.Bytes > 0 {
			moved, ok := transfer.Move(session, c, d.Bytes)
			if failed = !ok; failed {
				return false
			}
			fields["bytes"] = moved
		}
		if p := s.current(); p != nil {
			p.expected.Store(true)
		}
		return true
	}
	switch {
	case s.l.log.AppendIf(happen, s.Name, event.Syscall, fields, s.l.faults.Since(d.Rule)):
		if err := s.l.system.reaper.KillGroup(session.Pid(), unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			s.unanswered(c, err)
		}
		s.l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": string(spec.Kill)})
	case failed && session.Alive(c.ID):
		s.l.system.inject.Spared(call, d)
		s.recordAllowed(session, c)
		s.proceed(session, c)
	default:
		s.withdrawn(call, d, 0)
	}
}
