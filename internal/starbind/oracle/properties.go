package oracle

import (
	"cmp"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
)

// Monitor is a monitor as a value. Passed to something it holds there, otherwise in every leaf.
type Monitor struct {
	value.Opaque
	decl *property.Monitor
	used bool
}

// Temporal is a temporal property as a value. It holds where a monitor would.
type Temporal struct {
	value.Opaque
	decl *property.Temporal
	used bool
}

// Declarations are the builtins that say what must hold.
func Declarations() []bind.Entry {
	window := bind.Param{Name: "between", Kind: aWindow(), Preset: "the whole body",
		Doc: `where it is checked: a pair of "body_start", "body_end", "stable" (await_stable returned), matchers or functions of an event`}
	name := bind.Param{Name: "name", Kind: bind.String(), Preset: "the position", Doc: "its name in verdicts"}
	pred := bind.Param{Name: "pred", Kind: TracePredicate(), Required: true, Doc: "a matcher for the newest event, or a function of the trace that returns True or False"}
	return append(Matchers(), []bind.Entry{
		{
			Name: "monitor", Phases: bind.AtLoad,
			Doc:     "declares an invariant that sees each event. With a function alone, the function calls fail() when the invariant is broken. With update or check it is a state machine over the events that on chooses. Passed to a scenario, an assumption or a matrix it holds there; otherwise it holds in every leaf.",
			Example: "def confirmed_means_persisted(event):\n    if event[\"type\"] == \"stdout\" and event.get(\"status\") == \"confirmed\":\n        if not events(type = \"stdout\", service = \"db\", fields = {\"event\": \"persisted\"}):\n            fail(\"order confirmed but never persisted\")\n\npersisted = monitor(\"confirmed_means_persisted\", on = confirmed_means_persisted)",
			Params: []bind.Param{
				{Name: "name", Kind: bind.Name(), Required: true, Doc: "its name in verdicts"},
				{Name: "on", Kind: EventPredicate(), Required: true, Doc: "a function of an event, or a matcher"},
				{Name: "state_init", Kind: bind.Value(), Preset: "None", Doc: "the state before the first event"},
				{Name: "update", Kind: bind.Function(2), Doc: "returns the next state of (event, state)"},
				{Name: "check", Kind: bind.Function(2), Doc: "tells of (event, state after update) whether the invariant holds"},
			},
			Do: do(declareMonitor),
		},
		{
			Name: "eventually", Phases: bind.AtLoad | bind.InBody, Checks: true,
			Doc:     "declares that a predicate becomes true at some point of a window. At the top level it holds as a monitor does; in a scenario it holds from there on.",
			Example: `eventually(match.event(type = "stdout", msg = "elected"), anchor = match.event(type = "fault", op = "lifted"))`,
			Params: []bind.Param{
				pred, name,
				{Name: "anchor", Kind: EventPredicate(), Preset: "the body's start", Doc: "the event from which on it is checked"},
				window,
			},
			Do: do(func(c *call) (starlark.Value, error) { return declareTemporal(c, property.Eventually) }),
		},
		{
			Name: "always", Phases: bind.AtLoad | bind.InBody, Checks: true,
			Doc:     "declares that a predicate is true at every point of a window. At the top level it holds as a monitor does; in a scenario it holds from there on.",
			Example: `always(lambda trace: len(events(type = "stdout", role = "leader")) <= 1, name = "one_leader")`,
			Params:  []bind.Param{pred, name, window},
			Do:      do(func(c *call) (starlark.Value, error) { return declareTemporal(c, property.Always) }),
		},
	}...)
}

// MonitorKind is a monitor.
func MonitorKind() bind.Kind {
	return bind.Scalar("a monitor()", func(v starlark.Value) (any, bool) {
		m, ok := v.(*Monitor)
		return m, ok
	})
}

// TemporalKind is a temporal property.
func TemporalKind() bind.Kind {
	return bind.Scalar("eventually() or always()", func(v starlark.Value) (any, bool) {
		t, ok := v.(*Temporal)
		return t, ok
	})
}

// Predicate is a matcher, or a function of an event or a trace.
type Predicate struct {
	matcher *matcher
	fn      starlark.Callable
}

// EventPredicate converts to a Predicate over events.
func EventPredicate() bind.Kind {
	return aPredicate("a matcher, a dict of fields or a function of an event", func(fn starlark.Callable) error {
		return bind.Arity(fn, 1)
	})
}

