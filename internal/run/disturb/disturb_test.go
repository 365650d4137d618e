package disturb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// story is what happened, with the time.
type story struct {
	mu    sync.Mutex
	begin time.Time
	lines []string
	fail  error
}

func (s *story) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%v ", time.Since(s.begin))+fmt.Sprintf(format, args...))
}

func (s *story) processes() *Processes {
	s.begin = time.Now()
	return New(Config{
		Clock: vtime.Wall(),
		Act: func(_ context.Context, service string, a spec.Action) error {
			if s.fail == nil {
				s.say("%s %s", a, service)
			}
			return s.fail
		},
		Fired:  func(r fault.Rule, n int) { s.say("%s fired %d", r.ID, n) },
		Failed: func(r fault.Rule, err error) { s.say("%s failed: %v", r.ID, err) },
	})
}

func (s *story) want(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.lines, want) {
		t.Errorf("got  %q\nwant %q", s.lines, want)
	}
}

func rule(id string, a spec.Action, after, lasts time.Duration) fault.Rule {
	return fault.Rule{ID: id, Process: &fault.Process{Service: "db", Action: string(a), After: after, For: lasts}}
}

func begin(t *testing.T, p *Processes, rules ...fault.Rule) {
	t.Helper()
	if err := p.Install(rules...); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		p.Begin(r.ID)
	}
}

func TestRulesActWhenTheirTimeComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		p := s.processes()
		defer p.Close()
		begin(t, p, rule("kill", spec.Kill, 50*time.Millisecond, 0), rule("back", spec.Restart, 80*time.Millisecond, 0), rule("late", spec.Kill, time.Hour, 0))
		time.Sleep(time.Second)
		p.Lift("late", "kill", "back")
		time.Sleep(2 * time.Hour)
		s.want(t, "50ms kill db", "50ms kill fired 1", "80ms restart db", "80ms back fired 1")
		if p.Fired("late") != 0 || p.Why("late") != "the fault was over before 1h0m0s had passed" {
			t.Errorf("late: fired %d, %q", p.Fired("late"), p.Why("late"))
		}
	})
}

func TestPausesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		p := s.processes()
		defer p.Close()
		// At once: it has happened when Begin returns.
		begin(t, p, rule("short", spec.Pause, 0, 10*time.Millisecond))
		s.want(t, "0s pause db", "0s short fired 1")
		begin(t, p, rule("long", spec.Pause, 0, 0))
		time.Sleep(20 * time.Millisecond)
		s.want(t, "0s pause db", "0s short fired 1", "0s pause db", "0s long fired 1")
		p.Lift("long")
		synctest.Wait()
		s.want(t, "0s pause db", "0s short fired 1", "0s pause db", "0s long fired 1", "20ms resume db")
	})
}

func TestCloseEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		p := s.processes()
		begin(t, p, rule("pause", spec.Pause, 0, 0), rule("kill", spec.Kill, time.Second, 0))
		p.Close()
		p.Begin("kill")
		time.Sleep(time.Minute)
		s.want(t, "0s pause db", "0s pause fired 1", "0s resume db")
	})
}

func TestWhatCannotActHasNotFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := story{fail: errors.New("db was not running")}
		p := s.processes()
		defer p.Close()
		begin(t, p, rule("pause", spec.Pause, 0, 0))
		if p.Fired("pause") != 0 || p.Why("pause") != "db was not running" {
			t.Errorf("fired %d, %q", p.Fired("pause"), p.Why("pause"))
		}
		// It paused nothing, so that it resumes nothing either.
		p.Lift("pause")
		synctest.Wait()
		s.want(t, "0s pause failed: db was not running")
	})
}

func TestStopped(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pid := cmd.Process.Pid
	if Stopped(pid) {
		t.Error("a process that sleeps is not stopped")
	}
	if Stopped(syscall.Getpgrp()) {
		t.Errorf("this process (%d) is not stopped", os.Getpid())
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); !Stopped(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never stopped")
		}
	}
}
