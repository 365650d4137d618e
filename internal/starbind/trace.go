package starbind

import (
	"fmt"
	"slices"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
)

// inTrace is where there are events to look at.
const inTrace = bind.InBody | bind.InProperty

// filterOf are the parameters of what chooses events.
func filterOf(more ...param) []param {
	return append(append([]param{
		{Name: "event", Kind: anEventPredicate(), Doc: "a matcher, a dict of fields, or a function of an event"},
		{Name: "where", Kind: anEventPredicate(), Doc: "the same, by keyword; both have to fit"},
	}, filterParams()...), more...)
}

// eventAssertions are the assertions over events.
func eventAssertions() []entry {
	message := param{Name: "msg", Kind: bind.String(), Doc: "what is wrong when it does not hold"}
	return []entry{
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
			Params: []param{
				{Name: "first", Kind: anEventPredicate(), Required: true, Doc: "what must come first: a matcher, a dict of fields, or a function of an event"},
				{Name: "then", Kind: anEventPredicate(), Required: true, Doc: "what must come after it"}, message,
			},
			Do: do(assertBefore),
		},
	}
}

// traceEntries are the builtins that choose events from the trace.
func traceEntries() []entry {
	place := "an event, or what chooses one: a matcher, a dict of fields or a function"
	return []entry{
		{
			Name: "events", Phases: inTrace,
			Doc:     "returns the events so far that match, oldest first: a list with the methods of a trace.",
			Example: `denied = events(type = "syscall", service = "db", name = "write", decision = "deny").count()`,
			Params:  filterOf(), Rest: fieldKeywords(),
			Do: do(func(c *call) (starlark.Value, error) {
				in := c.whole()
				found, err := c.filtered(in, in.Events, 0)
				return value.NewTrace(found, in), err
			}),
		},
		{
			Name: "events_between", Phases: inTrace,
			Doc:     "returns the events after one and before another, without them. Where the later one has not come, they go on to the newest event; where the earlier one has not, there are none.",
			Example: `retries = events_between({"type": "fault", "op": "installed"}, {"type": "fault", "op": "lifted"}).count(type = "link", op = "connect")`,
			Params: []param{
				{Name: "first", Kind: anEventOrPredicate(), Required: true, Doc: place},
				{Name: "last", Kind: anEventOrPredicate(), Required: true, Doc: place + "; the first one after the earlier"},
			},
			Do: do(eventsBetween),
		},
		{
			Name: "events_within", Phases: inTrace,
			Doc:     "returns the events that match and lie at most a time before or after another event, without that.",
			Example: `near = events_within(match.event(type = "stderr"), "50ms", of = {"type": "lifecycle", "phase": "kill"})`,
			Params: []param{
				{Name: "event", Kind: anEventPredicate(), Required: true, Doc: "a matcher, a dict of fields, or a function of an event"},
				{Name: "window", Kind: bind.Duration(), Required: true, Doc: "how far away they may be"},
				{Name: "of", Kind: anEventOrPredicate(), Required: true, Doc: place},
			},
			Do: do(eventsWithin),
		},
		{
			Name: "causal_chain", Phases: inTrace,
			Doc:     "returns all events that happened before an event by their vector clocks, oldest first, with the event at the end. What it holds can have led to the event; what it lacks cannot, as far as Squall saw the ways between the services.",
			Example: `past = causal_chain(events(type = "step_recv").last()).where(type = "syscall", decision = "deny")`,
			Params:  []param{{Name: "event", Kind: anEventOrPredicate(), Required: true, Doc: place}},
			Do:      do(causalChain),
		},
	}
}

// anEventOrPredicate is an event or what chooses one; it converts to a *value.Event or an eventPredicate.
func anEventOrPredicate() kind {
	inner := anEventPredicate()
	return bind.Or("an event, "+inner.Name, func(v starlark.Value) (any, bool) {
		e, ok := v.(*value.Event)
		return e, ok
	}, inner)
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
		return nil, c.violation("%s", orElse(arg[string](c, "msg"), "assert_eventually: no event matches"))
	}
	return nil, c.shown(found[0], orElse(arg[string](c, "msg"), "assert_never: "+short(value.Of(found[0], in))))
}