// TracePredicate converts to an Predicate whose function takes a trace, or nothing.
func TracePredicate() bind.Kind {
	return aPredicate("a matcher, a dict of fields or a function of the trace", func(fn starlark.Callable) error {
		if bind.Arity(fn, 0) == nil {
			return nil
		}
		return bind.Arity(fn, 1)
	})
}

// aPredicate is a matcher or a function that can be called as arity wants it.
func aPredicate(name string, arity func(starlark.Callable) error) bind.Kind {
	return kindOf(name, func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		if fn, ok := v.(starlark.Callable); ok {
			if err := arity(fn); err != nil {
				c.Errorf(at, "", "%s", err)
				return nil, false
			}
			return Predicate{fn: fn}, true
		}
		m, ok := aMatcher().Convert(c.Call, v, at, e)
		if !ok {
			return nil, false
		}
		return Predicate{matcher: m.(*matcher)}, true
	})
}

// Func is the function, nil for a matcher.
func (p Predicate) Func() starlark.Callable { return p.fn }

// Test makes a Go predicate over single events. Functions run on threads of their own, without
// a world.
func (p Predicate) Test(l Load) func(event.Event) (bool, error) {
	if p.matcher != nil {
		return p.matcher.test
	}
	return func(e event.Event) (bool, error) {
		in := seen(l, []event.Event{e})
		in.Alone = true
		return decide(l, in, p.fn, value.Of(e, in))
	}
}

// decide calls a function that must return True or False.
func decide(l Load, sees *value.Whole, fn starlark.Callable, args ...starlark.Value) (bool, error) {
	v, _, err := l.Run("property", sees, fn, args...)
	if err != nil {
		return false, err
	}
	b, ok := v.(starlark.Bool)
	if !ok {
		var at source.Span
		if f, ok := fn.(*starlark.Function); ok {
			at = source.At(f.Position())
		}
		message := fmt.Sprintf("%s returned %s; it must return True or False", fn.Name(), bind.Describe(v))
		return false, &source.ScriptError{Diagnostic: l.Diagnostic(at, "", message), Trace: []string{}}
	}
	return bool(b), nil
}

// aWindow is a pair of borders.
func aWindow() bind.Kind {
	return kindOf("a pair (from, to)", func(c *call, v starlark.Value, _ source.Span, e syntax.Expr) (any, bool) {
		pair, ok := v.(starlark.Indexable)
		if _, text := v.(starlark.String); text || !ok || pair.Len() != 2 {
			return nil, false
		}
		w := &property.Window{}
		from, ok1 := c.border(pair.Index(0), source.Element(e, 0, 2), "body_start")
		to, ok2 := c.border(pair.Index(1), source.Element(e, 1, 2), "body_end")
		w.From, w.To = from, to
		w.Name = fmt.Sprintf("between (%s, %s)", c.text(pair.Index(0), source.Element(e, 0, 2)), c.text(pair.Index(1), source.Element(e, 1, 2)))
		return w, ok1 && ok2
	})
}

// StableNote begins the note by which await_stable tells that it returned.
const StableNote = "await_stable: "

// border converts one end of a window; the word open stands for nil.
func (c *call) border(v starlark.Value, e syntax.Expr, open string) (func(event.Event) (bool, error), bool) {
	word, ok := starlark.AsString(v)
	if !ok {
		got, ok := c.Convert(EventPredicate(), "between", v, e)
		if !ok {
			return nil, false
		}
		return got.(Predicate).Test(c.scope.Judging()), true
	}
	switch word {
	case open:
		return nil, true
	case "stable":
		return func(e event.Event) (bool, error) {
			return e.Kind == event.Note && strings.HasPrefix(e.String("message"), StableNote), nil
		}, true
	}
	words := []string{open, "stable"}
	c.Errorf(c.Site.At(e), source.Nearest(word, words), "%q is not a border here; use %s, a matcher or a function", word, strings.Join(words, ", "))
	return nil, false
}

