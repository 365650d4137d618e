package spec

import (
	"context"
	"fmt"
	"time"

	"github.com/squallhq/squall/fault"
)

// World is the running system, as a scenario's body sees it.
type World interface {
	// Call takes a step against an interface. The error is for what makes the scenario itself
	// impossible; a step that fails is a Response with OK false.
	Call(ctx context.Context, t Target, op Operation) (Response, error)
	// Inject puts rules in force until they are released or the body ends. An *Ended error with
	// not-subscribed means that the leaf cannot carry them out.
	Inject(ctx context.Context, rules ...fault.Rule) (Active, error)
	// Act does something to a service's processes.
	Act(ctx context.Context, service string, a Action) error
	// Choose decides an unknown with n options and returns one of 0 to n-1.
	Choose(name string, n int) (int, error)
	// Parallel runs branches as coroutines: one runs at a time and hands over at World calls.
	Parallel(ctx context.Context, branches ...func(context.Context, World) error) error
	// Events returns the log.
	Events() View
	// Sleep waits.
	Sleep(ctx context.Context, d time.Duration) error
	// End ends the leaf where it stands; the body returns its result as its own error.
	End(e Ended) error
}

// Active is a set of rules in force.
type Active interface {
	// Release lifts them; what they hold goes on. A second call does nothing.
	Release()
	// Fired returns how often each has acted, in the order given to Inject.
	Fired() []int
}

// Action is something done to a service.
type Action string

// The actions.
const (
	Kill    Action = "kill"
	Pause   Action = "pause"
	Resume  Action = "resume"
	Restart Action = "restart"
)

// Ended is the error by which a body ends on purpose, or because it cannot go on.
type Ended struct {
	// Code is a reason of the verdict table: halted, await-unmet, not-subscribed, ...
	Code   string
	Detail string
	// Subject is the rule, property or service concerned.
	Subject  string
	Position string
}

// Error returns the code and the detail.
func (e *Ended) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Detail) }
