package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
)

// matcher chooses events.
type matcher struct {
	value.Opaque
	test func(event.Event) (bool, error)
	// like is what it looks at; nil means that this is not known.
	like *property.Like
}

// Matchers are the builtins that make matchers.
func Matchers() []bind.Entry {
	combine := func(name, doc, example string, all, not bool) bind.Entry {
		return bind.Entry{
			Name: name, Phases: bind.Anywhere, Doc: doc, Example: example,
			Params: []bind.Param{{Name: "matchers", Kind: aMatcher(), Variadic: true, Required: true, Doc: "at least one"}},
			Do: do(func(c *call) (starlark.Value, error) {
				return combined(name, bind.ArgList[*matcher](c.Call, "matchers"), all, not), nil
			}),
		}
	}
	where := bind.Param{Name: "where", Kind: bind.Function(1), Doc: "a function of an event that fits the rest; it returns True or False and sees no other event"}
	return []bind.Entry{
		{
			Name: "match.event", Phases: bind.Anywhere, Pure: true,
			Doc:     "matches events by their type, service and fields. In a string, * stands for any text. A list is one of several, a dict looks into a field that is an object, and a dot in a name of fields= does the same. A field that is a list fits where one of its elements does.",
			Example: `match.event(type = "step_send", method = ["get", "head"], args = {"path": "/orders/*"})`,
			Params:  append(filterParams(), where), Rest: fieldKeywords(),
			Do: do(func(c *call) (starlark.Value, error) {
				m := c.fieldTest()
				fn := bind.Arg[starlark.Callable](c.Call, "where")
				if fn == nil {
					return m, nil
				}
				plain := m.test
				then := Predicate{fn: fn}.Test(c.scope.Judging())
				m.test = func(e event.Event) (bool, error) {
					if ok, err := plain(e); !ok || err != nil {
						return false, err
					}
					return then(e)
				}
				return m, nil
			}),
		},
		{
			Name: "match.number", Phases: bind.Anywhere, Pure: true,
			Doc:     "is what a field may be: a number within bounds. Text does not fit.",
			Example: `match.event(type = "step_recv", duration_ms = match.number(gt = 300))`,
			Params: []bind.Param{
				{Name: "gt", Kind: aNumber(), Doc: "greater than"}, {Name: "ge", Kind: aNumber(), Doc: "at least"},
				{Name: "lt", Kind: aNumber(), Doc: "less than"}, {Name: "le", Kind: aNumber(), Doc: "at most"},
			},
			Do: do(numberPattern),
		},
		combine("match.any", "matches what at least one matcher matches.", `match.any(match.event(type = "stdout"), match.event(type = "stderr"))`, false, false),
		combine("match.all", "matches what every matcher matches.", `match.all(match.event(type = "syscall"), match.event(errno = "ENOSPC"))`, true, false),
		combine("match.none", "matches what no matcher matches.", `match.none(match.event(service = "driver"), match.event(msg = "heartbeat"))`, false, true),
		{
			Name: "match.never", Phases: bind.Anywhere, Pure: true,
			Doc:     "matches nothing.",
			Example: `match.never()`,
			Do: do(func(*call) (starlark.Value, error) {
				return &matcher{Opaque: value.Named("matcher", "match.never()"), test: func(event.Event) (bool, error) { return false, nil }}, nil
			}),
		},
	}
}

// combined asks each matcher until one decides: one that does not match where all must, else one that does.
func combined(name string, list []*matcher, all, not bool) *matcher {
	m := &matcher{Opaque: value.Named("matcher", name+"(...)")}
	m.test = func(e event.Event) (bool, error) {
		for _, one := range list {
			ok, err := one.test(e)
			if err != nil {
				return false, err
			}
			if ok != all {
				return !all != not, nil
			}
		}
		return all != not, nil
	}
	// What is not known is left out: it may be there.
	var known []property.Like
	for _, one := range list {
		if one.like != nil {
			known = append(known, *one.like)
		}
	}
	if !not && len(known) > 0 {
		m.like = &property.Like{All: known}
		if !all {
			m.like = &property.Like{Any: known}
		}
	}
	return m
}

