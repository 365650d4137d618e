// Package spec says what a system is and what is tried on it, as plain data.
//
// A Suite comes from a Starlark file (internal/starbind) or is built in Go. A
// scenario's body talks to the running system through a World only, so it is the
// same code whoever implements that.
package spec

import (
	"context"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/property"
)

// Suite is a whole specification.
type Suite struct {
	// Source is the main file's path, or the name that a Go suite has.
	Source string
	// Files are all files that were read, with their content; the first is the main one.
	Files []File
	// Services stand in the order of declaration.
	Services []*Service
	// Volumes are what worlds show of the machine at another place.
	Volumes     []Volume
	Scenarios   []*Scenario
	Assumptions []*Assumption
	Matrices    []*Matrix
	// Monitors and Temporal hold in every leaf.
	Monitors []*property.Monitor
	Temporal []*property.Temporal
	// Determinism is how reproducible the leaves have to be.
	Determinism Determinism
}

// File is a file that a specification read.
type File struct {
	// Path is relative to the main file's directory.
	Path    string
	Content []byte
}

// Loader builds a Suite from its source. It is called in the process that plans and again, with
// the same source, in the process of each leaf.
type Loader interface {
	Load(ctx context.Context, source string) (*Suite, error)
}

// Service is a program of the system.
type Service struct {
	Name string
	// Binary is the program's path, absolute.
	Binary string
	Args   []string
	// Env is added to a small base environment (PATH, HOME, LANG, TMPDIR).
	Env map[string]string
	// Dir is the working directory, absolute; "" means the main file's directory.
	Dir string
	// Ref is the name by which the source knows it; "" for none.
	Ref        string
	Interfaces []*Interface
	// DependsOn are services to be ready first.
	DependsOn []string
	Health    *Health
	// Observe says what is recorded of it beside its output, and how lines are read.
	Observe []Observer
	// StopTimeout is how long after SIGTERM it gets SIGKILL; 0 means 2 s.
	StopTimeout time.Duration
	// Seed prepares it once it is ready, before anything that depends on it starts; nil for nothing.
	Seed Body `json:"-"`
	// Ops are names for some of its calls.
	Ops map[string]Op
	// NondeterministicOK are sources of chance that it may use.
	NondeterministicOK []Nondeterminism
	Position           string
}

// Interface is a place where a service listens.
type Interface struct {
	Service string
	Name    string
	// Protocol names an entry of protocol/all.
	Protocol string
	Port     int
	// Path is the place of a Unix socket; then Port is 0.
	Path string
	// Messages has what passes on its connections recorded, where the protocol's messages can be told apart.
	Messages bool
	Position string
}

// Health is how a service shows that it is ready.
type Health struct {
	// Kind is "tcp" (it accepts), "http" (it answers a GET) or "ready" (it answers its protocol's own question).
	Kind string
	// Address is host:port for tcp, a URL for http, the name of an interface for ready; localhost is the service's own.
	Address string
	// Statuses are what http takes for an answer, nil for 200 to 399; Body is a part of the answer's text.
	Statuses []int
	Body     string
	// Timeout is how long it may take; 0 means 10 s.
	Timeout  time.Duration
	Position string
}

// Scenario is a flow that is tried.
type Scenario struct {
	Name string
	Doc  string
	Body Body
	// Setup runs before the body, once the services are ready and no fault is in force; nil for none. It
	// injects nothing. The body finds its result with SetupResult.
	Setup Body
	// MayInject is everything that the body can reach, found before any program starts.
	MayInject []Scope
	// Monitors and Temporal hold in this scenario's leaves.
	Monitors []*property.Monitor
	Temporal []*property.Temporal
	// Choices are the unknowns that its code can come to, as far as that is known without running it; in the order of
	// the calls as long as they are Sure.
	Choices []KnownChoice
	// ActsOn are the services whose processes its code may kill, pause, resume or restart; "" stands for any.
	ActsOn []string
	// Ref is the name by which the source knows its body as a function without parameters; "" for none.
	Ref string
	// RulesOut reports, for options by the names of choices, whether no leaf takes them together; nil for never.
	RulesOut func(options map[string]int) (why string)
	// Expect judges the result where no matrix cell does; nil means that returning is enough.
	Expect Expect
	// Timeout bounds the body; 0 means 30 s.
	Timeout  time.Duration
	Position string
}