// watched tells the world what an assertion looks at that holds where nothing happens.
func (c *call) watched() {
	if c.env.world == nil {
		return
	}
	v, ok := c.env.world.Events().(interface {
		Watched(name, position string, like property.Like)
	})
	known := []*property.Like{c.fieldTest().like}
	for _, name := range []string{"event", "where"} {
		if p, given := c.Args[name].(eventPredicate); given && p.matcher != nil {
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
	message := arg[string](c, "msg")
	switch {
	case then == nil:
		return nil, c.violation("%s", orElse(message, "assert_before: no event matches then="))
	case first == nil:
		return nil, c.shown(*then, orElse(message, "assert_before: no event matches first=, and then= has happened: "+short(value.Of(*then, in))))
	case first.Seq >= then.Seq:
		text := fmt.Sprintf("assert_before: %s stands before %s", short(value.Of(*then, in)), short(value.Of(*first, in)))
		return nil, c.shown(*then, orElse(message, text))
	}
	return starlark.None, nil
}

// trace is the events that code can see where it runs.
func (c *call) trace() []event.Event { return c.whole().Events }

// whole is the trace that code can see where it runs, for the values made of it.
func (c *call) whole() *value.Whole {
	w := &value.Whole{Methods: c.env.loader, Alone: c.env.alone}
	if w.Alone {
		c.Errorf(c.Site.Span(), "", "this function sees one event only; look at the others in a monitor, in a function of the trace or in the scenario")
	}
	if c.env.when == bind.InProperty {
		c.env.looked = true
		w.Events = c.env.trace
	} else {
		w.Events = c.env.world.Events().All()
	}
	return w
}

// filtered returns the events of a list that fit a call's filter; limit 0 means all.
func (c *call) filtered(in *value.Whole, list []event.Event, limit int) ([]event.Event, error) {
	tests := []eventPredicate{{matcher: c.fieldTest()}}
	for _, name := range []string{"event", "where"} {
		if p, given := c.Args[name].(eventPredicate); given {
			tests = append(tests, p)
		}
	}
	var out []event.Event
	for _, e := range list {
		fits := true
		for _, p := range tests {
			ok, err := c.fits(in, p, e)
			if err != nil {
				return nil, err
			}
			if fits = ok; !fits {
				break
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
func (c *call) fits(in *value.Whole, p eventPredicate, e event.Event) (bool, error) {
	if p.matcher != nil {
		return p.matcher.test(e)
	}
	v, err := starlark.Call(c.Thread, p.fn, starlark.Tuple{value.Of(e, in)}, nil)
	if err != nil {
		return false, err
	}
	return bool(v.Truth()), nil
}

// place returns the event that an argument is, or the first of a list that it chooses; nil for none.
func (c *call) place(in *value.Whole, name string, list []event.Event) (*event.Event, error) {
	p, ok := c.Args[name].(eventPredicate)
	if !ok {
		e, _ := c.Args[name].(*value.Event)
		if e == nil {
			return nil, nil
		}
		return &e.E, nil
	}
	for i := range list {
		if ok, err := c.fits(in, p, list[i]); ok || err != nil {
			return &list[i], err
		}
	}
	return nil, nil
}

func eventsBetween(c *call) (starlark.Value, error) {
	in := c.whole()
	first, err := c.place(in, "first", in.Events)
	if err != nil || first == nil {
		return value.NewTrace(nil, in), err
	}
	rest := since(in.Events, first.Seq+1)
	last, err := c.place(in, "last", rest)
	if err != nil || last == nil {
		return value.NewTrace(rest, in), err
	}
	return value.NewTrace(rest[:len(rest)-len(since(rest, last.Seq))], in), nil
}

// since returns the part of a list whose numbers are at least seq. A trace may lack some numbers.
func since(list []event.Event, seq int64) []event.Event {
	i, _ := slices.BinarySearchFunc(list, seq, func(e event.Event, seq int64) int {
		return int(min(max(e.Seq-seq, -1), 1))
	})
	return list[i:]
}

func eventsWithin(c *call) (starlark.Value, error) {
	in := c.whole()
	of, err := c.place(in, "of", in.Events)
	if err != nil || of == nil {
		return value.NewTrace(nil, in), err
	}
	window := arg[time.Duration](c, "window")
	var near []event.Event
	for _, e := range in.Events {
		if away := e.At - of.At; e.Seq == of.Seq || away > window || away < -window {
			continue
		}
		ok, err := c.fits(in, arg[eventPredicate](c, "event"), e)
		if err != nil {
			return nil, err
		}
		if ok {
			near = append(near, e)
		}
	}
	return value.NewTrace(near, in), nil
}

func causalChain(c *call) (starlark.Value, error) {
	in := c.whole()
	of, err := c.place(in, "event", in.Events)
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, fmt.Errorf("causal_chain: no event matches")
	}
	var past []event.Event
	for _, e := range in.Events {
		if e.Seq == of.Seq || e.Clock.HappensBefore(of.Clock) {
			past = append(past, e)
		}
	}
	return value.NewTrace(past, in), nil
}

// span is a length of time as a value.
func span(d time.Duration) starlark.Value { return startime.Duration(d) }
