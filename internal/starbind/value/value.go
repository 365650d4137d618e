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

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/spec"
)

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

// Response returns what it is made of.
func (v *Response) Response() spec.Response { return v.r }

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
	case "timed_out":
		return starlark.Bool(v.r.TimedOut), nil
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
	return []string{"body", "data", "duration_ms", "error", "fields", "ok", "status", "timed_out"}
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

// Named makes the part of a value that has no data of its own to show.
func Named(kind, text string) Opaque { return Opaque{Kind: kind, Text: text} }

// Short writes a value on one line of limited length.
func Short(v starlark.Value) string { return Cut(v.String(), 200) }