// Body runs a scenario. Its result goes to the expectation.
type Body func(ctx context.Context, w World) (result any, err error)

// Expect judges a result. A *property.Violation fails the leaf; another error means that the
// expectation itself is broken.
type Expect func(ctx context.Context, w World, result any) error

// KnownChoice is a choice that stands in the text of a body.
type KnownChoice struct {
	// Choice has no options where they are not known.
	Choice
	// Sure is set where every run comes to it, unless the body ends before. Fans is set for parallel(), whose orders
	// come to light in the running.
	Sure, Fans bool
	Position   string
}

// Scope is a set of things that a body may inject.
type Scope struct {
	// Service limits it; "" means any.
	Service string
	// Calls are kernel names of system calls.
	Calls []string
	// Links are pairs whose connections may be touched, Messages those whose messages may be.
	Links, Messages []fault.Pair
	// Everything is set where the reachable code could not be resolved.
	Everything bool
}

// Assumption is a named fault with the properties that travel with it.
type Assumption struct {
	Name     string
	Doc      string
	Rules    []fault.Rule
	Monitors []*property.Monitor
	Temporal []*property.Temporal
	// Parts are the assumptions that it puts in force together; nil for one that stands alone.
	Parts    []*Assumption
	Position string
}

// Matrix crosses scenarios with assumptions.
type Matrix struct {
	Scenarios   []*Scenario
	Assumptions []*Assumption
	// Default judges cells without an override; nil means that returning is enough.
	Default   Expect
	Overrides map[CellKey]Expect
	Exclude   map[CellKey]bool
	Monitors  []*property.Monitor
	Temporal  []*property.Temporal
	// Timeout replaces the scenario's where it is not 0.
	Timeout time.Duration
	// FaultsMayRest lets rules of its cells never fire without harm to a PASS.
	FaultsMayRest bool
	Position      string
}

// CellKey names a cell of a matrix.
type CellKey struct{ Scenario, Assumption string }

// Process is a program to be run under supervision.
type Process struct {
	// Path is absolute. Args has the program's name first.
	Path string
	Args []string
	Env  []string
	Dir  string
	// Stdin, Stdout and Stderr are descriptors of the supervisor; -1 means /dev/null.
	Stdin, Stdout, Stderr int
	// NetNS is a descriptor of the network namespace to start in; -1 means the caller's.
	NetNS int
	// DropCaps clears all capabilities before the program runs.
	DropCaps bool
	// KeepPrivileges lets set-user-id programs have their effect (no_new_privs stays unset). It needs CAP_SYS_ADMIN.
	KeepPrivileges bool
	// KeepGroup leaves the program in the supervisor's process group, as a command at a terminal needs;
	// otherwise it gets a group of its own. The session stays: the scheduler treats sessions as rivals
	// (autogroup), which doubles the round trip between two programs of one system.
	KeepGroup bool
	// OpenFiles is the soft limit on open files; 0 means the supervisor's, which Go has raised to the hard one.
	OpenFiles uint64
}

// Target is an interface that the scenario talks to.
type Target struct {
	Service, Interface, Protocol string
	Port                         int
	// Path is the place of a Unix socket; then Port is 0.
	Path string
	// Env is the service's environment as declared, from which a client takes credentials.
	Env map[string]string
}

// String returns service.interface.
func (t Target) String() string { return t.Service + "." + t.Interface }

// Operation is a step: a method of the target's protocol and its arguments.
type Operation struct {
	Method  string
	Args    map[string]any
	Timeout time.Duration
	// Position is file:line:column in the spec.
	Position string
}

// Response is what a step brought back. A step that failed has OK false and an Error; that is a
// result, not a broken scenario.
type Response struct {
	Status int
	OK     bool
	Body   string
	Error  string
	// TimedOut is set where the step's own time ran out without an answer.
	TimedOut bool
	Duration time.Duration
	Fields   map[string]any
	// Event is the Seq of the step's receipt.
	Event int64
}

// View is the log as a scenario sees it.
type View interface {
	// All returns the events so far.
	All() []event.Event
	// Await returns the first event, past or to come, for which match is true.
	Await(ctx context.Context, match func(event.Event) (bool, error)) (event.Event, error)
	// AwaitStable returns once no event for which ignore is false came for the time quiet.
	AwaitStable(ctx context.Context, quiet time.Duration, ignore func(event.Event) (bool, error)) error
	// Note records something for the reader.
	Note(message string)
}
