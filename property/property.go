// Package property says what must hold: monitors over single events and temporal
// properties over traces.
//
// Properties are pure: they see events and decide. internal/check evaluates them,
// the same way on a running leaf and on a log from disk.
package property

import "github.com/squallhq/squall/event"

// Monitor is a safety property: a state machine fed with each event in order.
type Monitor struct {
	Name string
	// On chooses the events; nil means every one.
	On func(event.Event) (bool, error)
	// Like chooses the events that have what On looks at; nil means that this is not known.
	Like *Like
	// Init is the state before the first event.
	Init any
	// Step sees the trace so far, whose last event is the current one, and returns the next state.
	// triggered tells that what the monitor watches for has occurred. A *Violation is a verdict;
	// any other error means that the monitor itself is broken.
	Step func(trace []event.Event, state any) (next any, triggered bool, err error)
	// Position is file:line:column in the spec.
	Position string
}

// Kind is the operator of a temporal property.
type Kind string

// The operators.
const (
	// Eventually: at some point of the window the predicate is true. Once true, it stays decided.
	Eventually Kind = "eventually"
	// Always: at every point of the window the predicate is true.
	Always Kind = "always"
	// Until: where the predicate becomes true during the body, the body ends in the regular way. It has no
	// window. A Violation of the predicate is one as everywhere.
	Until Kind = "terminate_when"
)

// Temporal is a property over the trace, decided at each event.
type Temporal struct {
	Name string
	Kind Kind
	// Holds sees the trace so far.
	Holds func(trace []event.Event) (bool, error)
	// Window limits where it is checked; nil means the whole body.
	Window *Window
	// Position is file:line:column in the spec.
	Position string
}

// Window is a part of the trace, from the event that From chooses to the one that To chooses.
type Window struct {
	// From opens the window; nil means at the body's begin.
	From func(event.Event) (bool, error)
	// To closes it; nil means at the body's end.
	To func(event.Event) (bool, error)
	// Name says it in the words of the spec.
	Name string
}

// Violation is the error by which a property or an expectation says that it does not hold.
type Violation struct {
	Message string
	// Witness is the Seq of the event that shows it; 0 means the current one.
	Witness int64
	// Position is file:line:column in the spec.
	Position string
}

// Error returns the message.
func (v *Violation) Error() string { return v.Message }
