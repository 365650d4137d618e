package starbind

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// bodyEntries are the builtins for scenarios, expectations and properties.
func bodyEntries() []entry {
	message := param{name: "msg", kind: aString(), doc: "what is wrong when it does not hold"}
	event := param{name: "event", kind: anEventPredicate(), doc: "a matcher, or a function of an event"}
	where := param{name: "where", kind: anEventPredicate(), doc: "the same, by keyword"}
	filter := append([]param{event, where}, filterParams()...)
	filterMsg := append(append([]param{}, filter...), message)
	return append(controlEntries(), []entry{
		{
			name: "assert_true", phases: inBody | inProperty,
			doc:     "fails the leaf where a condition is not true.",
			example: `assert_true(r.ok, "the order must be accepted")`,
			params:  []param{{name: "cond", kind: aValue(), required: true, doc: "the condition"}, message},
			do:      assertTrue,
		},
		{
			name: "assert_eq", phases: inBody | inProperty,
			doc:     "fails the leaf where two values differ.",
			example: `assert_eq(r.status, 503)`,
			params: []param{
				{name: "a", kind: aValue(), required: true, doc: "what is"},
				{name: "b", kind: aValue(), required: true, doc: "what should be"}, message,
			},
			do: assertEqual,
		},
		{
			name: "assert_never", phases: inBody | inProperty,
			doc:     "fails the leaf where an event so far matches.",
			example: `assert_never(type = "stdout", level = "panic")`,
			params:  filterMsg, rest: fieldKeywords(),
			do: func(c *call) (starlark.Value, error) { return assertEvents(c, false) },
		},
		{
			name: "assert_eventually", phases: inBody | inProperty,
			doc:     "fails the leaf where no event so far matches. It does not wait; see await_event.",
			example: `assert_eventually(type = "stdout", service = "api", status = "confirmed")`,
			params:  filterMsg, rest: fieldKeywords(),
			do: func(c *call) (starlark.Value, error) { return assertEvents(c, true) },
		},
		{
			name: "events", phases: inBody | inProperty,
			doc:     "returns the events so far that match, oldest first.",
			example: `events(type = "syscall", service = "db", name = "write", decision = "deny")`,
			params:  filter, rest: fieldKeywords(),
			do: func(c *call) (starlark.Value, error) {
				found, err := c.filtered(0)
				list := make([]starlark.Value, len(found))
				for i, e := range found {
					list[i] = &eventValue{e}
				}
				return starlark.NewList(list), err
			},
		},
		{
			name: "fail", phases: anywhere,
			doc:     "fails the leaf with a message. At the top level it is an error in the spec.",
			example: `fail("order", order, "was confirmed, never written")`,
			params:  []param{{name: "msg", kind: aValue(), variadic: true, doc: "values, written with a space between them"}},
			do:      doFail,
		},
		{
			name: "await_event", phases: inBody,
			doc:     "waits for an event, past or to come, and returns it. Where none comes, the leaf is INCONCLUSIVE (await-unmet).",
			example: `await_event(match.event(type = "stdout", msg = "elected"), timeout = "5s")`,
			params: []param{
				{name: "event", kind: anEventPredicate(), required: true, doc: "a matcher, or a function of an event"},
				{name: "timeout", kind: aDuration(), preset: "the body's", doc: "how long to wait"},
			},
			do: awaitEvent,
		},
		{
			name: "await_stable", phases: inBody,
			doc:     "waits until nothing has happened for a time.",
			example: `await_stable("500ms", ignore = match.event(msg = "heartbeat"))`,
			params: []param{
				{name: "quiescence_window", kind: aDuration(), preset: `"1s"`, doc: "how long nothing must happen"},
				{name: "ignore", kind: anEventPredicate(), preset: "nothing", doc: "events that do not count"},
			},
			do: awaitStable,
		},
	}...)
}

