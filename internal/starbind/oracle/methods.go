package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/value"
)

// Methods are those of events and traces, as "event.name" and "trace.name".
type Methods map[string]*bind.Entry

// NewMethods makes them.
func NewMethods() Methods {
	m := Methods{}
	for _, e := range slices.Concat(TraceMethods(), EventMethods()) {
		m[e.Name] = &e
	}
	return m
}

// Method returns a method of an event or a trace, or nil.
func (m Methods) Method(receiver starlark.Value, name string) starlark.Value {
	if e := m[methodName(receiver, name)]; e != nil {
		return &bind.Builtin{Entry: e, Recv: receiver}
	}
	return nil
}

// MethodNames lists the methods of an event or a trace.
func (m Methods) MethodNames(receiver starlark.Value) []string {
	var names []string
	for name := range m {
		if _, member, _ := strings.Cut(name, "."); methodName(receiver, member) == name {
			names = append(names, member)
		}
	}
	slices.Sort(names)
	return names
}

func methodName(receiver starlark.Value, name string) string {
	if _, ok := receiver.(*value.Event); ok {
		return "event." + name
	}
	return "trace." + name
}

// TraceMethods are the methods of what events() returns, and of the trace that a property gets.
func TraceMethods() []bind.Entry {
	choose := func(name, doc, example string, fn func(c *call, t *value.Trace, found []event.Event) starlark.Value) bind.Entry {
		return bind.Entry{
			Name: "trace." + name, Phases: inTrace, Doc: doc, Example: example, Params: filterOf(), Rest: fieldKeywords(),
			Do: do(func(c *call) (starlark.Value, error) {
				t := c.Recv.(*value.Trace)
				found, err := c.filtered(t.In, t.Events, 0)
				if err != nil {
					return nil, err
				}
				return fn(c, t, found), nil
			}),
		}
	}
	part := func(_ *call, t *value.Trace, found []event.Event) starlark.Value { return value.NewTrace(found, t.In) }
	at := func(i func(n int) int) func(*call, *value.Trace, []event.Event) starlark.Value {
		return func(_ *call, t *value.Trace, found []event.Event) starlark.Value {
			if len(found) == 0 {
				return starlark.None
			}
			return value.Of(found[i(len(found))], t.In)
		}
	}
	return []bind.Entry{
		choose("where", "returns those that match, as events() does.", `slow = events(type = "step_recv").where(duration_ms = match.number(gt = 300))`, part),
		choose("filter", "is another name for where.", `odd = events(type = "stdout").filter(lambda e: e.seq % 2 == 1)`, part),
		choose("first", "returns the oldest that matches, or None.", `first = events().first(type = "step_recv", ok = False)`, at(func(int) int { return 0 })),
		choose("last", "returns the newest that matches, or None.", `last = events().last(type = "stdout", service = "db")`, at(func(n int) int { return n - 1 })),
		choose("count", "returns how many match.", `tries = events().count(type = "link", op = "connect", client = "api")`,
			func(_ *call, _ *value.Trace, found []event.Event) starlark.Value { return starlark.MakeInt(len(found)) }),
		{
			Name: "trace.map", Phases: inTrace, Doc: "returns a list of what a function makes of each event.",
			Example: `orders = events(type = "stdout", fields = {"event": "persisted"}).map(lambda e: e.order)`,
			Params:  []bind.Param{{Name: "fn", Kind: bind.Function(1), Required: true, Doc: "a function of an event"}},
			Do: do(func(c *call) (starlark.Value, error) {
				var list []starlark.Value
				for e := range starlark.Elements(c.Recv.(*value.Trace)) {
					v, err := starlark.Call(c.Thread, bind.Arg[starlark.Callable](c.Call, "fn"), starlark.Tuple{e}, nil)
					if err != nil {
						return nil, err
					}
					list = append(list, v)
				}
				return starlark.NewList(list), nil
			}),
		},
		{
			Name: "trace.reduce", Phases: inTrace, Doc: "folds the events, oldest first, into one value.",
			Example: `total = events(type = "link", op = "close").reduce(lambda sum, e: sum + (e.up or 0), 0)`,
			Params: []bind.Param{
				{Name: "fn", Kind: bind.Function(2), Required: true, Doc: "a function of the value so far and an event"},
				{Name: "initial", Kind: bind.Value(), Required: true, Doc: "the value before the first event"},
			},
			Do: do(func(c *call) (starlark.Value, error) {
				acc := c.Args["initial"].(starlark.Value)
				for e := range starlark.Elements(c.Recv.(*value.Trace)) {
					var err error
					if acc, err = starlark.Call(c.Thread, bind.Arg[starlark.Callable](c.Call, "fn"), starlark.Tuple{acc, e}, nil); err != nil {
						return nil, err
					}
				}
				return acc, nil
			}),
		},
	}
}

