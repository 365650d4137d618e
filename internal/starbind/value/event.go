package value

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/event"
)

// Whole is a trace that events were taken from, as far as it went then.
type Whole struct {
	Events []event.Event
	// Alone is set where an event is looked at without the others; what needs them is refused.
	Alone bool
	// Methods are those of events and traces, which need more than this package knows; nil for none.
	Methods Methods
}

// Methods makes the methods of events and traces.
type Methods interface {
	// Method returns a method of a receiver, or nil.
	Method(receiver starlark.Value, name string) starlark.Value
	// MethodNames lists the methods of a receiver.
	MethodNames(receiver starlark.Value) []string
}

// Event is an event as a value. Its fields are attributes and keys.
type Event struct {
	E event.Event
	// In is the trace that it was taken from.
	In *Whole
}

// Of makes a value of an event.
func Of(e event.Event, in *Whole) *Event { return &Event{e, in} }

// String writes it for messages.
func (v *Event) String() string {
	return fmt.Sprintf("event(#%d %s %s %s)", v.E.Seq, v.E.Service, v.E.Kind, jsonText(v.E.Fields))
}

// Type names its type.
func (v *Event) Type() string { return "event" }

// Freeze does nothing: it does not change.
func (v *Event) Freeze() {}

// Truth is True.
func (v *Event) Truth() starlark.Bool { return true }

// Hash makes it usable as a key.
func (v *Event) Hash() (uint32, error) { return starlark.MakeInt64(v.E.Seq).Hash() }

// CompareSameType makes two values of one event equal.
func (v *Event) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	same := v.E.Seq == y.(*Event).E.Seq
	switch op {
	case syntax.EQL:
		return same, nil
	case syntax.NEQ:
		return !same, nil
	}
	return false, fmt.Errorf("events are ordered by .seq")
}

// Attr returns a part of the event, a method or a field; a field that the event does not have is None,
// since one predicate sees events of many kinds. A field that has the name of a method is reached by its
// key only.
func (v *Event) Attr(name string) (starlark.Value, error) {
	switch name {
	case "data":
		return v.data(), nil
	case "fields":
		return ToStarlark(v.E.Fields), nil
	case "get":
		return starlark.NewBuiltin("get", v.get), nil
	}
	if m := method(v.In, v, name); m != nil {
		return m, nil
	}
	if got, found := v.lookup(name); found {
		return got, nil
	}
	return starlark.None, nil
}

func (v *Event) get(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var key string
	var other starlark.Value = starlark.None
	if err := starlark.UnpackArgs("get", args, kwargs, "key", &key, "default?", &other); err != nil {
		return nil, err
	}
	if got, found := v.lookup(key); found {
		return got, nil
	}
	return other, nil
}

