package starbind

import (
	"context"
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

// monitorValue and temporalValue are properties as values. Passed to something they hold there,
// otherwise in every leaf.
type monitorValue struct {
	opaque
	decl *property.Monitor
	used bool
}

type temporalValue struct {
	opaque
	decl *property.Temporal
	used bool
}

// propertyEntries are the builtins that say what must hold.
func propertyEntries() []entry {
	window := param{Name: "between", Kind: aWindow(), Preset: "the whole body",
		Doc: `where it is checked: a pair of "body_start", "body_end", "stable" (await_stable returned), matchers or functions of an event`}
	name := param{Name: "name", Kind: bind.String(), Preset: "the position", Doc: "its name in verdicts"}
	pred := param{Name: "pred", Kind: aTracePredicate(), Required: true, Doc: "a matcher for the newest event, or a function of the trace that returns True or False"}
	return append(matchEntries(), []entry{
		{
			Name: "monitor", Phases: bind.AtLoad,
			Doc:     "declares an invariant that sees each event. With a function alone, the function calls fail() when the invariant is broken. With update or check it is a state machine over the events that on chooses. Passed to a scenario, an assumption or a matrix it holds there; otherwise it holds in every leaf.",
			Example: "def confirmed_means_persisted(event):\n    if event[\"type\"] == \"stdout\" and event.get(\"status\") == \"confirmed\":\n        if not events(type = \"stdout\", service = \"db\", fields = {\"event\": \"persisted\"}):\n            fail(\"order confirmed but never persisted\")\n\npersisted = monitor(\"confirmed_means_persisted\", on = confirmed_means_persisted)",
			Params: []param{
				{Name: "name", Kind: bind.Name(), Required: true, Doc: "its name in verdicts"},
				{Name: "on", Kind: anEventPredicate(), Required: true, Doc: "a function of an event, or a matcher"},
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
			Params: []param{
				pred, name,
				{Name: "anchor", Kind: anEventPredicate(), Preset: "the body's start", Doc: "the event from which on it is checked"},
				window,
			},
			Do: do(func(c *call) (starlark.Value, error) { return declareTemporal(c, property.Eventually) }),
		},
		{
			Name: "always", Phases: bind.AtLoad | bind.InBody, Checks: true,
			Doc:     "declares that a predicate is true at every point of a window. At the top level it holds as a monitor does; in a scenario it holds from there on.",
			Example: `always(lambda trace: len(events(type = "stdout", role = "leader")) <= 1, name = "one_leader")`,
			Params:  []param{pred, name, window},
			Do:      do(func(c *call) (starlark.Value, error) { return declareTemporal(c, property.Always) }),
		},
	}...)
}

func aMonitor() kind {
	return bind.Scalar("a monitor()", func(v starlark.Value) (any, bool) {
		m, ok := v.(*monitorValue)
		return m, ok
	})
}

func aTemporal() kind {
	return bind.Scalar("eventually() or always()", func(v starlark.Value) (any, bool) {
		t, ok := v.(*temporalValue)
		return t, ok
	})
}

// eventPredicate is a matcher, or a function of an event.
type eventPredicate struct {
	matcher *matcher
	fn      starlark.Callable
}

func anEventPredicate() kind {
	return aPredicate("a matcher, a dict of fields or a function of an event", func(fn starlark.Callable) error {
		return bind.Arity(fn, 1)
	})
}

// aTracePredicate converts to an eventPredicate whose function takes a trace, or nothing.
func aTracePredicate() kind {
	return aPredicate("a matcher, a dict of fields or a function of the trace", func(fn starlark.Callable) error {
		if bind.Arity(fn, 0) == nil {
			return nil
		}
		return bind.Arity(fn, 1)
	})
}

// aPredicate is a matcher or a function that can be called as arity wants it.
func aPredicate(name string, arity func(starlark.Callable) error) kind {
	return kindOf(name, func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		if fn, ok := v.(starlark.Callable); ok {
			if err := arity(fn); err != nil {
				c.Errorf(at, "", "%s", err)
				return nil, false
			}
			return eventPredicate{fn: fn}, true
		}
		m, ok := aMatcher().Convert(c.Call, v, at, e)
		if !ok {
			return nil, false
		}
		return eventPredicate{matcher: m.(*matcher)}, true
	})
}

// test makes a Go predicate over single events. Functions run on threads of their own, without
// a world.
func (p eventPredicate) test(ld *loader) func(event.Event) (bool, error) {
	if p.matcher != nil {
		return p.matcher.test
	}
	return func(e event.Event) (bool, error) {
		list := []event.Event{e}
		return ld.decide(&env{trace: list, alone: true}, p.fn, value.Of(e, &value.Whole{Events: list, Alone: true, Methods: ld}))
	}
}

// decide calls a function that must return True or False.
func (ld *loader) decide(e *env, fn starlark.Callable, args ...starlark.Value) (bool, error) {
	e.when, e.ctx = bind.InProperty, context.Background()
	v, err := ld.run(e, "property", fn, args...)
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
		return false, &ScriptError{Diagnostic: ld.diagnostic(at, "", message), Trace: []string{}}
	}
	return bool(b), nil
}

