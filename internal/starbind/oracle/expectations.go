package oracle

import (
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// Expectations are the builtins that make expectations. What they make takes the scenario's result;
// of a list, as parallel() returns one, each element has to do.
func Expectations() []bind.Entry {
	const what = " For expect=, default_expect= and overrides=. Of a list of results, each one has to; an empty list is none."
	return []bind.Entry{
		{
			Name: "expect_success", Phases: bind.AtLoad | bind.InBody,
			Doc:     "expects a result that is no failure: a response must be ok; None and False are failures, and every other value is none." + what,
			Example: `scenario(create_order, expect = expect_success(), name = "create")`,
			Do: do(func(c *call) (starlark.Value, error) {
				return c.expectation("expect_success()", succeeded), nil
			}),
		},
		{
			Name: "expect_error_within", Phases: bind.AtLoad | bind.InBody,
			Doc:     "expects a response that says in time that it failed: it is not ok, and its duration is within the limit. A step whose own time ran out got no error, and what is no response is none." + what,
			Example: `scenario(create_order, expect = expect_error_within("500ms"), name = "fails_fast")`,
			Params: []bind.Param{
				{Name: "limit", Kind: bind.Duration(), Doc: "how long the step may have taken"},
				{Name: "ms", Kind: bind.Int(1, 1<<30), Doc: "the same in milliseconds; one of the two is needed"},
			},
			Do: do(expectErrorWithin),
		},
		{
			Name: "expect_hang", Phases: bind.AtLoad | bind.InBody,
			Doc:     "expects a response of a step whose own time (timeout=, or 10s) ran out without an answer. An error is none, and a scenario that does not return in its time is not decided (timeout)." + what,
			Example: `scenario(lambda: api.get(path = "/slow", timeout = "300ms"), name = "hangs", expect = expect_hang())`,
			Do: do(func(c *call) (starlark.Value, error) {
				return c.expectation("expect_hang()", hung), nil
			}),
		},
	}
}

// expectation makes a function of a result from one that says why it will not do, or nothing.
func (c *call) expectation(text string, why func(starlark.Value) string) starlark.Value {
	at := c.Site.Start().String()
	e := &bind.Entry{
		Name: text, Doc: c.Entry.Doc, Phases: bind.InBody, Checks: true,
		Params: []bind.Param{{Name: "result", Kind: bind.Value(), Required: true, Doc: "what the scenario returned"}},
		Do: do(func(c *call) (starlark.Value, error) {
			c.asserted()
			v := c.Args["result"].(starlark.Value)
			if text := each(v, why); text != "" {
				return nil, &property.Violation{Message: c.Entry.Name + ": " + text, Position: at}
			}
			return starlark.True, nil
		}),
	}
	return &bind.Builtin{Entry: e}
}

// each asks of every element of a list, and of the lists in it, or of a value that is none.
func each(v starlark.Value, why func(starlark.Value) string) string {
	var list starlark.Sequence
	switch v := v.(type) {
	case *starlark.List:
		list = v
	case starlark.Tuple:
		list = v
	default:
		return why(v)
	}
	if list.Len() == 0 {
		return "the scenario returned an empty list"
	}
	i := 0
	for item := range starlark.Elements(list) {
		if text := each(item, why); text != "" {
			return fmt.Sprintf("result %d: %s", i, text)
		}
		i++
	}
	return ""
}

func succeeded(v starlark.Value) string {
	r, ok := v.(*value.Response)
	switch {
	case v == starlark.None:
		return "the scenario returned nothing"
	case v == starlark.False:
		return "the scenario returned False"
	case ok && !r.Response().OK:
		return "it failed: " + said(r.Response())
	}
	return ""
}

func expectErrorWithin(c *call) (starlark.Value, error) {
	limit := bind.Arg[time.Duration](c.Call, "limit")
	if c.Has("limit") == c.Has("ms") && !c.Bad {
		c.Errorf(c.Site.Span(), "", `needs a limit such as "500ms", or ms=`)
		return nil, nil
	}
	if c.Has("ms") {
		limit = time.Duration(bind.Arg[int](c.Call, "ms")) * time.Millisecond
	}
	return c.expectation(fmt.Sprintf("expect_error_within(%q)", limit), func(v starlark.Value) string {
		got, ok := v.(*value.Response)
		if !ok {
			return "the scenario returned " + bind.Describe(v) + ", which is no response"
		}
		switch r := got.Response(); {
		case r.OK:
			return "it succeeded: " + said(r)
		case r.TimedOut:
			return "there was no answer, not even an error: " + said(r)
		case r.Duration > limit:
			return fmt.Sprintf("the error came after %s: %s", r.Duration.Round(time.Millisecond), said(r))
		}
		return ""
	}), nil
}

func hung(v starlark.Value) string {
	got, ok := v.(*value.Response)
	if !ok {
		return "the scenario returned " + bind.Describe(v) + ", which is no response"
	}
	if r := got.Response(); !r.TimedOut {
		return "there was an answer: " + said(r)
	}
	return ""
}

// said writes a response for a message.
func said(r spec.Response) string {
	text := ""
	if r.Status != 0 {
		text = fmt.Sprintf("status %d, ", r.Status)
	}
	if r.Error != "" {
		return text + r.Error
	}
	return text + "body " + fmt.Sprintf("%q", value.Cut(r.Body, 200))
}