// AttrNames lists what this event has.
func (v *Event) AttrNames() []string {
	names := append(slices.Collect(maps.Keys(v.E.Fields)), "type", "service", "seq", "at_ms", "data", "fields", "get")
	names = append(names, methodNames(v.In, v)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Get is the event as a dict.
func (v *Event) Get(key starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(key)
	if !ok {
		return nil, false, fmt.Errorf("an event's key is a string, got %s", key.Type())
	}
	got, found := v.lookup(name)
	return got, found, nil
}

func (v *Event) lookup(name string) (starlark.Value, bool) {
	switch name {
	case "type":
		return starlark.String(v.E.Kind), true
	case "service":
		return starlark.String(v.E.Service), true
	case "seq":
		return starlark.MakeInt64(v.E.Seq), true
	case "at_ms":
		return starlark.Float(float64(v.E.At) / 1e6), true
	}
	got, found := v.E.Fields[name]
	return ToStarlark(got), found
}

// data is the decoded content: the field of that name, the members of a JSON line, or all fields.
func (v *Event) data() starlark.Value {
	switch d := v.E.Fields["data"].(type) {
	case map[string]any, []any:
		return ToStarlark(d)
	}
	if line := v.E.String("line"); line != "" {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m != nil {
			return ToStarlark(m)
		}
	}
	return ToStarlark(v.E.Fields)
}

// Trace is a sequence of events as a value. It is a list that does not change and has methods of its own.
type Trace struct {
	Events []event.Event
	In     *Whole
}

// NewTrace makes a trace of some events of a whole one.
func NewTrace(events []event.Event, in *Whole) *Trace { return &Trace{events, in} }

// String writes it for messages.
func (t *Trace) String() string { return t.list().String() }

// Type is that of a list: what takes a list takes a trace.
func (t *Trace) Type() string { return "list" }

// Freeze does nothing: it does not change.
func (t *Trace) Freeze() {}

// Hash refuses, as that of a list does.
func (t *Trace) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable type: list") }

// Len returns how many events there are.
func (t *Trace) Len() int { return len(t.Events) }

// Index returns an event.
func (t *Trace) Index(i int) starlark.Value { return Of(t.Events[i], t.In) }

// Slice returns a part.
func (t *Trace) Slice(start, end, step int) starlark.Value {
	if step == 1 {
		return NewTrace(t.Events[start:end], t.In)
	}
	var part []event.Event
	for i := start; step > 0 && i < end || step < 0 && i > end; i += step {
		part = append(part, t.Events[i])
	}
	return NewTrace(part, t.In)
}

// Truth reports whether there is an event.
func (t *Trace) Truth() starlark.Bool { return len(t.Events) > 0 }

// Iterate goes through the events.
func (t *Trace) Iterate() starlark.Iterator { return &traceIterator{t, 0} }

// CompareSameType compares it as the list that it stands for.
func (t *Trace) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	if other, ok := y.(*Trace); ok {
		y = other.list()
	}
	return starlark.CompareDepth(op, t.list(), y, depth)
}

// Binary is what operators make of it and another value.
func (t *Trace) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch {
	case op == syntax.IN && side == starlark.Right:
		e, ok := y.(*Event)
		return starlark.Bool(ok && slices.ContainsFunc(t.Events, func(o event.Event) bool { return o.Seq == e.E.Seq })), nil
	case op == syntax.PLUS:
		if other, ok := y.(*Trace); ok {
			y = other.list()
		}
		if _, ok := y.(*starlark.List); ok && side == starlark.Left {
			return starlark.Binary(op, t.list(), y)
		} else if ok {
			return starlark.Binary(op, y, t.list())
		}
	}
	return nil, nil
}

// Attr returns a method.
func (t *Trace) Attr(name string) (starlark.Value, error) { return method(t.In, t, name), nil }

// AttrNames lists the methods.
func (t *Trace) AttrNames() []string { return methodNames(t.In, t) }

func (t *Trace) list() *starlark.List {
	list := make([]starlark.Value, len(t.Events))
	for i := range t.Events {
		list[i] = t.Index(i)
	}
	return starlark.NewList(list)
}

type traceIterator struct {
	t *Trace
	i int
}

func (it *traceIterator) Next(p *starlark.Value) bool {
	if it.i >= len(it.t.Events) {
		return false
	}
	*p = it.t.Index(it.i)
	it.i++
	return true
}
func (it *traceIterator) Done() {}

// method returns nil, not a nil pointer in an interface, where there is none.
func method(in *Whole, receiver starlark.Value, name string) starlark.Value {
	if in == nil || in.Methods == nil {
		return nil
	}
	return in.Methods.Method(receiver, name)
}

func methodNames(in *Whole, receiver starlark.Value) []string {
	if in == nil || in.Methods == nil {
		return nil
	}
	return in.Methods.MethodNames(receiver)
}

var (
	_ starlark.Sliceable  = (*Trace)(nil)
	_ starlark.HasBinary  = (*Trace)(nil)
	_ starlark.HasAttrs   = (*Trace)(nil)
	_ starlark.Comparable = (*Trace)(nil)
)