func declareMonitor(c *call) (starlark.Value, error) {
	l := c.scope.Judging()
	name := bind.Arg[string](c.Call, "name")
	on := bind.Arg[Predicate](c.Call, "on")
	update, check := bind.Arg[starlark.Callable](c.Call, "update"), bind.Arg[starlark.Callable](c.Call, "check")
	m := &property.Monitor{Name: name, Position: c.Site.Start().String()}
	switch {
	case update == nil && check == nil && on.fn != nil:
		if c.Has("state_init") {
			c.Errorf(c.Site.KeywordSpan("state_init"), "", "state_init= needs update= or check=")
		}
		m.Step = reaction(l, on.fn)
	case check == nil && !c.TriedAndFailed("check"):
		c.Errorf(c.Where("on"), "", "a monitor on a matcher, or with update, needs check=, which tells whether the invariant holds")
	default:
		initial, _ := c.Args["state_init"].(starlark.Value)
		if initial == nil {
			initial = starlark.None
		}
		initial.Freeze()
		m.On, m.Init = on.Test(l), initial
		if on.matcher != nil {
			m.Like = on.matcher.like
		}
		m.Step = machine(l, name, update, check, m.Position)
	}
	declared := l.Properties()
	for _, other := range declared.monitors {
		if other.decl.Name == name {
			c.FirstUse("monitor", name, other.decl.Position)
		}
	}
	v := &Monitor{Opaque: value.Named("monitor", fmt.Sprintf("monitor(%q)", name)), decl: m}
	declared.monitors = append(declared.monitors, v)
	return v, nil
}

// reaction is a monitor that is a function of an event: it is triggered when it looks at the trace,
// fails, or returns something.
func reaction(l Load, fn starlark.Callable) func([]event.Event, any) (any, bool, error) {
	return func(trace []event.Event, state any) (any, bool, error) {
		in := seen(l, trace)
		v, looked, err := l.Run("monitor", in, fn, newest(in))
		return state, looked || v != starlark.None, err
	}
}

// newest is the last event of a trace, as a value.
func newest(in *value.Whole) *value.Event {
	return value.Of(in.Events[len(in.Events)-1], in)
}

// machine is a monitor with a state. A state is frozen, so that it can't change behind the trace.
func machine(l Load, name string, update, check starlark.Callable, at string) func([]event.Event, any) (any, bool, error) {
	return func(trace []event.Event, state any) (any, bool, error) {
		in := seen(l, trace)
		last := newest(in)
		next, ok := state.(starlark.Value)
		if !ok {
			next = starlark.None
		}
		if update != nil {
			var err error
			if next, _, err = l.Run("update", in, update, last, next); err != nil {
				return state, true, err
			}
			next.Freeze()
		}
		if check == nil {
			return next, true, nil
		}
		holds, err := decide(l, in, check, last, next)
		if err == nil && !holds {
			err = &property.Violation{Message: fmt.Sprintf("%s does not hold: state %s", name, value.Short(next)), Position: at}
		}
		return next, true, err
	}
}

// propertyTaker is what a world, or its view, may offer to take a property in mid-run.
type propertyTaker interface {
	// Property adds a property that holds from here to the end of the body.
	Property(t *property.Temporal) error
}

func declareTemporal(c *call, k property.Kind) (starlark.Value, error) {
	l := c.scope.Judging()
	at := c.Site.Start().String()
	t := &property.Temporal{
		Name: cmp.Or(bind.Arg[string](c.Call, "name"), fmt.Sprintf("%s@%s", k, at)), Kind: k,
		Holds: bind.Arg[Predicate](c.Call, "pred").Holds(l), Window: bind.Arg[*property.Window](c.Call, "between"), Position: at,
	}
	if c.Has("anchor") {
		if c.Has("between") {
			c.Errorf(c.Site.KeywordSpan("anchor"), "", "anchor= and between= can't be used together")
		}
		t.Window = &property.Window{From: bind.Arg[Predicate](c.Call, "anchor").Test(l), Name: "from " + c.text(starlark.None, c.Exprs["anchor"])}
	}
	v := &Temporal{Opaque: value.Named(string(k), fmt.Sprintf("%s(%q)", k, t.Name)), decl: t}
	if c.scope.Phase() == bind.AtLoad {
		declared := l.Properties()
		declared.temporal = append(declared.temporal, v)
		return v, nil
	}
	if c.Bad {
		return nil, nil
	}
	taker, ok := c.scope.World().(propertyTaker)
	if !ok {
		taker, ok = c.scope.World().Events().(propertyTaker)
	}
	if !ok {
		return nil, fmt.Errorf("%s: this world takes no properties in a scenario; declare it at the top level", k)
	}
	return v, c.Worldly(taker.Property(t))
}

// Holds makes the predicate of a temporal property.
func (p Predicate) Holds(l Load) func([]event.Event) (bool, error) {
	return func(trace []event.Event) (bool, error) {
		switch {
		case p.matcher != nil:
			if len(trace) == 0 {
				return false, nil
			}
			return p.matcher.test(trace[len(trace)-1])
		case bind.Arity(p.fn, 0) == nil:
			return decide(l, seen(l, trace), p.fn)
		}
		in := seen(l, trace)
		return decide(l, in, p.fn, value.NewTrace(trace, in))
	}
}
