// Package topology has the builtins that say what the system is: services, where they listen, how they show that they
// are ready, what is recorded of them, and the steps that can be taken against them.
package topology

import (
	"context"
	"path/filepath"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Topology is the services that a spec has declared so far, and what it needs of the load that they come from.
type Topology struct {
	// Root is the main file's directory, absolute.
	Root      string
	Protocols map[string]protocol.Info
	Index     *source.Index
	// Report takes what is wrong once all is declared.
	Report func(at source.Span, near, format string, args ...any)
	// Body makes a body of a function.
	Body func(name string, fn starlark.Callable, args ...starlark.Value) spec.Body

	services   []*Service
	references []*reference
	// places holds the placeholders for addresses that are not known yet.
	places      []placeholder
	determinism spec.Determinism
	// volumes are those of all services, by the place in the world.
	volumes []spec.Volume
}

// Scope is what the builtins of this package find around them: the host of their calls.
type Scope interface {
	bind.Host
	// Topology is that of the load.
	Topology() *Topology
	// World and Context are those of a body.
	World() spec.World
	Context() context.Context
}

// Entries are the builtins of this package.
func Entries(protocols map[string]protocol.Info) []bind.Entry {
	return slices.Concat(serviceEntries(protocols), healthEntries(), opEntries(), observerEntries())
}

// Services returns the services in the order in which they were declared.
func (t *Topology) Services() []*Service { return t.services }

// Volumes returns the volumes of all services.
func (t *Topology) Volumes() []spec.Volume { return t.volumes }

// Determinism returns the contract on how reproducible leaves are.
func (t *Topology) Determinism() spec.Determinism { return t.determinism }

// CheckReferences reports references to services that are not declared.
func (t *Topology) CheckReferences() {
	for _, r := range t.references {
		if t.Service(r.name) == nil {
			t.Report(r.at, source.Nearest(r.name, t.names()), "ref: no service %q is declared", r.name)
		}
	}
}

// Settle settles what needs all declarations.
func (t *Topology) Settle() {
	for _, s := range t.services {
		t.fillService(s)
	}
	t.checkCycles()
	t.checkVariables()
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

func (c *call) topology() *Topology { return c.scope.Topology() }

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

// absolute resolves a path of a spec against the main file's directory.
func (t *Topology) absolute(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(t.Root, p)
}
