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
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// bodyEntries are the builtins for scenarios, expectations and properties.
func bodyEntries() []entry {
	return slices.Concat(controlEntries(), oracle.Assertions(), []entry{
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
				{Name: "event", Kind: oracle.EventPredicate(), Required: true, Doc: "a matcher, or a function of an event"},
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
				{Name: "ignore", Kind: oracle.EventPredicate(), Preset: "nothing", Doc: "events that do not count"},
			},
			Do: do(awaitStable),
		},
	}, oracle.Queries())
}

// controlEntries steer the body and the services.
func controlEntries() []entry {
	return append(processEntries(), []entry{
		{
			Name: "sleep", Phases: bind.InBody, Doc: "waits.", Example: `sleep("10ms")`,
			Params: []param{{Name: "duration", Kind: bind.Duration(), Required: true, Doc: "how long"}},
			Do: do(func(c *call) (starlark.Value, error) {
				return starlark.None, c.Worldly(c.env.world.Sleep(c.env.ctx, arg[time.Duration](c, "duration")))
			}),
		},
	}...)
}

// finish ends the leaf through the world.
func (c *call) finish(code verdict.Code, detail string) error {
	e := spec.Ended{Code: string(code), Detail: detail, Position: c.Site.Start().String()}
	if err := c.env.world.End(e); err != nil {
		return c.Worldly(err)
	}
	return &e
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
	return nil, &property.Violation{Message: message, Position: c.Site.Start().String()}
}

func awaitEvent(c *call) (starlark.Value, error) {
	ctx, cancel := c.env.ctx, func() {}
	limit, limited := c.Args["timeout"].(time.Duration)
	if limited {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	e, err := c.env.world.Events().Await(ctx, arg[oracle.Predicate](c, "event").Test(c.env.loader))
	switch {
	case err == nil:
		return value.Of(e, c.env.Trace()), nil
	case limited && ctx.Err() != nil && c.env.ctx.Err() == nil:
		return nil, c.finish(verdict.AwaitUnmet, fmt.Sprintf("no event in %s: %s", limit, oracle.Text(c.env.loader, starlark.None, c.Exprs["event"])))
	}
	return nil, c.Worldly(err)
}

func awaitStable(c *call) (starlark.Value, error) {
	quiet := time.Second
	if c.Has("quiescence_window") {
		quiet = arg[time.Duration](c, "quiescence_window")
	}
	ignore := func(event.Event) (bool, error) { return false, nil }
	if c.Has("ignore") {
		ignore = arg[oracle.Predicate](c, "ignore").Test(c.env.loader)
	}
	view := c.env.world.Events()
	if err := view.AwaitStable(c.env.ctx, quiet, ignore); err != nil {
		return nil, c.Worldly(err)
	}
	view.Note(fmt.Sprintf("%snothing happened for %s", oracle.StableNote, quiet))
	return starlark.None, nil
}
