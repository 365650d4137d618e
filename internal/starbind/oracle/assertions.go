package oracle

import (
	"cmp"
	"fmt"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
)

// Assertions are the builtins that fail a leaf unless something holds.
func Assertions() []bind.Entry {
	message := bind.Param{Name: "msg", Kind: bind.String(), Doc: "what is wrong when it does not hold"}
	return []bind.Entry{
		{
			Name: "assert_true", Phases: bind.InBody | bind.InProperty, Checks: true,
			Doc:     "fails the leaf where a condition is not true.",
			Example: `assert_true(r.ok, "the order must be accepted")`,
			Params:  []bind.Param{{Name: "cond", Kind: bind.Value(), Required: true, Doc: "the condition"}, message},
			Do:      do(assertTrue),
		},
		{
			Name: "assert_eq", Phases: bind.InBody | bind.InProperty, Checks: true,
			Doc:     "fails the leaf where two values differ.",
			Example: `assert_eq(r.status, 503)`,
			Params: []bind.Param{
				{Name: "a", Kind: bind.Value(), Required: true, Doc: "what is"},
				{Name: "b", Kind: bind.Value(), Required: true, Doc: "what should be"}, message,
			},
			Do: do(assertEqual),
		},
		{
			Name: "assert_never", Phases: inTrace, Checks: true,
			Doc:     "fails the leaf where an event so far matches.",
			Example: `assert_never(type = "stdout", level = "panic")`,
			Params:  filterOf(message), Rest: fieldKeywords(),
			Do: do(func(c *call) (starlark.Value, error) { return assertEvents(c, false) }),
		},
		{
			Name: "assert_eventually", Phases: inTrace, Checks: true,
			Doc:     "fails the leaf where no event so far matches. It does not wait; see await_event.",
			Example: `assert_eventually(type = "stdout", service = "api", status = "confirmed")`,
			Params:  filterOf(message), Rest: fieldKeywords(),
			Do: do(func(c *call) (starlark.Value, error) { return assertEvents(c, true) }),
		},
		{
			Name: "assert_before", Phases: inTrace, Checks: true,
			Doc:     "fails the leaf unless both have happened and the first event that matches first stands before the first that matches then, in the order of the log.",
			Example: `assert_before(first = {"type": "stdout", "service": "db", "event": "persisted"}, then = match.event(service = "api", status = "confirmed"))`,
			Params: []bind.Param{
				{Name: "first", Kind: EventPredicate(), Required: true, Doc: "what must come first: a matcher, a dict of fields, or a function of an event"},
				{Name: "then", Kind: EventPredicate(), Required: true, Doc: "what must come after it"}, message,
			},
			Do: do(assertBefore),
		},
	}
}

func (c *call) violation(format string, args ...any) error {
	return &property.Violation{Message: fmt.Sprintf(format, args...), Position: c.Site.Start().String()}
}

// asserted tells the world that the body makes an assertion, where it wants to know.
func (c *call) asserted() {
	if c.scope.World() == nil {
		return
	}
	if v, ok := c.scope.World().Events().(interface{ Asserted() }); ok {
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
	return nil, c.violation("%s", cmp.Or(bind.Arg[string](c.Call, "msg"), "assert_true"+text))
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
	differ := fmt.Sprintf("%s is not %s%s", value.Short(a), value.Short(b), parting(a, b))
	if msg := bind.Arg[string](c.Call, "msg"); msg != "" {
		return nil, c.violation("%s: %s", msg, differ)
	}
	return nil, c.violation("assert_eq: %s", differ)
}

// parting says where two texts part whose beginnings are the same for longer than a message shows; "" for others.
func parting(a, b starlark.Value) string {
	x, isText := starlark.AsString(a)
	y, areTexts := starlark.AsString(b)
	at := 0
	for at < min(len(x), len(y)) && x[at] == y[at] {
		at++
	}
	if !isText || !areTexts || at < 100 {
		return ""
	}
	rest := func(s string) string { return starlark.String(value.Cut(s[at:], 40)).String() }
	return fmt.Sprintf("; they part after %d bytes: %s and %s", at, rest(x), rest(y))
}

func assertEvents(c *call, wanted bool) (starlark.Value, error) {
	c.asserted()
	in := c.whole()
	found, err := c.filtered(in, in.Events, 1)
	if err != nil {
		return nil, err
	}
	if !wanted {
		c.watched()
	}
	if wanted == (len(found) > 0) {
		return starlark.None, nil
	}
	if wanted {
		return nil, c.violation("%s", cmp.Or(bind.Arg[string](c.Call, "msg"), "assert_eventually: no event matches"))
	}
	return nil, c.shown(found[0], cmp.Or(bind.Arg[string](c.Call, "msg"), "assert_never: "+value.Short(value.Of(found[0], in))))
}

// watched tells the world what an assertion looks at that holds where nothing happens.
func (c *call) watched() {
	if c.scope.World() == nil {
		return
	}
	v, ok := c.scope.World().Events().(interface {
		Watched(name, position string, like property.Like)
	})
	known := []*property.Like{c.fieldTest().like}
	for _, name := range []string{"event", "where"} {
		if p, given := c.Args[name].(Predicate); given && p.matcher != nil {
			known = append(known, p.matcher.like)
		}
	}
	var all []property.Like
	for _, like := range known {
		if like != nil {
			all = append(all, *like)
		}
	}
	switch at := c.Site.Start().String(); {
	case !ok || len(all) == 0:
	case len(all) == 1:
		v.Watched(c.Entry.Name+"@"+at, at, all[0])
	default:
		v.Watched(c.Entry.Name+"@"+at, at, property.Like{All: all})
	}
}

// shown is a violation that an event shows.
func (c *call) shown(by event.Event, message string) error {
	return &property.Violation{Message: message, Witness: by.Seq, Position: c.Site.Start().String()}
}

func assertBefore(c *call) (starlark.Value, error) {
	c.asserted()
	in := c.whole()
	first, err := c.place(in, "first", in.Events)
	if err != nil {
		return nil, err
	}
	then, err := c.place(in, "then", in.Events)
	if err != nil {
		return nil, err
	}
	message := bind.Arg[string](c.Call, "msg")
	switch {
	case then == nil:
		return nil, c.violation("%s", cmp.Or(message, "assert_before: no event matches then="))
	case first == nil:
		return nil, c.shown(*then, cmp.Or(message, "assert_before: no event matches first=, and then= has happened: "+value.Short(value.Of(*then, in))))
	case first.Seq >= then.Seq:
		text := fmt.Sprintf("assert_before: %s stands before %s", value.Short(value.Of(*then, in)), value.Short(value.Of(*first, in)))
		return nil, c.shown(*then, cmp.Or(message, text))
	}
	return starlark.None, nil
}