// aWindow is a pair of borders.
func aWindow() kind {
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

// stableNote begins the note by which await_stable tells that it returned.
const stableNote = "await_stable: "

// border converts one end of a window; the word open stands for nil.
func (c *call) border(v starlark.Value, e syntax.Expr, open string) (func(event.Event) (bool, error), bool) {
	word, ok := starlark.AsString(v)
	if !ok {
		got, ok := c.Convert(anEventPredicate(), "between", v, e)
		if !ok {
			return nil, false
		}
		return got.(eventPredicate).test(c.env.loader), true
	}
	switch word {
	case open:
		return nil, true
	case "stable":
		return func(e event.Event) (bool, error) {
			return e.Kind == event.Note && strings.HasPrefix(e.String("message"), stableNote), nil
		}, true
	}
	words := []string{open, "stable"}
	c.Errorf(c.Site.At(e), source.Nearest(word, words), "%q is not a border here; use %s, a matcher or a function", word, strings.Join(words, ", "))
	return nil, false
}

// text is an argument as it stands in the spec, or as a value where it was not written out.
func (c *call) text(v starlark.Value, e syntax.Expr) string {
	if e == nil {
		return short(v)
	}
	start, end := e.Span()
	m := c.env.loader.modules[start.Filename()]
	if m == nil || m.file == nil || start.Line != end.Line || int(start.Line) > len(m.file.Lines) {
		return short(v)
	}
	line := []rune(m.file.Lines[start.Line-1])
	if int(end.Col)-1 > len(line) {
		return short(v)
	}
	return string(line[start.Col-1 : end.Col-1])
}

func declareMonitor(c *call) (starlark.Value, error) {
	ld := c.env.loader
	name := arg[string](c, "name")
	on := arg[eventPredicate](c, "on")
	update, check := arg[starlark.Callable](c, "update"), arg[starlark.Callable](c, "check")
	m := &property.Monitor{Name: name, Position: c.Site.Start().String()}
	switch {
	case update == nil && check == nil && on.fn != nil:
		if c.Has("state_init") {
			c.Errorf(c.Site.KeywordSpan("state_init"), "", "state_init= needs update= or check=")
		}
		m.Step = ld.reaction(on.fn)
	case check == nil && !c.TriedAndFailed("check"):
		c.Errorf(c.Where("on"), "", "a monitor on a matcher, or with update, needs check=, which tells whether the invariant holds")
	default:
		initial, _ := c.Args["state_init"].(starlark.Value)
		if initial == nil {
			initial = starlark.None
		}
		initial.Freeze()
		m.On, m.Init = on.test(ld), initial
		if on.matcher != nil {
			m.Like = on.matcher.like
		}
		m.Step = ld.machine(name, update, check, m.Position)
	}
	for _, other := range ld.decls.monitors {
		if other.decl.Name == name {
			c.firstUse("monitor", name, other.decl.Position)
		}
	}
	v := &monitorValue{opaque: named("monitor", fmt.Sprintf("monitor(%q)", name)), decl: m}
	ld.decls.monitors = append(ld.decls.monitors, v)
	return v, nil
}

// reaction is a monitor that is a function of an event: it is triggered when it looks at the trace,
// fails, or returns something.
func (ld *loader) reaction(fn starlark.Callable) func([]event.Event, any) (any, bool, error) {
	return func(trace []event.Event, state any) (any, bool, error) {
		e := &env{when: bind.InProperty, ctx: context.Background(), trace: trace}
		v, err := ld.run(e, "monitor", fn, ld.newest(trace))
		return state, e.looked || v != starlark.None, err
	}
}

// newest is the last event of a trace, as a value.
func (ld *loader) newest(trace []event.Event) *value.Event {
	return value.Of(trace[len(trace)-1], &value.Whole{Events: trace, Methods: ld})
}

// machine is a monitor with a state. A state is frozen, so that it can't change behind the trace.
func (ld *loader) machine(name string, update, check starlark.Callable, at string) func([]event.Event, any) (any, bool, error) {
	return func(trace []event.Event, state any) (any, bool, error) {
		last := ld.newest(trace)
		next, ok := state.(starlark.Value)
		if !ok {
			next = starlark.None
		}
		if update != nil {
			var err error
			e := &env{when: bind.InProperty, ctx: context.Background(), trace: trace}
			if next, err = ld.run(e, "update", update, last, next); err != nil {
				return state, true, err
			}
			next.Freeze()
		}
		if check == nil {
			return next, true, nil
		}
		holds, err := ld.decide(&env{trace: trace}, check, last, next)
		if err == nil && !holds {
			err = &property.Violation{Message: fmt.Sprintf("%s does not hold: state %s", name, short(next)), Position: at}
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
	ld := c.env.loader
	at := c.Site.Start().String()
	t := &property.Temporal{
		Name: orElse(arg[string](c, "name"), fmt.Sprintf("%s@%s", k, at)), Kind: k,
		Holds: ld.holds(arg[eventPredicate](c, "pred")), Window: arg[*property.Window](c, "between"), Position: at,
	}
	if c.Has("anchor") {
		if c.Has("between") {
			c.Errorf(c.Site.KeywordSpan("anchor"), "", "anchor= and between= can't be used together")
		}
		t.Window = &property.Window{From: arg[eventPredicate](c, "anchor").test(ld), Name: "from " + c.text(starlark.None, c.Exprs["anchor"])}
	}
	v := &temporalValue{opaque: named(string(k), fmt.Sprintf("%s(%q)", k, t.Name)), decl: t}
	if c.env.when == bind.AtLoad {
		ld.decls.temporal = append(ld.decls.temporal, v)
		return v, nil
	}
	if c.Bad {
		return nil, nil
	}
	taker, ok := c.env.world.(propertyTaker)
	if !ok {
		taker, ok = c.env.world.Events().(propertyTaker)
	}
	if !ok {
		return nil, fmt.Errorf("%s: this world takes no properties in a scenario; declare it at the top level", k)
	}
	return v, c.worldly(taker.Property(t))
}

// holds makes the predicate of a temporal property.
func (ld *loader) holds(p eventPredicate) func([]event.Event) (bool, error) {
	return func(trace []event.Event) (bool, error) {
		switch {
		case p.matcher != nil:
			if len(trace) == 0 {
				return false, nil
			}
			return p.matcher.test(trace[len(trace)-1])
		case bind.Arity(p.fn, 0) == nil:
			return ld.decide(&env{trace: trace}, p.fn)
		}
		return ld.decide(&env{trace: trace}, p.fn, value.NewTrace(trace, &value.Whole{Events: trace, Methods: ld}))
	}
}

// hooks collects the properties that a call scopes to what it declares.
func (c *call) hooks() hooks {
	return hooks{
		monitors: argList[*monitorValue](c, "monitors"), temporal: argList[*temporalValue](c, "properties"),
	}.use()
}
