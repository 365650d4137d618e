package spec

import (
	"context"
	"fmt"
	"strings"
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
	// Choose decides an unknown and returns the number of an option. Each option gets a leaf of its own.
	Choose(c Choice) (int, error)
	// Parallel runs branches as coroutines: one runs at a time and hands over at World calls.
	Parallel(ctx context.Context, how Interleaving, branches ...func(context.Context, World) error) error
	// Events returns the log.
	Events() View
	// Sleep waits.
	Sleep(ctx context.Context, d time.Duration) error
	// End ends the leaf where it stands; the body returns its result as its own error.
	End(e Ended) error
}

// Choice is an unknown to be decided.
type Choice struct {
	// Name tells it apart from others. One without a name is known by its place in the order of calls.
	Name string
	// Options are what it is decided between, in words.
	Options []string
}

// Order says which orders of the operations of parallel branches get leaves of their own.
type Order string

// The orders. An operation is a call of the World that has to do with the system.
const (
	// OneOrder lets operations of branches overlap, as they come.
	OneOrder Order = ""
	// AllOrders tries every order, CriticalOrders one of each set that differ only in the order of
	// operations on different services, SomeOrders as many drawn ones as Count says.
	AllOrders      Order = "all"
	CriticalOrders Order = "critical"
	SomeOrders     Order = "some"
)

// Interleaving says how parallel branches take turns.
type Interleaving struct {
	Order Order
	Count int
	// Exempt are services on which steps are not put in order.
	Exempt []string
}

// Active is a set of rules in force.
type Active interface {
	// Release lifts them; what they hold goes on. A second call does nothing.
	Release()
	// LetGo lets what they hold go on and returns how many calls and requests that were; the rules stay in force. It fails
	// where none of them holds anything.
	LetGo() (int, error)
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

// KillBy returns the action of sending a signal, by its name ("SIGTERM"), to a service's processes. A service may
// outlive it.
func KillBy(signal string) Action { return Action("kill " + signal) }

// Signal returns the signal of a KillBy, and "" for other actions.
func (a Action) Signal() string {
	signal, ok := strings.CutPrefix(string(a), "kill ")
	if !ok {
		return ""
	}
	return signal
}

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
