package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// turns puts the seeds in an order that is the same in every run: they write into one lane of the log. A service
// comes after those that it depends on, and otherwise as declared.
type turns map[string]turn

// turn is one seed's place: it begins when before is closed and closes done.
type turn struct {
	before <-chan struct{}
	done   chan struct{}
}

func (l *leaf) turns() turns {
	out := turns{}
	before := make(chan struct{})
	close(before)
	for _, name := range ordered(l.system.suite.Services) {
		if l.services[name].Seed == nil {
			continue
		}
		done := make(chan struct{})
		out[name] = turn{before, done}
		before = done
	}
	return out
}

// ordered are the services' names, each after those that it depends on. Names in a circle are left out.
func ordered(services []*spec.Service) []string {
	var out []string
	for range services {
		i := slices.IndexFunc(services, func(s *spec.Service) bool {
			waits := func(name string) bool { return !slices.Contains(out, name) }
			return waits(s.Name) && !slices.ContainsFunc(s.DependsOn, waits)
		})
		if i < 0 {
			break
		}
		out = append(out, services[i].Name)
	}
	return out
}

// seed prepares a service that has become ready. Like a setup it is no part of what is judged: where it does not come
// to its end the leaf is open, unless a property is violated meanwhile.
func (l *leaf) seed(ctx context.Context, s *service, turns turns) *verdict.Reason {
	if s.Seed == nil {
		return nil
	}
	at := turns[s.Name]
	select {
	case <-at.before:
	case <-ctx.Done():
		return &verdict.Reason{Code: verdict.Interrupted, Subject: s.Name, Detail: s.Name + ": its seed did not begin"}
	}
	l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": "seeding"})
	timeout := l.timeout()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w := &world{l: l, setup: true, steps: &steps{}}
	_, err := s.Seed(ctx, w)
	if err == nil {
		err = w.steps.failed()
	}
	got := l.prepared(ctx, err, timeout)
	if got != nil && got.Kind != check.Decided {
		why := unprepared(got, err, "seed", timeout)
		r := &verdict.Reason{Code: verdict.SeedFailed, Detail: s.Name + ": " + why.Detail, Subject: s.Name, Position: why.Position}
		if got.Kind == check.Interrupted {
			r.Code = verdict.Interrupted
		}
		return r
	}
	l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": "seeded"})
	close(at.done)
	return nil
}

// steps remembers which steps of a seed did not succeed the last time that they were taken: a seed that waits for
// something may try again, one that goes on regardless would leave the body with nothing to test.
type steps struct{ open []spec.Ended }

func (s *steps) taken(t spec.Target, op spec.Operation, r spec.Response) {
	if s == nil {
		return
	}
	s.open = slices.DeleteFunc(s.open, func(e spec.Ended) bool { return e.Position == op.Position })
	if !r.OK {
		s.open = append(s.open, spec.Ended{Detail: fmt.Sprintf("%s.%s failed: %s", t, op.Method, r.Error), Position: op.Position})
	}
}

func (s *steps) failed() error {
	if len(s.open) == 0 {
		return nil
	}
	return &unseeded{s.open[0]}
}

// unseeded is a step of a seed that failed.
type unseeded struct{ step spec.Ended }

func (e *unseeded) Error() string { return e.step.Detail }

// place finds where a step failed.
func place(err error) string {
	var step *unseeded
	if errors.As(err, &step) {
		return step.step.Position
	}
	return ""
}