func aMatcher() bind.Kind {
	return kindOf("a matcher such as match.event()", func(c *call, v starlark.Value, _ source.Span, e syntax.Expr) (any, bool) {
		switch v := v.(type) {
		case *matcher:
			return v, true
		case *starlark.Dict:
			return c.dictMatcher(v, e)
		}
		return nil, false
	})
}

// dictMatcher makes a matcher of a dict of type, service and fields.
func (c *call) dictMatcher(d *starlark.Dict, e syntax.Expr) (*matcher, bool) {
	if d.Len() == 0 {
		return nil, false
	}
	p := pattern{fields: map[string]starlark.Value{}}
	ok := true
	for i, item := range d.Items() {
		key, isText := starlark.AsString(item[0])
		if !isText {
			return nil, false
		}
		at := source.Element(e, i, d.Len())
		if entry, written := at.(*syntax.DictEntry); written {
			at = entry.Value
		}
		var good bool
		var got any
		switch key {
		case "type":
			got, good = c.Convert(anEventType(), "type", item[1], at)
			p.kind, _ = got.(string)
		case "service":
			got, good = c.Convert(bind.String(), "service", item[1], at)
			p.service, _ = got.(string)
		default:
			if got, good = c.Convert(aFieldValue(), fmt.Sprintf("field %q", key), item[1], at); good {
				p.fields[key] = got.(starlark.Value)
			}
		}
		ok = ok && good
	}
	return p.matcher("{...}"), ok
}

// filterParams are the named parts of a filter over events; fieldKeywords are the rest.
func filterParams() []bind.Param {
	return []bind.Param{
		{Name: "type", Kind: anEventType(), Doc: "the kind of event"},
		{Name: "service", Kind: bind.String(), Doc: "the service, or driver for the scenario's own"},
		{Name: "fields", Kind: aFieldDict(), Doc: "fields whose names are taken by a parameter, or lie in an object: {\"args.path\": \"/orders\"}"},
	}
}

func fieldKeywords() *bind.Rest {
	return &bind.Rest{Label: "<field>", Doc: "a field and what it must be; * in a string stands for any text, None for absent", Kind: aFieldValue()}
}

func anEventType() bind.Kind {
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

func aFieldDict() bind.Kind {
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

// pattern is what an event must be.
type pattern struct {
	kind, service string
	fields        map[string]starlark.Value
}

// fieldTest makes a matcher of the type, service and fields that a call names.
func (c *call) fieldTest() *matcher {
	p := pattern{kind: bind.Arg[string](c.Call, "type"), service: bind.Arg[string](c.Call, "service"), fields: map[string]starlark.Value{}}
	maps.Copy(p.fields, bind.Arg[map[string]starlark.Value](c.Call, "fields"))
	for _, kw := range c.Rest {
		p.fields[kw.Name] = kw.Value.(starlark.Value)
	}
	return p.matcher("match.event(...)")
}

// empty reports whether it fits every event.
func (p pattern) empty() bool { return p.kind == "" && p.service == "" && len(p.fields) == 0 }

func (p pattern) matcher(text string) *matcher {
	m := &matcher{Opaque: value.Named("matcher", text)}
	m.test = func(e event.Event) (bool, error) {
		if !p.placed(e) {
			return false, nil
		}
		for name, want := range p.fields {
			if !fieldIs(e.Field(name), want) {
				return false, nil
			}
		}
		return true, nil
	}
	if p.empty() {
		return m
	}
	m.like = &property.Like{Kind: p.kind, Service: p.service}
	for _, name := range slices.Sorted(maps.Keys(p.fields)) {
		m.like.Fields = append(m.like.Fields, looksAt(name, p.fields[name])...)
	}
	return m
}

// looksAt lists the fields that must be there for a field to be as wanted.
func looksAt(name string, want starlark.Value) []string {
	if want == starlark.None {
		return nil
	}
	object, ok := want.(*starlark.Dict)
	if !ok {
		return []string{name}
	}
	var out []string
	for _, item := range object.Items() {
		inner, _ := starlark.AsString(item[0])
		out = append(out, looksAt(name+"."+inner, item[1])...)
	}
	return out
}

// placed compares the type and the service.
func (p pattern) placed(e event.Event) bool {
	return (p.kind == "" || event.Glob(p.kind, string(e.Kind))) && (p.service == "" || event.Glob(p.service, e.Service))
}