// controlEntries steer the body and the services.
func controlEntries() []entry {
	act := func(a spec.Action, doc string) entry {
		return entry{
			name: string(a), phases: inBody, doc: doc, example: string(a) + "(db)",
			params: []param{{name: "service", kind: aService(), required: true, doc: "the service"}},
			do: func(c *call) (starlark.Value, error) {
				return starlark.None, c.worldly(c.env.world.Act(c.env.ctx, arg[string](c, "service"), a))
			},
		}
	}
	return []entry{
		act(spec.Kill, "ends a service's processes with SIGKILL."),
		act(spec.Pause, "stops a service's processes until resume; peers see silence."),
		act(spec.Resume, "lets a paused service go on."),
		act(spec.Restart, "ends a service's processes, starts it again and waits until it is ready."),
		{
			name: "sleep", phases: inBody, doc: "waits.", example: `sleep("10ms")`,
			params: []param{{name: "duration", kind: aDuration(), required: true, doc: "how long"}},
			do: func(c *call) (starlark.Value, error) {
				return starlark.None, c.worldly(c.env.world.Sleep(c.env.ctx, arg[time.Duration](c, "duration")))
			},
		},
		{
			name: "halt", phases: inBody,
			doc:     "ends the leaf because it has nothing to say here; it is INCONCLUSIVE (halted).",
			example: `halt("the leader was not elected before the fault")`,
			params:  []param{{name: "reason", kind: aString(), doc: "why"}},
			do: func(c *call) (starlark.Value, error) {
				return nil, c.finish(verdict.Halted, orElse(arg[string](c, "reason"), "halted by the scenario"))
			},
		},
		{
			name: "parallel", phases: inBody,
			doc:     "runs functions side by side and returns their results in order. One runs at a time; they change over where they talk to the system.",
			example: `a, b = parallel(lambda: api.get(path = "/a"), lambda: api.get(path = "/b"))`,
			params:  []param{{name: "fns", kind: aFunction(0), variadic: true, required: true, doc: "functions without parameters"}},
			do:      doParallel,
		},
		{
			name: "choose", phases: inBody,
			doc:     "decides an unknown: a leaf for each option.",
			example: `backend = choose("backend", ["primary", "replica"])`,
			params: []param{
				{name: "name", kind: aValue(), required: true, doc: "its name; may be left out"},
				{name: "options", kind: listOf(aValue()), doc: "the options, at least one"},
			},
			do: doChoose,
		},
	}
}

// finish ends the leaf through the world.
func (c *call) finish(code verdict.Code, detail string) error {
	e := spec.Ended{Code: string(code), Detail: detail, Position: c.site.start().String()}
	if err := c.env.world.End(e); err != nil {
		return c.worldly(err)
	}
	return &e
}

func (c *call) violation(format string, args ...any) error {
	return &property.Violation{Message: fmt.Sprintf(format, args...), Position: c.site.start().String()}
}

func assertTrue(c *call) (starlark.Value, error) {
	if cond, _ := c.args["cond"].(starlark.Value); cond.Truth() {
		return starlark.None, nil
	}
	text := ""
	if e := c.exprs["cond"]; e != nil {
		text = ": " + c.text(c.args["cond"].(starlark.Value), e)
	}
	return nil, c.violation("%s", orElse(arg[string](c, "msg"), "assert_true"+text))
}

func assertEqual(c *call) (starlark.Value, error) {
	a, b := c.args["a"].(starlark.Value), c.args["b"].(starlark.Value)
	same, err := starlark.EqualDepth(a, b, 100)
	if err != nil {
		return nil, err
	}
	if same {
		return starlark.None, nil
	}
	differ := fmt.Sprintf("%s is not %s", short(a), short(b))
	if msg := arg[string](c, "msg"); msg != "" {
		return nil, c.violation("%s: %s", msg, differ)
	}
	return nil, c.violation("assert_eq: %s", differ)
}

func assertEvents(c *call, wanted bool) (starlark.Value, error) {
	found, err := c.filtered(1)
	if err != nil {
		return nil, err
	}
	if wanted == (len(found) > 0) {
		return starlark.None, nil
	}
	if wanted {
		return nil, c.violation("%s", orElse(arg[string](c, "msg"), "assert_eventually: no event matches"))
	}
	e := &eventValue{found[0]}
	return nil, &property.Violation{
		Message: orElse(arg[string](c, "msg"), "assert_never: "+short(e)), Witness: e.e.Seq, Position: c.site.start().String(),
	}
}

// trace is the events that code can see where it runs.
func (c *call) trace() []event.Event {
	if c.env.phase == inProperty {
		c.env.looked = true
		return c.env.trace
	}
	return c.env.world.Events().All()
}

