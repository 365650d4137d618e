package starbind

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// env is what a builtin finds around it: one for each thread.
type env struct {
	loader *loader
	when   bind.Phase
	ctx    context.Context
	// world and body are set in a body.
	world spec.World
	body  *bodyState
	// trace is set in a property; looked is whether it was asked for.
	trace  []event.Event
	looked bool
	// alone is set in a function of one event that sees no other.
	alone bool
}

// bodyState is shared by the threads of one body.
type bodyState struct {
	mu      sync.Mutex
	started []*active
	made    map[string]int
	// exempt are services for whose order nobody asks, named has what was chosen under a name.
	exempt []string
	named  map[string]starlark.Value
}

// Topology is that of the load.
func (e *env) Topology() *topology.Topology { return e.loader.topology }

// Context ends with the body's time.
func (e *env) Context() context.Context { return e.ctx }

// World is the world of a body.
func (e *env) World() spec.World { return e.world }

// Phase returns when the thread runs.
func (e *env) Phase() bind.Phase { return e.when }

// Diagnostic makes a diagnostic with the line of the source.
func (e *env) Diagnostic(at source.Span, near, message string) source.Diagnostic {
	return e.loader.Diagnostic(at, near, message)
}

// Keep takes a diagnostic while loading.
func (e *env) Keep(d source.Diagnostic) { e.loader.reports = append(e.loader.reports, d) }

// Site finds the call that the interpreter is about to make. Where a builtin is called by another
// one, the site has no node.
func (e *env) Site(t *starlark.Thread) source.Site {
	for depth := 1; depth < t.CallStackDepth(); depth++ {
		pos := t.CallFrame(depth).Pos
		if !isSpec(pos) {
			continue
		}
		s := source.Site{Pos: pos}
		if depth == 1 {
			s.Node = e.loader.index.Calls[source.PlaceOf(pos)]
		}
		return s
	}
	return source.Site{}
}

// isSpec reports whether a position is in a spec, not in a builtin.
func isSpec(p syntax.Position) bool { return p.IsValid() && p.Filename() != "<builtin>" }

// scriptError turns an error of the interpreter into one that says where.
func (ld *loader) scriptError(err error) *ScriptError {
	var own *ScriptError
	if errors.As(err, &own) && own.Trace != nil {
		return own
	}
	var ee *starlark.EvalError
	if !errors.As(err, &ee) {
		if own != nil {
			return own
		}
		return &ScriptError{Diagnostic: Diagnostic{Message: err.Error()}}
	}
	out := &ScriptError{Trace: []string{}}
	for i := range ee.CallStack {
		fr := ee.CallStack.At(i)
		switch {
		case !isSpec(fr.Pos):
		case out.Line == 0:
			out.Diagnostic = ld.Diagnostic(ld.runtimeSpan(fr.Pos), "", "")
		default:
			out.Trace = append(out.Trace, fmt.Sprintf("%s in %s", source.PlaceOf(fr.Pos), fr.Name))
		}
	}
	if own != nil {
		out.Diagnostic = own.Diagnostic
		return out
	}
	out.Message, out.Nearest = splitHint(ee.Msg)
	return out
}

// runtimeSpan widens the position of a call to the name of what is called, that of a load to its file.
func (ld *loader) runtimeSpan(pos syntax.Position) source.Span {
	if load := ld.index.Loads[source.PlaceOf(pos)]; load != nil {
		return source.SpanOf(load.Module)
	}
	if call := ld.index.Calls[source.PlaceOf(pos)]; call != nil {
		return source.SpanOf(call.Fn)
	}
	return source.At(pos)
}

// splitHint takes the nearest name out of a message of the interpreter.
func splitHint(msg string) (message, near string) {
	message, hint, found := strings.Cut(msg, " (did you mean ")
	if !found {
		return strings.TrimPrefix(msg, "Starlark computation cancelled: "), ""
	}
	return message, strings.TrimPrefix(strings.TrimSuffix(hint, "?)"), ".")
}

