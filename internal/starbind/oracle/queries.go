package oracle

import (
	"fmt"
	"slices"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/value"
)

// inTrace is where there are events to look at.
const inTrace = bind.InBody | bind.InProperty

// filterOf are the parameters of what chooses events.
func filterOf(more ...bind.Param) []bind.Param {
	return append(append([]bind.Param{
		{Name: "event", Kind: EventPredicate(), Doc: "a matcher, a dict of fields, or a function of an event"},
		{Name: "where", Kind: EventPredicate(), Doc: "the same, by keyword; both have to fit"},
	}, filterParams()...), more...)
}

// Queries are the builtins that choose events from the trace.
func Queries() []bind.Entry {
	place := "an event, or what chooses one: a matcher, a dict of fields or a function"
	return []bind.Entry{
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
			Params: []bind.Param{
				{Name: "first", Kind: anEventOrPredicate(), Required: true, Doc: place},
				{Name: "last", Kind: anEventOrPredicate(), Required: true, Doc: place + "; the first one after the earlier"},
			},
			Do: do(eventsBetween),
		},
		{
			Name: "events_within", Phases: inTrace,
			Doc:     "returns the events that match and lie at most a time before or after another event, without that.",
			Example: `near = events_within(match.event(type = "stderr"), "50ms", of = {"type": "lifecycle", "phase": "kill"})`,
			Params: []bind.Param{
				{Name: "event", Kind: EventPredicate(), Required: true, Doc: "a matcher, a dict of fields, or a function of an event"},
				{Name: "window", Kind: bind.Duration(), Required: true, Doc: "how far away they may be"},
				{Name: "of", Kind: anEventOrPredicate(), Required: true, Doc: place},
			},
			Do: do(eventsWithin),
		},
		{
			Name: "causal_chain", Phases: inTrace,
			Doc:     "returns all events that happened before an event by their vector clocks, oldest first, with the event at the end. What it holds can have led to the event; what it lacks cannot, as far as Squall saw the ways between the services.",
			Example: `past = causal_chain(events(type = "step_recv").last()).where(type = "syscall", decision = "deny")`,
			Params:  []bind.Param{{Name: "event", Kind: anEventOrPredicate(), Required: true, Doc: place}},
			Do:      do(causalChain),
		},
	}
}

// anEventOrPredicate is an event or what chooses one; it converts to a *value.Event or an Predicate.
func anEventOrPredicate() bind.Kind {
	inner := EventPredicate()
	return bind.Or("an event, "+inner.Name, func(v starlark.Value) (any, bool) {
		e, ok := v.(*value.Event)
		return e, ok
	}, inner)
}

// whole is the trace that code can see where it runs, for the values made of it.
func (c *call) whole() *value.Whole {
	w := c.scope.Trace()
	if w.Alone {
		c.Errorf(c.Site.Span(), "", "this function sees one event only; look at the others in a monitor, in a function of the trace or in the scenario")
	}
	return w
}

// filtered returns the events of a list that fit a call's filter; limit 0 means all.
func (c *call) filtered(in *value.Whole, list []event.Event, limit int) ([]event.Event, error) {
	tests := []Predicate{{matcher: c.fieldTest()}}
	for _, name := range []string{"event", "where"} {
		if p, given := c.Args[name].(Predicate); given {
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
func (c *call) fits(in *value.Whole, p Predicate, e event.Event) (bool, error) {
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
	p, ok := c.Args[name].(Predicate)
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
	window := bind.Arg[time.Duration](c.Call, "window")
	var near []event.Event
	for _, e := range in.Events {
		if away := e.At - of.At; e.Seq == of.Seq || away > window || away < -window {
			continue
		}
		ok, err := c.fits(in, bind.Arg[Predicate](c.Call, "event"), e)
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
