package oracle

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
)

// bounds is what match.number() returns.
type bounds struct {
	value.Opaque
	limits map[string]starlark.Value
}

func (b *bounds) holds(v starlark.Value) bool {
	switch v.(type) {
	case starlark.Int, starlark.Float:
	default:
		return false
	}
	for name, limit := range b.limits {
		ok, err := starlark.Compare(comparison(name), v, limit)
		if err != nil || !ok {
			return false
		}
	}
	return true
}

func comparison(name string) syntax.Token {
	return map[string]syntax.Token{"gt": syntax.GT, "ge": syntax.GE, "lt": syntax.LT, "le": syntax.LE}[name]
}

func numberPattern(c *call) (starlark.Value, error) {
	b := &bounds{limits: map[string]starlark.Value{}}
	var parts []string
	for _, p := range c.Entry.Params {
		if v, ok := c.Args[p.Name].(starlark.Value); ok {
			b.limits[p.Name] = v
			parts = append(parts, fmt.Sprintf("%s = %s", p.Name, v))
		}
	}
	if len(parts) == 0 {
		c.Errorf(c.Site.Span(), "", "needs a bound, such as gt = 300")
	}
	b.Opaque = value.Named("pattern", "match.number("+strings.Join(parts, ", ")+")")
	return b, nil
}

func aNumber() bind.Kind {
	return kindOf("a number", func(_ *call, v starlark.Value, _ source.Span, _ syntax.Expr) (any, bool) {
		switch v.(type) {
		case starlark.Int, starlark.Float:
			return v, true
		}
		return nil, false
	})
}

// aFieldValue is what a field may be compared with.
func aFieldValue() bind.Kind {
	const name = "a string, a number, True, False, None, match.number(), a list of those (one of them), or a dict that looks into an object"
	return kindOf(name, func(_ *call, v starlark.Value, _ source.Span, _ syntax.Expr) (any, bool) {
		return v, isPattern(v, 0)
	})
}

func isPattern(v starlark.Value, depth int) bool {
	if depth > 20 {
		return false
	}
	switch v := v.(type) {
	case starlark.String, starlark.Int, starlark.Float, starlark.Bool, starlark.NoneType, *bounds:
		return true
	case *starlark.List, starlark.Tuple:
		list := v.(starlark.Sequence)
		for item := range starlark.Elements(list) {
			if !isPattern(item, depth+1) {
				return false
			}
		}
		return list.Len() > 0
	case *starlark.Dict:
		for _, item := range v.Items() {
			if _, ok := starlark.AsString(item[0]); !ok || !isPattern(item[1], depth+1) {
				return false
			}
		}
		return v.Len() > 0
	}
	return false
}

// fieldIs compares a field with what is wanted of it.
func fieldIs(got any, want starlark.Value) bool {
	if oneOf, ok := want.(starlark.Sequence); ok {
		if _, object := want.(*starlark.Dict); !object {
			for one := range starlark.Elements(oneOf) {
				if fieldIs(got, one) {
					return true
				}
			}
			return false
		}
	}
	if list, ok := got.([]any); ok {
		if want == starlark.None {
			return false
		}
		for _, item := range list {
			if fieldIs(item, want) {
				return true
			}
		}
		text, isText := want.(starlark.String)
		return isText && event.Glob(string(text), value.ToStarlark(got).String())
	}
	return scalarIs(got, want)
}

func scalarIs(got any, want starlark.Value) bool {
	switch want := want.(type) {
	case starlark.String:
		v := value.ToStarlark(got)
		if text, ok := starlark.AsString(v); ok {
			return event.Glob(string(want), text)
		}
		return v != starlark.None && event.Glob(string(want), v.String())
	case starlark.NoneType:
		return got == nil
	case *bounds:
		return want.holds(value.ToStarlark(got))
	case *starlark.Dict:
		object, ok := got.(map[string]any)
		for _, item := range want.Items() {
			name, _ := starlark.AsString(item[0])
			ok = ok && fieldIs(event.At(object, name), item[1])
		}
		return ok
	}
	same, err := starlark.Equal(value.ToStarlark(got), want)
	return err == nil && same
}
