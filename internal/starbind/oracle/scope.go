// Package oracle has the builtins that judge a run: matchers over events, what looks at the trace, assertions,
// expectations of a result, monitors and temporal properties.
//
// What they need of the load and of the body around them is a Scope.
package oracle

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// Scope is what judging code finds around it: the host of the calls of this package.
type Scope interface {
	bind.Host
	// Judging is the load that the code comes from.
	Judging() Load
	// Looked notes that the code looked at the trace.
	Looked()
	// Trace is what the code can see of the run; it has then looked.
	Trace() *value.Whole
	// World is the world of a body; nil in a property and at the top level.
	World() spec.World
}

// Load is what judging code needs of the load that it comes from, then and afterwards.
type Load interface {
	value.Methods
	// Run calls a function that sees a trace and has no world, and reports whether it looked at that.
	Run(name string, sees *value.Whole, fn starlark.Callable, args ...starlark.Value) (v starlark.Value, looked bool, err error)
	// Diagnostic makes a diagnostic with the line of the source.
	Diagnostic(at source.Span, near, message string) source.Diagnostic
	// Written is an expression as it stands in its line; empty where it does not stand in one.
	Written(e syntax.Expr) string
	// Properties are those declared so far.
	Properties() *Properties
}

// Properties are the properties that a spec has declared.
type Properties struct {
	monitors []*Monitor
	temporal []*Temporal
}

// Everywhere returns those that nothing carries, so that they hold in every leaf.
func (p *Properties) Everywhere() (monitors []*property.Monitor, temporal []*property.Temporal) {
	for _, m := range p.monitors {
		if !m.used {
			monitors = append(monitors, m.decl)
		}
	}
	for _, t := range p.temporal {
		if !t.used {
			temporal = append(temporal, t.decl)
		}
	}
	return monitors, temporal
}

// call is a call of a builtin with what this package finds around it.
type call struct {
	*bind.Call
	scope Scope
}

func with(c *bind.Call) *call {
	s, _ := c.Host.(Scope)
	return &call{c, s}
}

// do makes a handler.
func do(fn func(c *call) (starlark.Value, error)) func(*bind.Call) (starlark.Value, error) {
	return func(c *bind.Call) (starlark.Value, error) { return fn(with(c)) }
}

// kindOf makes a kind of a conversion that needs the call.
func kindOf(name string, fn func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool)) bind.Kind {
	return bind.Kind{Name: name, Convert: func(c *bind.Call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		return fn(with(c), v, at, e)
	}}
}

// Text is an argument as it stands in the spec, or as a value where it was not written out.
func Text(l Load, v starlark.Value, e syntax.Expr) string {
	if e != nil {
		if written := l.Written(e); written != "" {
			return written
		}
	}
	return value.Short(v)
}

func (c *call) text(v starlark.Value, e syntax.Expr) string { return Text(c.scope.Judging(), v, e) }

// seen makes a trace of events for the values made of it.
func seen(l Load, events []event.Event) *value.Whole {
	return &value.Whole{Events: events, Methods: l}
}