// run calls a function of a spec on a thread of its own and settles what its error means.
func (ld *loader) run(e *env, name string, fn starlark.Callable, args ...starlark.Value) (starlark.Value, error) {
	thread := &starlark.Thread{Name: name, Print: note}
	if e.when == bind.InProperty {
		thread.SetMaxExecutionSteps(ld.steps())
		thread.OnMaxSteps = func(t *starlark.Thread) { t.Cancel("the property does not come to an end here") }
	}
	e.loader = ld
	bind.Attach(thread, e)
	stop := context.AfterFunc(e.ctx, func() { thread.Cancel("the time is up") })
	defer stop()
	v, err := guarded(thread, fn, args)
	if err != nil {
		return nil, ld.settle(e.ctx, err)
	}
	return v, nil
}

// guarded turns a panic of the interpreter into an error: a comparison of a list with a trace, in this
// order, is one.
func guarded(thread *starlark.Thread, fn starlark.Callable, args starlark.Tuple) (v starlark.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			message := fmt.Sprintf("%s can't be evaluated: %v; where a list is compared with events, write the events first", fn.Name(), p)
			var at source.Span
			if f, ok := fn.(*starlark.Function); ok {
				at = source.At(f.Position())
			}
			e, _ := bind.HostOf(thread).(*env)
			err = &ScriptError{Diagnostic: e.loader.Diagnostic(at, "", message), Trace: []string{}}
		}
	}()
	return starlark.Call(thread, fn, args, nil)
}

// settle finds what an error of a body is: a violation, an end on purpose, the context's end, or a
// mistake in the spec.
func (ld *loader) settle(ctx context.Context, err error) error {
	var violation *property.Violation
	if errors.As(err, &violation) {
		return violation
	}
	var ended *spec.Ended
	if errors.As(err, &ended) {
		return ended
	}
	if ctx.Err() != nil {
		at := ld.scriptError(err)
		return fmt.Errorf("starbind: %s:%d:%d: %w", at.File, at.Line, at.Col, context.Cause(ctx))
	}
	// A failure of the world is no mistake of the spec: it stays visible to errors.Is.
	var failed *bind.WorldError
	if errors.As(err, &failed) {
		return failed
	}
	return ld.scriptError(err)
}

// note is print() in a body: a note in the log.
func note(t *starlark.Thread, msg string) {
	if e, ok := bind.HostOf(t).(*env); ok && e.world != nil {
		e.world.Events().Note(msg)
	}
}

// judged tells the world whether code can keep the leaf from passing, where it wants to know.
func (e *env) judged(checks bool) {
	view := e.world.Events()
	if v, ok := view.(interface{ Asserted() }); ok && checks {
		v.Asserted()
	}
	if v, ok := view.(interface{ Unjudged() }); ok && !checks {
		v.Unjudged()
	}
}

// bodyOf makes a scenario's body of a function.
func (ld *loader) bodyOf(name string, fn starlark.Callable, args ...starlark.Value) spec.Body {
	return func(ctx context.Context, w spec.World) (any, error) {
		e := &env{when: bind.InBody, ctx: ctx, world: w, body: &bodyState{made: map[string]int{}}}
		v, err := ld.run(e, name, fn, args...)
		if err != nil {
			return nil, err
		}
		v.Freeze()
		return v, nil
	}
}

// expectOf makes an expectation of a function: False is a violation.
func (ld *loader) expectOf(fn starlark.Callable, at string) spec.Expect {
	return func(ctx context.Context, w spec.World, result any) error {
		v, ok := result.(starlark.Value)
		if !ok {
			v = starlark.None
		}
		e := &env{when: bind.InBody, ctx: ctx, world: w, body: &bodyState{made: map[string]int{}}}
		got, err := ld.run(e, "expectation", fn, v)
		if err != nil {
			return err
		}
		_, decided := got.(starlark.Bool)
		e.judged(decided || ld.program().Checks(fn))
		if got == starlark.False {
			return &property.Violation{Message: "the expectation returned False for " + value.Short(v), Position: at}
		}
		return nil
	}
}
