package starbind

import (
	"context"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/value"
)

var (
	_ oracle.Scope = (*env)(nil)
	_ oracle.Load  = (*loader)(nil)
)

// Judging is the load, for code that judges a run.
func (e *env) Judging() oracle.Load { return e.loader }

// Looked notes that a property asked for the trace.
func (e *env) Looked() { e.looked = true }

// Trace is the trace that code can see where it runs, for the values made of it.
func (e *env) Trace() *value.Whole {
	w := &value.Whole{Methods: e.loader, Alone: e.alone}
	if e.when == bind.InProperty {
		e.looked = true
		w.Events = e.trace
	} else {
		w.Events = e.world.Events().All()
	}
	return w
}

// Run calls a function of a property.
func (ld *loader) Run(name string, sees *value.Whole, fn starlark.Callable, args ...starlark.Value) (starlark.Value, bool, error) {
	e := &env{when: bind.InProperty, ctx: context.Background(), trace: sees.Events, alone: sees.Alone}
	v, err := ld.run(e, name, fn, args...)
	return v, e.looked, err
}

// Properties are those declared so far.
func (ld *loader) Properties() *oracle.Properties { return &ld.decls.properties }

// Written is an expression as it stands in its line.
func (ld *loader) Written(e syntax.Expr) string {
	start, end := e.Span()
	m := ld.modules[start.Filename()]
	if m == nil || m.file == nil || start.Line != end.Line || int(start.Line) > len(m.file.Lines) {
		return ""
	}
	line := []rune(m.file.Lines[start.Line-1])
	if int(end.Col)-1 > len(line) {
		return ""
	}
	return string(line[start.Col-1 : end.Col-1])
}
