// Package static finds out about the code of a spec without running it: what names stand for, what
// a function may inject, and which calls can't be right.
package static

import (
	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/source"
)

// Program is all code of a spec, after its top level has run.
type Program struct {
	Index       *source.Index
	Modules     []Module
	Predeclared starlark.StringDict
	// Reference returns the service that ref(name) stands for, or nil.
	Reference func(name string) starlark.Value
	// Op returns the calls that a service has given a name, or any service where it is "". It may be nil.
	Op func(service, name string) []string
}

// Module is one file of it. Globals are final and frozen; Loaded is what its load statements bind.
type Module struct {
	File            *source.File
	Globals, Loaded starlark.StringDict
}

// Fixed is a value whose attributes do not depend on when they are asked for.
type Fixed interface {
	starlark.HasAttrs
	FixedAttrs()
}

// Target is a value that stands for a service or for one of its interfaces.
type Target interface {
	// Target returns the service and, for an interface, its name.
	Target() (service, iface string)
}

// Actor is a value that acts on connections, on their messages, or on either, as its target wants.
type Actor interface {
	Acts() (connections, messages bool)
}

// Injector is a value that holds rules, or the link of a rule to be.
type Injector interface {
	Injects() ([]fault.Rule, []fault.Pair)
}