// filtered returns the events so far that fit a call's filter; limit 0 means all.
func (c *call) filtered(limit int) ([]event.Event, error) {
	test := c.fieldTest()
	var out []event.Event
	for _, e := range c.trace() {
		if !test(e) {
			continue
		}
		fits := true
		for _, name := range []string{"event", "where"} {
			p, given := c.args[name].(eventPredicate)
			if !given || !fits {
				continue
			}
			var err error
			if fits, err = c.fits(p, e); err != nil {
				return nil, err
			}
		}
		if fits {
			if out = append(out, e); len(out) == limit {
				return out, nil
			}
		}
	}
	return out, nil
}

// fits runs a predicate on the call's own thread.
func (c *call) fits(p eventPredicate, e event.Event) (bool, error) {
	if p.matcher != nil {
		return p.matcher.test(e), nil
	}
	v, err := starlark.Call(c.thread, p.fn, starlark.Tuple{&eventValue{e}}, nil)
	if err != nil {
		return false, err
	}
	return bool(v.Truth()), nil
}

func doFail(c *call) (starlark.Value, error) {
	var parts []string
	for _, v := range argList[starlark.Value](c, "msg") {
		if s, ok := starlark.AsString(v); ok {
			parts = append(parts, s)
		} else {
			parts = append(parts, v.String())
		}
	}
	message := orElse(strings.Join(parts, " "), "fail")
	c.env.looked = true
	if c.env.phase == atLoad {
		return nil, errors.New(message)
	}
	return nil, c.violation("%s", message)
}

func awaitEvent(c *call) (starlark.Value, error) {
	ctx, cancel := c.env.ctx, func() {}
	limit, limited := c.args["timeout"].(time.Duration)
	if limited {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	e, err := c.env.world.Events().Await(ctx, arg[eventPredicate](c, "event").test(c.env.loader))
	switch {
	case err == nil:
		return &eventValue{e}, nil
	case limited && ctx.Err() != nil && c.env.ctx.Err() == nil:
		return nil, c.finish(verdict.AwaitUnmet, fmt.Sprintf("no event in %s: %s", limit, c.text(starlark.None, c.exprs["event"])))
	}
	return nil, c.worldly(err)
}

func awaitStable(c *call) (starlark.Value, error) {
	quiet := time.Second
	if c.has("quiescence_window") {
		quiet = arg[time.Duration](c, "quiescence_window")
	}
	ignore := func(event.Event) (bool, error) { return false, nil }
	if c.has("ignore") {
		ignore = arg[eventPredicate](c, "ignore").test(c.env.loader)
	}
	view := c.env.world.Events()
	if err := view.AwaitStable(c.env.ctx, quiet, ignore); err != nil {
		return nil, c.worldly(err)
	}
	view.Note(fmt.Sprintf("%snothing happened for %s", stableNote, quiet))
	return starlark.None, nil
}

func doParallel(c *call) (starlark.Value, error) {
	fns := argList[starlark.Callable](c, "fns")
	results := make([]starlark.Value, len(fns))
	var branches []func(context.Context, spec.World) error
	for i, fn := range fns {
		results[i] = starlark.None
		branches = append(branches, func(ctx context.Context, w spec.World) error {
			e := &env{phase: inBody, ctx: ctx, world: w, body: c.env.body}
			v, err := c.env.loader.run(e, fmt.Sprintf("%s/branch %d", c.thread.Name, i+1), fn)
			if err == nil {
				results[i] = v
			}
			return err
		})
	}
	if err := c.env.world.Parallel(c.env.ctx, branches...); err != nil {
		return nil, c.worldly(err)
	}
	return starlark.NewList(results), nil
}

func doChoose(c *call) (starlark.Value, error) {
	name, options := "", argList[starlark.Value](c, "options")
	switch v := c.args["name"].(type) {
	case starlark.String:
		name = string(v)
	case starlark.Iterable:
		if c.has("options") {
			c.errorf(c.where("name"), "", "name must be a string, got %s", v.Type())
			return nil, nil
		}
		name = "choose@" + c.site.start().String()
		for item := range starlark.Elements(v) {
			options = append(options, item)
		}
	default:
		c.errorf(c.where("name"), "", "name must be a string")
		return nil, nil
	}
	if len(options) == 0 {
		c.errorf(c.site.span(), "", "needs at least one option")
		return nil, nil
	}
	i, err := c.env.world.Choose(name, len(options))
	if err != nil {
		return nil, c.worldly(err)
	}
	if i < 0 || i >= len(options) {
		return nil, fmt.Errorf("choose %q: the world took option %d of %d", name, i, len(options))
	}
	return options[i], nil
}