// EventMethods are the methods of events.
func EventMethods() []bind.Entry {
	other := []bind.Param{{Name: "other", Kind: anEvent(), Required: true, Doc: "an event"}}
	relation := func(name, doc, example string, fn func(a, b event.Event) starlark.Value) bind.Entry {
		return bind.Entry{
			Name: "event." + name, Phases: inTrace, Doc: doc, Example: example, Params: other,
			Do: do(func(c *call) (starlark.Value, error) {
				return fn(c.Recv.(*value.Event).E, bind.Arg[*value.Event](c.Call, "other").E), nil
			}),
		}
	}
	truth := func(ok bool) starlark.Value { return starlark.Bool(ok) }
	near := []bind.Param{
		{Name: "event", Kind: EventPredicate(), Required: true, Doc: "a matcher, a dict of fields, or a function of an event"},
		{Name: "within", Kind: bind.Duration(), Preset: "any time", Doc: "how far away it may be"},
	}
	return []bind.Entry{
		relation("happens_before", "reports whether the event causally precedes another, by their vector clocks.", `sent.happens_before(answered)`,
			func(a, b event.Event) starlark.Value { return truth(a.Clock.HappensBefore(b.Clock)) }),
		relation("happens_after", "reports whether another event causally precedes this one.", `answered.happens_after(sent)`,
			func(a, b event.Event) starlark.Value { return truth(b.Clock.HappensBefore(a.Clock)) }),
		relation("concurrent_with", "reports whether neither of two events causally precedes the other. An event is not concurrent with itself.", `a.concurrent_with(b)`,
			func(a, b event.Event) starlark.Value {
				return truth(a.Seq != b.Seq && !a.Clock.HappensBefore(b.Clock) && !b.Clock.HappensBefore(a.Clock))
			}),
		relation("same_service_as", "reports whether two events are of one service.", `a.same_service_as(b)`,
			func(a, b event.Event) starlark.Value { return truth(a.Service == b.Service) }),
		relation("duration_since", "returns the time from another event to this one, as a duration; it is negative where this one is earlier.",
			`answered.duration_since(sent) < duration("300ms")`,
			func(a, b event.Event) starlark.Value { return span(a.At - b.At) }),
		{
			Name: "event.preceded_by", Phases: inTrace, Params: near,
			Doc:     "reports whether an event that matches stands before this one in the log. That is the order in which Squall saw them; for causes see happens_before.",
			Example: `confirmed.preceded_by({"service": "db", "event": "persisted"}, within = "1s")`,
			Do:      do(func(c *call) (starlark.Value, error) { return neighbour(c, -1) }),
		},
		{
			Name: "event.followed_by", Phases: inTrace, Params: near,
			Doc:     "reports whether an event that matches stands after this one in the log, as far as the log goes now.",
			Example: `denied.followed_by(match.event(type = "stderr", service = "db"), within = "200ms")`,
			Do:      do(func(c *call) (starlark.Value, error) { return neighbour(c, 1) }),
		},
		{
			Name: "event.directly_caused_by", Phases: inTrace,
			Doc:     "reports whether an event that matches is among the causes of this one: those events of other services, or of the scenario, that the log names as such.",
			Example: `received.directly_caused_by({"type": "step_send"})`,
			Params:  []bind.Param{{Name: "event", Kind: anEventOrPredicate(), Required: true, Doc: "an event, a matcher, a dict of fields, or a function of an event"}},
			Do:      do(directlyCausedBy),
		},
	}
}

func anEvent() bind.Kind {
	return bind.Scalar("an event", func(v starlark.Value) (any, bool) {
		e, ok := v.(*value.Event)
		return e, ok
	})
}

// company returns the trace that the receiver was taken from, or says that it stands alone here.
func (c *call) company() (*value.Whole, error) {
	v := c.Recv.(*value.Event)
	if v.In.Alone {
		return nil, fmt.Errorf("%s: this function sees one event only; look at the others in a monitor, in a function of the trace or in the scenario", c.Entry.Name)
	}
	c.scope.Looked()
	return v.In, nil
}

// neighbour looks for an event before (-1) or after (1) the receiver.
func neighbour(c *call, side int) (starlark.Value, error) {
	in, err := c.company()
	if err != nil {
		return nil, err
	}
	self := c.Recv.(*value.Event).E
	limit, limited := c.Args["within"].(time.Duration)
	list := in.Events[:len(in.Events)-len(since(in.Events, self.Seq))]
	if side > 0 {
		list = since(in.Events, self.Seq+1)
	}
	for _, e := range list {
		if limited && (e.At-self.At)*time.Duration(side) > limit {
			continue
		}
		ok, err := c.fits(in, bind.Arg[Predicate](c.Call, "event"), e)
		if ok || err != nil {
			return starlark.Bool(ok), err
		}
	}
	return starlark.False, nil
}

func directlyCausedBy(c *call) (starlark.Value, error) {
	self := c.Recv.(*value.Event).E
	if cause, ok := c.Args["event"].(*value.Event); ok {
		return starlark.Bool(slices.Contains(self.After, cause.E.Seq)), nil
	}
	in, err := c.company()
	if err != nil {
		return nil, err
	}
	for _, seq := range self.After {
		list := since(in.Events, seq)
		if len(list) == 0 || list[0].Seq != seq {
			continue
		}
		ok, err := c.fits(in, bind.Arg[Predicate](c.Call, "event"), list[0])
		if ok || err != nil {
			return starlark.Bool(ok), err
		}
	}
	return starlark.False, nil
}
