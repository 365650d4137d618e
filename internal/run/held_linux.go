package run

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/run/transfer"
)

// measure finds out how much a call would move. One that would wait first is decided when it would wait no longer; then measure
// reports false, and somebody else goes on.
func (s *service) measure(session intercept.Session, c intercept.Call, call *inject.Call) bool {
	if !s.l.system.inject.Measures(*call) {
		return true
	}
	if call.Descriptor == fault.Socket {
		s.unjoin(session, c)
	}
	st := transfer.Look(session, c)
	call.Size = st.Size
	if st.Waits {
		waiting := *call
		s.holds.Go(func() { s.patiently(session, c, waiting) })
	}
	return !st.Waits
}

// unjoin has a socket's bytes take no shortcut, which can't be counted.
func (s *service) unjoin(session intercept.Session, c intercept.Call) {
	if socket, err := session.Descriptor(c, int(int32(c.Args[0]))); err == nil {
		s.l.system.net.links.Plain(socket)
		_ = unix.Close(socket)
	}
}

// patiently waits until a call can move something, or no rule measures it any more, and has it decided.
func (s *service) patiently(session intercept.Session, c intercept.Call, call inject.Call) {
	for !transfer.Ready(session, c, holdCheck) {
		if !session.Alive(c.ID) {
			return
		}
		if !s.l.system.inject.Measures(call) {
			break
		}
	}
	call.Size = transfer.Look(session, c).Size
	s.decide(session, c, call)
}

// decide asks the rules about a call and carries out what they say.
func (s *service) decide(session intercept.Session, c intercept.Call, call inject.Call) {
	s.saw(c.Name)
	d := s.l.system.inject.Decide(call)
	switch {
	case d.Verb == inject.Hold:
		gate := s.l.faults.Gate(d.Rule)
		s.holds.Go(func() { s.park(session, c, call, d, gate) })
	case d.Delay > 0:
		s.holds.Go(func() { s.hold(session, c, call, d) })
	default:
		s.carryOut(session, c, call, d, 0)
	}
}

// park holds a call until its rule lets it go. It is in the log from the beginning, so that a scenario can wait for it.
func (s *service) park(session intercept.Session, c intercept.Call, call inject.Call, d inject.Decision, gate <-chan struct{}) {
	if !d.Told {
		s.l.drain()
		alive := func() bool { return session.Alive(c.ID) }
		d.Told = s.l.log.AppendIf(alive, s.Name, event.Syscall, record(call, d), s.l.faults.Since(d.Rule))
	}
	begin := s.l.clock.Now()
	for waiting := d.Told; waiting; {
		tick, cancel := s.l.clock.After(holdCheck)
		select {
		case <-gate:
			waiting = false
		case <-tick:
			waiting = session.Alive(c.ID)
		}
		cancel()
	}
	if !session.Alive(c.ID) {
		s.l.faults.Ungate(d.Rule)
		s.withdrawn(call, d, s.l.clock.Now()-begin)
		return
	}
	s.recordAllowed(session, c)
	s.proceed(answering{session, func() { s.l.system.inject.Settled(call) }}, c)
}

// shorten moves a part of a call's bytes in the program's place. Bytes are moved, the program is told, and the log is written as one
// step, so that what follows from it stands behind it. Where a signal takes the call back between the first two, the same
// call, made again, gets the answer that it missed, and nothing is moved twice.
func (s *service) shorten(session intercept.Session, c intercept.Call, call inject.Call, d inject.Decision) {
	s.l.drain()
	var err error
	fields := record(call, d)
	answer := func() bool {
		if d.Moved == 0 {
			var ok bool
			if d.Moved, ok = transfer.Move(session, c, d.Bytes); !ok {
				d.Moved = 0
				return false
			}
		}
		fields["bytes"], fields["asked"] = d.Moved, d.Size
		err = session.Reply(c.ID, intercept.Reply{Answer: true, Value: d.Moved})
		return err == nil
	}
	switch {
	case s.l.log.AppendIf(answer, s.Name, event.Syscall, fields, s.l.faults.Since(d.Rule)):
	case d.Moved == 0 && !session.Alive(c.ID):
		s.withdrawn(call, d, 0) // a signal came first
	case d.Moved == 0:
		s.l.system.inject.Spared(call, d)
		s.recordAllowed(session, c)
		s.proceed(session, c)
	default:
		s.withdrawn(call, d, 0)
		if !errors.Is(err, intercept.ErrGone) {
			s.unanswered(c, err)
		}
	}
}
