// Package value has the values by which a spec sees a running system: events, traces and responses,
// and the conversions between Starlark and JSON.
package value

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/spec"
)

// Event is an event as a value. Its fields are attributes and keys.
type Event struct{ E event.Event }

// Of makes a value of an event.
func Of(e event.Event) *Event { return &Event{e} }

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

// Attr returns a part of the event or a field; a field that the event does not have is None, since
// one predicate sees events of many kinds.
func (v *Event) Attr(name string) (starlark.Value, error) {
	switch name {
	case "data":
		return v.data(), nil
	case "fields":
		return ToStarlark(v.E.Fields), nil
	case "get":
		return starlark.NewBuiltin("get", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var key string
			var other starlark.Value = starlark.None
			if err := starlark.UnpackArgs("get", args, kwargs, "key", &key, "default?", &other); err != nil {
				return nil, err
			}
			if got, found := v.lookup(key); found {
				return got, nil
			}
			return other, nil
		}), nil
	case "happens_before":
		return starlark.NewBuiltin("happens_before", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var other starlark.Value
			if err := starlark.UnpackArgs("happens_before", args, kwargs, "other", &other); err != nil {
				return nil, err
			}
			o, ok := other.(*Event)
			if !ok {
				return nil, fmt.Errorf("happens_before: got %s, want an event", other.Type())
			}
			return starlark.Bool(v.E.Clock.HappensBefore(o.E.Clock)), nil
		}), nil
	}
	if got, found := v.lookup(name); found {
		return got, nil
	}
	return starlark.None, nil
}

// AttrNames lists what this event has.
func (v *Event) AttrNames() []string {
	names := append(slices.Collect(maps.Keys(v.E.Fields)), "type", "service", "seq", "at_ms", "data", "fields", "get", "happens_before")
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

// Opaque is the part that values without structure share.
type Opaque struct{ Kind, Text string }

// String writes it for messages.
func (o Opaque) String() string { return o.Text }

// Type names its type.
func (o Opaque) Type() string { return o.Kind }

// Freeze does nothing: it does not change.
func (o Opaque) Freeze() {}

// Truth is True.
func (o Opaque) Truth() starlark.Bool { return true }

// Hash makes it usable as a key.
func (o Opaque) Hash() (uint32, error) { return starlark.String(o.Kind + o.Text).Hash() }

// Trace is a trace as a value: a sequence of events.
type Trace struct {
	Opaque
	events []event.Event
}

// NewTrace makes a trace of events.
func NewTrace(events []event.Event) *Trace {
	return &Trace{Opaque{"trace", fmt.Sprintf("<trace of %d events>", len(events))}, events}
}

// Len returns how many events there are.
func (t *Trace) Len() int { return len(t.events) }

// Index returns an event.
func (t *Trace) Index(i int) starlark.Value { return &Event{t.events[i]} }

// Truth reports whether there is an event.
func (t *Trace) Truth() starlark.Bool { return len(t.events) > 0 }

// Iterate goes through the events.
func (t *Trace) Iterate() starlark.Iterator { return &traceIterator{events: t.events} }

// Attr returns the last event.
func (t *Trace) Attr(name string) (starlark.Value, error) {
	if name != "last" {
		return nil, nil
	}
	if len(t.events) == 0 {
		return starlark.None, nil
	}
	return &Event{t.events[len(t.events)-1]}, nil
}

// AttrNames lists what Attr knows.
func (t *Trace) AttrNames() []string { return []string{"last"} }

type traceIterator struct{ events []event.Event }

func (i *traceIterator) Next(p *starlark.Value) bool {
	if len(i.events) == 0 {
		return false
	}
	*p, i.events = &Event{i.events[0]}, i.events[1:]
	return true
}
func (i *traceIterator) Done() {}

// Response is the result of a step as a value.
type Response struct {
	Opaque
	r spec.Response
}

// NewResponse makes a value of a response.
func NewResponse(r spec.Response) *Response {
	text := fmt.Sprintf("response(status=%d, ok=%v, body=%q", r.Status, r.OK, Cut(r.Body, 100))
	if r.Error != "" {
		text += fmt.Sprintf(", error=%q", r.Error)
	}
	return &Response{Opaque{"response", text + ")"}, r}
}

// Attr returns a part of the response.
func (v *Response) Attr(name string) (starlark.Value, error) {
	switch name {
	case "status":
		return starlark.MakeInt(v.r.Status), nil
	case "ok":
		return starlark.Bool(v.r.OK), nil
	case "body":
		return starlark.String(v.r.Body), nil
	case "error":
		return starlark.String(v.r.Error), nil
	case "duration_ms":
		return starlark.MakeInt64(v.r.Duration.Milliseconds()), nil
	case "fields":
		return ToStarlark(v.r.Fields), nil
	case "data":
		var data any
		decoder := json.NewDecoder(strings.NewReader(v.r.Body))
		decoder.UseNumber()
		if decoder.Decode(&data) != nil {
			return starlark.None, nil
		}
		return ToStarlark(data), nil
	}
	return nil, nil
}

// AttrNames lists what Attr knows.
func (v *Response) AttrNames() []string {
	return []string{"body", "data", "duration_ms", "error", "fields", "ok", "status"}
}

// ToStarlark converts a JSON value, frozen.
func ToStarlark(v any) starlark.Value {
	switch v := v.(type) {
	case nil:
		return starlark.None
	case bool:
		return starlark.Bool(v)
	case string:
		return starlark.String(v)
	case int:
		return starlark.MakeInt(v)
	case int64:
		return starlark.MakeInt64(v)
	case float64:
		return number(v)
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return starlark.MakeInt64(i)
		}
		f, _ := v.Float64()
		return starlark.Float(f)
	case []any:
		list := make([]starlark.Value, len(v))
		for i, item := range v {
			list[i] = ToStarlark(item)
		}
		l := starlark.NewList(list)
		l.Freeze()
		return l
	case map[string]any:
		d := starlark.NewDict(len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			_ = d.SetKey(starlark.String(k), ToStarlark(v[k])) // a new dict takes every string
		}
		d.Freeze()
		return d
	}
	return starlark.String(fmt.Sprint(v))
}

// number makes whole numbers integers, as a reader of JSON expects.
func number(f float64) starlark.Value {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return starlark.MakeInt64(int64(f))
	}
	return starlark.Float(f)
}

// FromStarlark converts to a JSON value.
func FromStarlark(v starlark.Value) (any, error) {
	switch v := v.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.String:
		return string(v), nil
	case starlark.Bytes:
		return string(v), nil
	case starlark.Int:
		if i, ok := v.Int64(); ok {
			return i, nil
		}
		return nil, fmt.Errorf("integer %s is too large", v)
	case starlark.Float:
		return float64(v), nil
	case starlark.IterableMapping:
		m := map[string]any{}
		for _, item := range v.Items() {
			key, ok := starlark.AsString(item[0])
			if !ok {
				return nil, fmt.Errorf("a key must be a string, got %s", bind.Describe(item[0]))
			}
			got, err := FromStarlark(item[1])
			if err != nil {
				return nil, err
			}
			m[key] = got
		}
		return m, nil
	case starlark.Iterable:
		list := []any{}
		for item := range starlark.Elements(v) {
			got, err := FromStarlark(item)
			if err != nil {
				return nil, err
			}
			list = append(list, got)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a %s can't be written as JSON", v.Type())
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return Cut(string(text), 300)
}

// Cut shortens a text to n runes.
func Cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "..."
	}
	return s
}
