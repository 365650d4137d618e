package starbind

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

// matcher chooses events without running code.
type matcher struct {
	opaque
	test func(event.Event) bool
}

// matchEntries are the builtins that make matchers.
func matchEntries() []entry {
	combine := func(name, doc, example string, fn func(list []*matcher, e event.Event) bool) entry {
		return entry{
			Name: name, Phases: bind.Anywhere, Doc: doc, Example: example,
			Params: []param{{Name: "matchers", Kind: aMatcher(), Variadic: true, Required: true, Doc: "at least one"}},
			Do: do(func(c *call) (starlark.Value, error) {
				list := argList[*matcher](c, "matchers")
				return &matcher{named("matcher", name+"(...)"), func(e event.Event) bool { return fn(list, e) }}, nil
			}),
		}
	}
	return []entry{
		{
			Name: "match.event", Phases: bind.Anywhere, Pure: true,
			Doc:     "matches events by their type, service and fields. In a string, * stands for any text.",
			Example: `match.event(type = "stdout", service = "api", status = "confirmed")`,
			Params:  filterParams(), Rest: fieldKeywords(),
			Do: do(func(c *call) (starlark.Value, error) {
				return &matcher{named("matcher", "match.event(...)"), c.fieldTest()}, nil
			}),
		},
		combine("match.any", "matches what at least one matcher matches.", `match.any(match.event(type = "stdout"), match.event(type = "stderr"))`,
			func(list []*matcher, e event.Event) bool {
				for _, m := range list {
					if m.test(e) {
						return true
					}
				}
				return false
			}),
		combine("match.all", "matches what every matcher matches.", `match.all(match.event(type = "syscall"), match.event(errno = "ENOSPC"))`,
			func(list []*matcher, e event.Event) bool {
				for _, m := range list {
					if !m.test(e) {
						return false
					}
				}
				return true
			}),
		{
			Name: "match.never", Phases: bind.Anywhere, Pure: true,
			Doc:     "matches nothing.",
			Example: `match.never()`,
			Do: do(func(*call) (starlark.Value, error) {
				return &matcher{named("matcher", "match.never()"), func(event.Event) bool { return false }}, nil
			}),
		},
	}
}

func aMatcher() kind {
	return bind.Scalar("a matcher such as match.event()", func(v starlark.Value) (any, bool) {
		m, ok := v.(*matcher)
		return m, ok
	})
}

// filterParams are the named parts of a filter over events; fieldKeywords are the rest.
func filterParams() []param {
	return []param{
		{Name: "type", Kind: anEventType(), Doc: "the kind of event"},
		{Name: "service", Kind: bind.String(), Doc: "the service, or driver for the scenario's own"},
		{Name: "fields", Kind: aFieldDict(), Doc: "fields whose names are taken by a parameter"},
	}
}

func fieldKeywords() *rest {
	return &rest{Label: "<field>", Doc: "a field and what it must be; * in a string stands for any text, None for absent", Kind: aFieldValue()}
}

func anEventType() kind {
	return kindOf("a string", func(c *call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, false
		}
		var names []string
		for _, row := range event.Schema() {
			if string(row.Kind) == s {
				return s, true
			}
			names = append(names, string(row.Kind))
		}
		if strings.Contains(s, "*") {
			return s, true
		}
		c.Errorf(at, source.Nearest(s, names), "there is no event type %q (types: %s)", s, strings.Join(names, ", "))
		return nil, false
	})
}

func aFieldValue() kind {
	return bind.Scalar("a string, a number, True, False or None", func(v starlark.Value) (any, bool) {
		switch v.(type) {
		case starlark.String, starlark.Int, starlark.Float, starlark.Bool, starlark.NoneType:
			return v, true
		}
		return nil, false
	})
}

func aFieldDict() kind {
	one := aFieldValue()
	return kindOf("a dict of fields", func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, false
		}
		m := map[string]starlark.Value{}
		for i, item := range d.Items() {
			key, ok := starlark.AsString(item[0])
			if !ok {
				return nil, false
			}
			if got, ok := c.Convert(one, fmt.Sprintf("field %q", key), item[1], source.Element(e, i, d.Len())); ok {
				m[key] = got.(starlark.Value)
			}
		}
		return m, true
	})
}

// fieldTest makes a test of the type, service and fields that a call names.
func (c *call) fieldTest() func(event.Event) bool {
	kind, service := arg[string](c, "type"), arg[string](c, "service")
	fields := map[string]starlark.Value{}
	for name, v := range arg[map[string]starlark.Value](c, "fields") {
		fields[name] = v
	}
	for _, kw := range c.Rest {
		fields[kw.Name] = kw.Value.(starlark.Value)
	}
	return func(e event.Event) bool {
		if kind != "" && !glob(kind, string(e.Kind)) || service != "" && !glob(service, e.Service) {
			return false
		}
		for name, want := range fields {
			if !fieldIs(e.Fields[name], want) {
				return false
			}
		}
		return true
	}
}

// fieldIs compares a field with what is wanted of it.
func fieldIs(got any, want starlark.Value) bool {
	v := value.ToStarlark(got)
	switch want := want.(type) {
	case starlark.String:
		if text, ok := starlark.AsString(v); ok {
			return glob(string(want), text)
		}
		return v != starlark.None && glob(string(want), v.String())
	case starlark.NoneType:
		return v == starlark.None
	}
	same, err := starlark.Equal(v, want)
	return err == nil && same
}

// glob reports whether text fits a pattern in which * stands for any text.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}
