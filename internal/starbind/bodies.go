package starbind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// bodyEntries are the builtins for scenarios, expectations and properties.
func bodyEntries() []entry {
	message := param{Name: "msg", Kind: bind.String(), Doc: "what is wrong when it does not hold"}
	return slices.Concat(controlEntries(), []entry{
		{
			Name: "assert_true", Phases: bind.InBody | bind.InProperty, Checks: true,
			Doc:     "fails the leaf where a condition is not true.",
			Example: `assert_true(r.ok, "the order must be accepted")`,
			Params:  []param{{Name: "cond", Kind: bind.Value(), Required: true, Doc: "the condition"}, message},
			Do:      do(assertTrue),
		},
		{
			Name: "assert_eq", Phases: bind.InBody | bind.InProperty, Checks: true,
			Doc:     "fails the leaf where two values differ.",
			Example: `assert_eq(r.status, 503)`,
			Params: []param{
				{Name: "a", Kind: bind.Value(), Required: true, Doc: "what is"},
				{Name: "b", Kind: bind.Value(), Required: true, Doc: "what should be"}, message,
			},
			Do: do(assertEqual),
		},
	}, eventAssertions(), []entry{
		{
			Name: "fail", Phases: bind.Anywhere, Checks: true,
			Doc:     "fails the leaf with a message. At the top level it is an error in the spec.",
			Example: `fail("order", order, "was confirmed, never written")`,
			Params:  []param{{Name: "msg", Kind: bind.Value(), Variadic: true, Doc: "values, written with a space between them"}},
			Do:      do(doFail),
		},
		{
			Name: "await_event", Phases: bind.InBody, Checks: true,
			Doc:     "waits for an event, past or to come, and returns it. Where none comes, the leaf is INCONCLUSIVE (await-unmet).",
			Example: `await_event(match.event(type = "stdout", msg = "elected"), timeout = "5s")`,
			Params: []param{
				{Name: "event", Kind: anEventPredicate(), Required: true, Doc: "a matcher, or a function of an event"},
				{Name: "timeout", Kind: bind.Duration(), Preset: "the body's", Doc: "how long to wait"},
			},
			Do: do(awaitEvent),
		},
		{
			Name: "await_stable", Phases: bind.InBody,
			Doc:     "waits until nothing has happened for a time.",
			Example: `await_stable("500ms", ignore = match.event(msg = "heartbeat"))`,
			Params: []param{
				{Name: "quiescence_window", Kind: bind.Duration(), Preset: `"1s"`, Doc: "how long nothing must happen"},
				{Name: "ignore", Kind: anEventPredicate(), Preset: "nothing", Doc: "events that do not count"},
			},
			Do: do(awaitStable),
		},
	}, traceEntries())
}

// controlEntries steer the body and the services.
func controlEntries() []entry {
	return append(processEntries(), []entry{
		{
			Name: "sleep", Phases: bind.InBody, Doc: "waits.", Example: `sleep("10ms")`,
			Params: []param{{Name: "duration", Kind: bind.Duration(), Required: true, Doc: "how long"}},
			Do: do(func(c *call) (starlark.Value, error) {
				return starlark.None, c.worldly(c.env.world.Sleep(c.env.ctx, arg[time.Duration](c, "duration")))
			}),
		},
	}...)
}

// finish ends the leaf through the world.
func (c *call) finish(code verdict.Code, detail string) error {
	e := spec.Ended{Code: string(code), Detail: detail, Position: c.Site.Start().String()}
	if err := c.env.world.End(e); err != nil {
		return c.worldly(err)
	}
	return &e
}

func (c *call) violation(format string, args ...any) error {
	return &property.Violation{Message: fmt.Sprintf(format, args...), Position: c.Site.Start().String()}
}

// asserted tells the world that the body makes an assertion, where it wants to know.
func (c *call) asserted() {
	if c.env.world == nil {
		return
	}
	if v, ok := c.env.world.Events().(interface{ Asserted() }); ok {
		v.Asserted()
	}
}

func assertTrue(c *call) (starlark.Value, error) {
	c.asserted()
	if cond, _ := c.Args["cond"].(starlark.Value); cond.Truth() {
		return starlark.None, nil
	}
	text := ""
	if e := c.Exprs["cond"]; e != nil {
		text = ": " + c.text(c.Args["cond"].(starlark.Value), e)
	}
	return nil, c.violation("%s", orElse(arg[string](c, "msg"), "assert_true"+text))
}

func assertEqual(c *call) (starlark.Value, error) {
	c.asserted()
	a, b := c.Args["a"].(starlark.Value), c.Args["b"].(starlark.Value)
	if _, trace := b.(*value.Trace); trace {
		a, b = b, a // a trace compares itself with a list, not the other way round
	}
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
	if c.env.when == bind.AtLoad {
		return nil, errors.New(message)
	}
	return nil, c.violation("%s", message)
}

func awaitEvent(c *call) (starlark.Value, error) {
	ctx, cancel := c.env.ctx, func() {}
	limit, limited := c.Args["timeout"].(time.Duration)
	if limited {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	e, err := c.env.world.Events().Await(ctx, arg[eventPredicate](c, "event").test(c.env.loader))
	switch {
	case err == nil:
		return value.Of(e, c.whole()), nil
	case limited && ctx.Err() != nil && c.env.ctx.Err() == nil:
		return nil, c.finish(verdict.AwaitUnmet, fmt.Sprintf("no event in %s: %s", limit, c.text(starlark.None, c.Exprs["event"])))
	}
	return nil, c.worldly(err)
}

func awaitStable(c *call) (starlark.Value, error) {
	quiet := time.Second
	if c.Has("quiescence_window") {
		quiet = arg[time.Duration](c, "quiescence_window")
	}
	ignore := func(event.Event) (bool, error) { return false, nil }
	if c.Has("ignore") {
		ignore = arg[eventPredicate](c, "ignore").test(c.env.loader)
	}
	view := c.env.world.Events()
	if err := view.AwaitStable(c.env.ctx, quiet, ignore); err != nil {
		return nil, c.worldly(err)
	}
	view.Note(fmt.Sprintf("%snothing happened for %s", stableNote, quiet))
	return starlark.None, nil
}
