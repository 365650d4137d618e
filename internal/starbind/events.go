package starbind

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
	"github.com/squallhq/squall/spec"
)

// eventValue is an event as a value. Its fields are attributes and keys.
type eventValue struct{ e event.Event }

func (v *eventValue) String() string {
	return fmt.Sprintf("event(#%d %s %s %s)", v.e.Seq, v.e.Service, v.e.Kind, jsonText(v.e.Fields))
}
func (v *eventValue) Type() string          { return "event" }
func (v *eventValue) Freeze()               {}
func (v *eventValue) Truth() starlark.Bool  { return true }
func (v *eventValue) Hash() (uint32, error) { return starlark.MakeInt64(v.e.Seq).Hash() }

// CompareSameType makes two values of one event equal.
func (v *eventValue) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	same := v.e.Seq == y.(*eventValue).e.Seq
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
func (v *eventValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "data":
		return v.data(), nil
	case "fields":
		return toStarlark(v.e.Fields), nil
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
			o, ok := other.(*eventValue)
			if !ok {
				return nil, fmt.Errorf("happens_before: got %s, want an event", other.Type())
			}
			return starlark.Bool(v.e.Clock.HappensBefore(o.e.Clock)), nil
		}), nil
	}
	if got, found := v.lookup(name); found {
		return got, nil
	}
	return starlark.None, nil
}

// AttrNames lists what this event has.
func (v *eventValue) AttrNames() []string {
	names := append(slices.Collect(maps.Keys(v.e.Fields)), "type", "service", "seq", "at_ms", "data", "fields", "get", "happens_before")
	slices.Sort(names)
	return slices.Compact(names)
}

// Get is the event as a dict.
func (v *eventValue) Get(key starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(key)
	if !ok {
		return nil, false, fmt.Errorf("an event's key is a string, got %s", key.Type())
	}
	got, found := v.lookup(name)
	return got, found, nil
}

func (v *eventValue) lookup(name string) (starlark.Value, bool) {
	switch name {
	case "type":
		return starlark.String(v.e.Kind), true
	case "service":
		return starlark.String(v.e.Service), true
	case "seq":
		return starlark.MakeInt64(v.e.Seq), true
	case "at_ms":
		return starlark.Float(float64(v.e.At) / 1e6), true
	}
	got, found := v.e.Fields[name]
	return toStarlark(got), found
}

// data is the decoded content: the field of that name, the members of a JSON line, or all fields.
func (v *eventValue) data() starlark.Value {
	switch d := v.e.Fields["data"].(type) {
	case map[string]any, []any:
		return toStarlark(d)
	}
	if line := v.e.String("line"); line != "" {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m != nil {
			return toStarlark(m)
		}
	}
	return toStarlark(v.e.Fields)
}

// traceValue is a trace as a value: a sequence of events.
type traceValue struct {
	opaque
	events []event.Event
}

func newTrace(events []event.Event) *traceValue {
	return &traceValue{opaque{"trace", fmt.Sprintf("<trace of %d events>", len(events))}, events}
}

// Len returns how many events there are.
func (t *traceValue) Len() int { return len(t.events) }

// Index returns an event.
func (t *traceValue) Index(i int) starlark.Value { return &eventValue{t.events[i]} }

// Truth reports whether there is an event.
func (t *traceValue) Truth() starlark.Bool { return len(t.events) > 0 }

// Iterate goes through the events.
func (t *traceValue) Iterate() starlark.Iterator { return &traceIterator{events: t.events} }

// Attr returns the last event.
func (t *traceValue) Attr(name string) (starlark.Value, error) {
	if name != "last" {
		return nil, nil
	}
	if len(t.events) == 0 {
		return starlark.None, nil
	}
	return &eventValue{t.events[len(t.events)-1]}, nil
}

// AttrNames lists what Attr knows.
func (t *traceValue) AttrNames() []string { return []string{"last"} }

type traceIterator struct{ events []event.Event }

func (i *traceIterator) Next(p *starlark.Value) bool {
	if len(i.events) == 0 {
		return false
	}
	*p, i.events = &eventValue{i.events[0]}, i.events[1:]
	return true
}
func (i *traceIterator) Done() {}

// response is the result of a step as a value.
type response struct {
	opaque
	r spec.Response
}

func newResponse(r spec.Response) *response {
	text := fmt.Sprintf("response(status=%d, ok=%v, body=%q", r.Status, r.OK, cutText(r.Body, 100))
	if r.Error != "" {
		text += fmt.Sprintf(", error=%q", r.Error)
	}
	return &response{opaque{"response", text + ")"}, r}
}

// Attr returns a part of the response.
func (v *response) Attr(name string) (starlark.Value, error) {
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
		return toStarlark(v.r.Fields), nil
	case "data":
		var data any
		decoder := json.NewDecoder(strings.NewReader(v.r.Body))
		decoder.UseNumber()
		if decoder.Decode(&data) != nil {
			return starlark.None, nil
		}
		return toStarlark(data), nil
	}
	return nil, nil
}

// AttrNames lists what Attr knows.
func (v *response) AttrNames() []string {
	return []string{"body", "data", "duration_ms", "error", "fields", "ok", "status"}
}

// toStarlark converts a JSON value, frozen.
func toStarlark(v any) starlark.Value {
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
			list[i] = toStarlark(item)
		}
		l := starlark.NewList(list)
		l.Freeze()
		return l
	case map[string]any:
		d := starlark.NewDict(len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			_ = d.SetKey(starlark.String(k), toStarlark(v[k])) // a new dict takes every string
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

// fromStarlark converts to a JSON value.
func fromStarlark(v starlark.Value) (any, error) {
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
				return nil, fmt.Errorf("a key must be a string, got %s", describe(item[0]))
			}
			got, err := fromStarlark(item[1])
			if err != nil {
				return nil, err
			}
			m[key] = got
		}
		return m, nil
	case starlark.Iterable:
		list := []any{}
		for item := range starlark.Elements(v) {
			got, err := fromStarlark(item)
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
	return cutText(string(text), 300)
}

func cutText(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "..."
	}
	return s
}
