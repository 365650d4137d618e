// Package bind binds the arguments of builtins.
//
// A builtin is an Entry of a table: its name, its parameters with their kinds, and what it does.
// Binding, checks, messages with the nearest name and the reference page all come from the entry.
package bind

import (
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/source"
)

// Phase is a time at which code of a spec runs. As a set it says where a builtin may be used.
type Phase uint8

// The phases.
const (
	// AtLoad is the top level of the files and what it calls.
	AtLoad Phase = 1 << iota
	// InBody is a scenario's body or an expectation: there is a world.
	InBody
	// InProperty is a monitor or predicate: there is a trace only.
	InProperty

	Anywhere = AtLoad | InBody | InProperty
)

// String says the phases in words, as a place where something may be used.
func (p Phase) String() string {
	var parts []string
	for _, row := range []struct {
		bit  Phase
		name string
	}{
		{AtLoad, "at the top level"},
		{InBody, "in a scenario or expectation"},
		{InProperty, "in a monitor or predicate"},
	} {
		if p&row.bit != 0 {
			parts = append(parts, row.name)
		}
	}
	return strings.Join(parts, ", ")
}

// Reach says what calling a builtin may inject.
type Reach uint8

// What may be injected.
const (
	InjectsNothing Reach = iota
	// InjectsRules is fault and fault_start: the target and the keywords tell.
	InjectsRules
	// InjectsPartition is partition and partition_start: the two services tell.
	InjectsPartition
	// InjectsLink is link: a rule on it may be passed to fault on any way.
	InjectsLink
	// InjectsTrace is trace: the service and the list of calls tell. It changes nothing, but has to be subscribed.
	InjectsTrace
	// InjectsEverywhere is fault_all: the list of services and the keywords tell.
	InjectsEverywhere
)

// Acts is a set of things that a rule acts on.
type Acts uint8

// What a rule acts on.
const (
	OnConnections Acts = 1 << iota
	OnMessages
	OnProcesses
)

// Entry is one builtin.
type Entry struct {
	Name    string
	Doc     string
	Example string
	Phases  Phase
	Reach   Reach
	// Acts says on what the rule acts that the builtin makes.
	Acts Acts
	// Checks marks a builtin that can keep a leaf from passing: code that calls none checks nothing.
	Checks bool
	// Pure builtins only build a value, so their literal arguments are checked before anything runs.
	Pure   bool
	Params []Param
	// Rest takes the keywords that Params does not name.
	Rest *Rest
	Do   func(c *Call) (starlark.Value, error)
	// Check looks at a call that is not made yet, by those of its arguments whose values are known. It may be nil.
	Check func(c *Call, known func(param string) bool)
}

// Keywords lists what may stand before an = in a call.
func (e *Entry) Keywords() []string {
	var names []string
	for _, p := range e.Params {
		if !p.Variadic {
			names = append(names, p.Name)
		}
	}
	if e.Rest != nil && e.Rest.Known != nil {
		names = append(names, e.Rest.Known()...)
	}
	return names
}

// Param is a parameter. Parameters are given by position, in order, or by keyword.
type Param struct {
	Name     string
	Kind     Kind
	Required bool
	// Preset is the default as the reference shows it.
	Preset string
	Doc    string
	// Variadic takes all positional arguments that are left; what follows it is by keyword only.
	Variadic bool
	// Unsupported parameters are refused by name.
	Unsupported bool
}

// Rest describes keywords whose names are not fixed.
type Rest struct {
	// Label stands for them in the reference: "<call>".
	Label string
	Doc   string
	// Known lists the names, for messages; with Check, no other name passes.
	Known func() []string
	Check bool
	Kind  Kind
}

// Takes reports whether a keyword is one of the rest.
func (r *Rest) Takes(name string) bool {
	if r == nil {
		return false
	}
	if !r.Check {
		return true
	}
	for _, known := range r.Known() {
		if known == name {
			return true
		}
	}
	return false
}

// Kind is a type of argument: its name for messages and the reference, and the conversion. On
// failure Convert reports why, through the call, and returns false; where it reports nothing, the
// call says what was wanted.
type Kind struct {
	Name    string
	Convert func(c *Call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool)
}

// Keyword is a keyword argument that Entry.Rest took.
type Keyword struct {
	Name  string
	Value any
	At    source.Span
}

// Host is what calls find around them: one for each thread, attached to it.
type Host interface {
	// Phase is the time at which the thread runs.
	Phase() Phase
	// Site finds the call that a thread is about to make.
	Site(t *starlark.Thread) source.Site
	// Diagnostic makes a diagnostic with the line of the source.
	Diagnostic(at source.Span, near, message string) source.Diagnostic
	// Keep takes a diagnostic while loading, which goes on.
	Keep(d source.Diagnostic)
}

const hostKey = "squall"

// Attach gives a thread its host.
func Attach(t *starlark.Thread, h Host) { t.SetLocal(hostKey, h) }

// HostOf returns a thread's host.
func HostOf(t *starlark.Thread) Host {
	h, _ := t.Local(hostKey).(Host)
	return h
}

// Broken stands for a value that could not be made. It takes every use without a further report.
type Broken struct{}

// String writes it for messages.
func (Broken) String() string { return "<broken>" }

// Type names its type.
func (Broken) Type() string { return "broken" }

// Freeze does nothing: it does not change.
func (Broken) Freeze() {}

// Truth is True.
func (Broken) Truth() starlark.Bool { return true }

// Hash makes it usable as a key.
func (Broken) Hash() (uint32, error) { return 0, nil }

// Name makes it a function.
func (Broken) Name() string { return "broken" }

// Attr returns Broken again.
func (Broken) Attr(string) (starlark.Value, error) { return Broken{}, nil }

// AttrNames returns nothing.
func (Broken) AttrNames() []string { return nil }

// Get returns Broken again.
func (Broken) Get(starlark.Value) (starlark.Value, bool, error) { return Broken{}, true, nil }

// Binary returns Broken again.
func (Broken) Binary(syntax.Token, starlark.Value, starlark.Side) (starlark.Value, error) {
	return Broken{}, nil
}

// CallInternal returns Broken again.
func (Broken) CallInternal(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return Broken{}, nil
}
