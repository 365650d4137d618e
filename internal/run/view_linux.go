package run

import (
	"context"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/run/order"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// view is the log as the body sees it. Each wait lets the properties see what has come, so that a
// violated one ends the body early.
type view struct {
	log   *event.Log
	clock vtime.Clock
	// check returns an error once a property is violated.
	check func() error
	// drain brings into the log what the observers still hold.
	drain func()
	// asserted notes an assertion, add takes a property in mid-run.
	asserted func()
	add      func(*property.Temporal) error
	judge    *judge
	trace    func(service string, calls []spec.Observer) (func(), error)
	baton    *order.Baton
	// order stops a branch before an operation until it is its turn.
	order func(order.Operation) (leave func(), err error)
}

func (v view) All() []event.Event {
	v.drain()
	return v.log.All()
}

// Asserted tells that the body has made an assertion of its own.
func (v view) Asserted() { v.asserted() }

// Unjudged tells that an expectation was asked that cannot fail.
func (v view) Unjudged() { v.judge.unjudged.Store(true) }

// Watched tells of an assertion that holds where nothing happens what it looks at.
func (v view) Watched(name, position string, like property.Like) {
	if v.judge.watched == nil {
		v.judge.watched = map[string]bundle.Control{}
	}
	v.judge.watched[name] = bundle.Control{Name: name, Position: position, Like: &like}
}

// Trace records system calls of a service until stop is called.
func (v view) Trace(service string, calls []spec.Observer) (stop func(), err error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	return v.trace(service, calls)
}

// Property adds a property that sees what comes from here on.
func (v view) Property(t *property.Temporal) error {
	if err := v.check(); err != nil {
		return err
	}
	return v.add(t)
}

func (v view) Note(message string) {
	v.log.Append(event.Driver, event.Note, map[string]any{"message": message})
}

func (v view) Await(ctx context.Context, match func(event.Event) (bool, error)) (event.Event, error) {
	leave, err := v.order(order.Operation{What: "await_event", All: true})
	if err != nil {
		return event.Event{}, err
	}
	defer leave()
	var seen int64
	for {
		events, changed := v.log.Since(seen)
		for _, e := range events {
			ok, err := match(e)
			if ok || err != nil {
				return e, err
			}
			seen = e.Seq
		}
		if err := v.check(); err != nil {
			return event.Event{}, err
		}
		v.baton.Give()
		select {
		case <-changed:
			v.baton.Take()
		case <-ctx.Done():
			v.baton.Take()
			return event.Event{}, ctx.Err()
		}
	}
}

func (v view) AwaitStable(ctx context.Context, quiet time.Duration, ignore func(event.Event) (bool, error)) error {
	leave, err := v.order(order.Operation{What: "await_stable", All: true, Steady: true})
	if err != nil {
		return err
	}
	defer leave()
	seen := int64(v.log.Len())
	for {
		still, err := v.quiet(ctx, &seen, quiet, ignore)
		if still || err != nil {
			return err
		}
	}
}

// quiet waits until the time has passed without an event that counts, or for the first that does.
func (v view) quiet(ctx context.Context, seen *int64, d time.Duration, ignore func(event.Event) (bool, error)) (bool, error) {
	done, stop := v.clock.After(d)
	defer stop()
	for {
		events, changed := v.log.Since(*seen)
		for _, e := range events {
			*seen = e.Seq
			skip, err := ignore(e)
			if err != nil {
				return false, err
			}
			if !skip {
				return false, v.check()
			}
		}
		v.baton.Give()
		select {
		case <-changed:
			v.baton.Take()
		case <-done:
			v.baton.Take()
			return true, v.check()
		case <-ctx.Done():
			v.baton.Take()
			return false, ctx.Err()
		}
	}
}
