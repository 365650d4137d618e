package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/link/dial"
	"github.com/squallhq/squall/internal/run/rules"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// scripted is a session whose answers end as told: the first with the first error, and so on, then nil.
type scripted struct {
	intercept.Session
	errs []error
	got  []intercept.Reply
	// then is called with each answer that reaches the program.
	then func()
}

func (s *scripted) Alive(uint64) bool { return true }

func (s *scripted) Reply(_ uint64, r intercept.Reply) error {
	s.got = append(s.got, r)
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return err
	}
	if s.then != nil {
		s.then()
	}
	return nil
}

// supervised is a service without a program, with one rule in force.
func supervised(t *testing.T, r fault.Rule) *service {
	t.Helper()
	clock := vtime.Wall()
	l := &leaf{clock: clock, log: event.NewLog(clock.Now), services: map[string]*service{}}
	l.system = &system{suite: &spec.Suite{}, inject: inject.New(1)}
	l.faults = rules.New(rules.Config{Log: l.log, Syscall: l.system.inject})
	r.ID = "rule"
	if _, err := l.faults.Install([]fault.Rule{r}); err != nil {
		t.Fatal(err)
	}
	return &service{Service: &spec.Service{Name: "db"}, l: l, seen: map[string]int{}, lost: map[string]int{}}
}

func onFsync(errno string, delay time.Duration, w fault.When) fault.Rule {
	return fault.Rule{Syscall: &fault.Syscall{Service: "db", Family: "fsync", Calls: []string{"fsync"}, Errno: errno, Delay: delay}, When: w}
}

// fsync is answered once, twice, ... and every hold is waited for.
func (s *service) fsync(session intercept.Session, times int) {
	for i := range times {
		s.answer(session, intercept.Call{ID: uint64(i), Name: "fsync", Thread: 7})
		s.holds.Wait()
	}
}

// acted returns how often the rule acted, by its count and by the log.
func (s *service) acted() string {
	logged := 0
	for _, e := range s.l.log.All() {
		if e.Kind == event.Syscall {
			logged++
		}
	}
	return fmt.Sprintf("counted %d, logged %d, drawn %d", s.l.system.inject.Fired("rule"), logged, len(s.l.system.inject.Decisions()))
}

// An answer that a signal forestalled is neither counted nor logged; the call that comes again gets it,
// and draws nothing new.
func TestWithdrawnAnswer(t *testing.T) {
	gone := intercept.ErrGone
	for name, tc := range map[string]struct {
		rule   fault.Rule
		errs   []error
		calls  int
		want   string
		denied int
	}{
		"deny":                {onFsync("EIO", 0, fault.When{}), []error{gone}, 1, "counted 0, logged 0, drawn 1", 1},
		"deny, again":         {onFsync("EIO", 0, fault.When{Nth: 1}), []error{gone}, 2, "counted 1, logged 1, drawn 1", 2},
		"deny, and two more":  {onFsync("EIO", 0, fault.When{}), []error{gone}, 4, "counted 3, logged 3, drawn 3", 4},
		"late deny, again":    {onFsync("EIO", time.Millisecond, fault.When{}), []error{gone}, 2, "counted 1, logged 1, drawn 1", 2},
		"spared, again":       {onFsync("EIO", 0, fault.When{Nth: 2}), []error{gone}, 2, "counted 0, logged 0, drawn 1", 0},
		"spared, then denied": {onFsync("EIO", 0, fault.When{Nth: 2}), []error{gone}, 3, "counted 1, logged 1, drawn 2", 1},
		// What was held has been held, and is not held once more.
		"delay":             {onFsync("", time.Millisecond, fault.When{}), []error{gone}, 1, "counted 1, logged 1, drawn 1", 0},
		"delay, again":      {onFsync("", time.Millisecond, fault.When{}), []error{gone}, 2, "counted 1, logged 1, drawn 1", 0},
		"delay, and a next": {onFsync("", time.Millisecond, fault.When{}), []error{gone}, 3, "counted 2, logged 2, drawn 2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(t, tc.rule)
			session := &scripted{errs: tc.errs}
			s.fsync(session, tc.calls)
			if got := s.acted(); got != tc.want {
				t.Errorf("%s; want %s", got, tc.want)
			}
			denied := 0
			for _, r := range session.got {
				if r.Errno == int(unix.EIO) {
					denied++
				}
			}
			if len(session.got) != tc.calls || denied != tc.denied {
				t.Errorf("%d answers, %d of them denied; want %d and %d", len(session.got), denied, tc.calls, tc.denied)
			}
		})
	}
}

// What a program does with an answer never stands in the log before it.
func TestAnswerStandsBeforeWhatFollows(t *testing.T) {
	s := supervised(t, onFsync("EIO", 0, fault.When{}))
	followed := make(chan struct{})
	session := &scripted{then: func() {
		go func() {
			s.l.log.Append("db", event.Stdout, map[string]any{"line": "cannot save"})
			close(followed)
		}()
		time.Sleep(20 * time.Millisecond) // the time that the effect has to overtake its cause
	}}
	s.fsync(session, 1)
	<-followed
	var kinds []string
	for _, e := range s.l.log.All() {
		kinds = append(kinds, string(e.Kind))
	}
	if got := strings.Join(kinds, " "); got != "fault syscall stdout" {
		t.Errorf("the log has %s; want fault syscall stdout", got)
	}
}

// A program that cannot be given what it needs gets an error, and its leaf is left open.
func TestDescriptorThatCannotBeInstalled(t *testing.T) {
	s := supervised(t, onFsync("EIO", 0, fault.When{}))
	session := &scripted{errs: []error{unix.EBADF}}
	fd, err := unix.Dup(1)
	if err != nil {
		t.Fatal(err)
	}
	s.connected(session, intercept.Call{Name: "connect", Args: [6]uint64{9}}, dial.Result{Install: fd})
	if len(session.got) != 2 || !session.got[0].InstallSet || session.got[1].InstallSet || session.got[1].Errno == 0 {
		t.Errorf("answers %+v; want one with a descriptor, then one with an error", session.got)
	}
	events := s.l.log.All()
	if last := events[len(events)-1]; last.String("code") != string(verdict.SupervisionLost) {
		t.Errorf("the log ends with %v; want a note of %s", last.Fields, verdict.SupervisionLost)
	}
}
