package starbind

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// phase is a time at which code of a spec runs. As a set it says where a builtin may be used.
type phase uint8

const (
	// atLoad is the top level of the files and what it calls.
	atLoad phase = 1 << iota
	// inBody is a scenario's body or an expectation: there is a world.
	inBody
	// inProperty is a monitor or predicate: there is a trace only.
	inProperty

	anywhere = atLoad | inBody | inProperty
)

func (p phase) String() string {
	var parts []string
	for _, row := range []struct {
		bit  phase
		name string
	}{
		{atLoad, "at the top level"},
		{inBody, "in a scenario or expectation"},
		{inProperty, "in a monitor or predicate"},
	} {
		if p&row.bit != 0 {
			parts = append(parts, row.name)
		}
	}
	return strings.Join(parts, ", ")
}

// reach says what calling a builtin may inject.
type reach uint8

const (
	injectsNothing reach = iota
	// injectsRules is fault and fault_start: the target and the keywords tell.
	injectsRules
	// injectsPartition is partition and partition_start: the two services tell.
	injectsPartition
	// injectsLink is link: a rule on it may be passed to fault on any way.
	injectsLink
)

// entry is one builtin. Binding, checks, messages and the reference page come from it.
type entry struct {
	name    string
	doc     string
	example string
	phases  phase
	reach   reach
	// pure builtins only build a value, so their literal arguments are checked before anything runs.
	pure   bool
	params []param
	// rest takes the keywords that params does not name.
	rest *rest
	do   func(c *call) (starlark.Value, error)
}

// param is a parameter. Parameters are given by position, in order, or by keyword.
type param struct {
	name     string
	kind     kind
	required bool
	// preset is the default as the reference shows it.
	preset string
	doc    string
	// variadic takes all positional arguments that are left; what follows it is by keyword only.
	variadic bool
	// unsupported parameters are refused by name.
	unsupported bool
}

// rest describes keywords whose names are not fixed.
type rest struct {
	// label stands for them in the reference: "<family or call>".
	label string
	doc   string
	// known lists the names, for messages; check false lets every name pass.
	known func() []string
	check bool
	kind  kind
}

// kind is a type of argument: its name for messages and the reference, and the conversion. On
// failure convert reports why, through the call, and returns false.
type kind struct {
	name    string
	convert func(c *call, v starlark.Value, at span, e syntax.Expr) (any, bool)
}

// keywordArg is a keyword argument that entry.rest took.
type keywordArg struct {
	name  string
	value any
	at    span
}

// call is a call of a builtin on its way: its arguments and what is wrong with them.
type call struct {
	env    *env
	thread *starlark.Thread
	entry  *entry
	site   site
	args   map[string]any
	exprs  map[string]syntax.Expr
	rest   []keywordArg
	// bad is set once something was reported; first is the first report, for phases in which it is raised.
	bad   bool
	first error
}

// builtin is an entry as a Starlark value.
type builtin struct{ entry *entry }

func (b *builtin) Name() string          { return b.entry.name }
func (b *builtin) String() string        { return "<built-in function " + b.entry.name + ">" }
func (b *builtin) Type() string          { return "builtin_function_or_method" }
func (b *builtin) Freeze()               {}
func (b *builtin) Truth() starlark.Bool  { return true }
func (b *builtin) Hash() (uint32, error) { return starlark.String(b.entry.name).Hash() }

// CallInternal binds the arguments and does what the entry says.
func (b *builtin) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	e := envOf(t)
	c := newCall(e, t, b.entry, siteOf(e.loader, t))
	if e.phase&b.entry.phases == 0 {
		c.errorf(c.site.span(), "", "may be used %s only", b.entry.phases)
		return c.end(nil, nil)
	}
	if !c.bind(args, kwargs) || (c.bad && e.phase != atLoad) {
		return c.end(nil, nil)
	}
	return c.end(b.entry.do(c))
}

func newCall(e *env, t *starlark.Thread, en *entry, s site) *call {
	return &call{env: e, thread: t, entry: en, site: s, args: map[string]any{}, exprs: map[string]syntax.Expr{}}
}

// end settles what the call returns: while loading, a report is kept and evaluation goes on with a
// value that takes everything; later it is raised.
func (c *call) end(v starlark.Value, err error) (starlark.Value, error) {
	switch {
	case err != nil:
		return nil, err
	case c.bad && c.env.phase != atLoad:
		return nil, c.first
	case v == nil && c.bad:
		return broken{}, nil
	case v == nil:
		return starlark.None, nil
	}
	return v, nil
}

// errorf reports something wrong at a place. The message begins with the builtin's name.
func (c *call) errorf(at span, near, format string, args ...any) {
	c.report(at, near, c.title()+": "+fmt.Sprintf(format, args...))
}

func (c *call) report(at span, near, message string) {
	c.bad = true
	d := c.env.loader.diagnostic(at, near, message)
	if c.env.phase == atLoad {
		c.env.loader.reports = append(c.env.loader.reports, d)
		return
	}
	if c.first == nil {
		c.first = &ScriptError{Diagnostic: d}
	}
}

// title is the builtin's name, with the name of what it declares where there is one.
func (c *call) title() string {
	if len(c.entry.params) > 0 && c.entry.params[0].kind.name == kindName {
		if name, ok := c.args[c.entry.params[0].name].(string); ok {
			return fmt.Sprintf("%s %q", c.entry.name, name)
		}
	}
	return c.entry.name
}

// bind converts the arguments. It returns false where a required one is missing or unusable.
func (c *call) bind(args starlark.Tuple, kwargs []starlark.Tuple) bool {
	c.bindPositional(args)
	for _, kw := range kwargs {
		name, _ := starlark.AsString(kw[0])
		c.bindKeyword(name, kw[1])
	}
	complete := true
	for _, p := range c.entry.params {
		if _, ok := c.args[p.name]; ok || !p.required {
			continue
		}
		complete = false
		if _, tried := c.exprs[p.name]; !tried {
			c.exprs[p.name] = nil
			c.errorf(c.site.span(), "", "missing argument %q", p.name)
		}
	}
	return complete
}

func (c *call) bindPositional(args starlark.Tuple) {
	for i := 0; i < len(args); i++ {
		if i >= len(c.entry.params) {
			c.errorf(c.site.at(c.site.valueExpr("", i)), "", "takes %s, got %d", count(len(c.entry.params), "positional argument"), len(args))
			return
		}
		p := c.entry.params[i]
		if !p.variadic {
			c.set(p, args[i], c.site.valueExpr("", i))
			continue
		}
		var list []any
		for j, v := range args[i:] {
			e := c.site.valueExpr("", i+j)
			if got, ok := c.convert(p.kind, p.name, v, e); ok {
				list = append(list, got)
			}
		}
		c.args[p.name] = list
		return
	}
}

func (c *call) bindKeyword(name string, v starlark.Value) {
	i := slices.IndexFunc(c.entry.params, func(p param) bool { return p.name == name && !p.variadic })
	at := c.site.keywordSpan(name)
	switch {
	case i >= 0 && c.entry.params[i].unsupported:
		c.errorf(at, "", "%s= is not supported yet", name)
	case i >= 0:
		if _, twice := c.args[name]; twice {
			c.errorf(at, "", "argument %q is given twice", name)
			return
		}
		c.set(c.entry.params[i], v, c.site.valueExpr(name, -1))
	case c.entry.rest != nil && (!c.entry.rest.check || slices.Contains(c.entry.rest.known(), name)):
		e := c.site.valueExpr(name, -1)
		if got, ok := c.convert(c.entry.rest.kind, name, v, e); ok {
			c.rest = append(c.rest, keywordArg{name, got, at})
		}
	default:
		c.errorf(at, nearest(name, c.entry.keywords()), "unknown keyword %q", name)
	}
}

// keywords lists what may stand before an = in a call.
func (e *entry) keywords() []string {
	var names []string
	for _, p := range e.params {
		if !p.variadic {
			names = append(names, p.name)
		}
	}
	if e.rest != nil && e.rest.known != nil {
		names = append(names, e.rest.known()...)
	}
	return names
}

func (c *call) set(p param, v starlark.Value, e syntax.Expr) {
	c.exprs[p.name] = e
	if v == starlark.None && !p.required && p.kind.name != kindValue {
		return
	}
	if got, ok := c.convert(p.kind, p.name, v, e); ok {
		c.args[p.name] = got
	}
}

func (c *call) convert(k kind, name string, v starlark.Value, e syntax.Expr) (any, bool) {
	if _, poisoned := v.(broken); poisoned {
		c.bad = true
		return nil, false
	}
	before := c.bad
	c.bad = false
	got, ok := k.convert(c, v, c.site.at(e), e)
	if !ok && !c.bad {
		c.errorf(c.site.at(e), "", "%s must be %s, got %s", name, k.name, describe(v))
	}
	c.bad = c.bad || before
	return got, ok
}

// has reports whether an argument was given.
func (c *call) has(name string) bool {
	_, ok := c.args[name]
	return ok
}

// where is the span of an argument's value, or of the call.
func (c *call) where(name string) span { return c.site.at(c.exprs[name]) }

// arg returns a bound argument, or the zero value.
func arg[T any](c *call, name string) T {
	v, _ := c.args[name].(T)
	return v
}

// argList returns a bound list, whose elements have type T.
func argList[T any](c *call, name string) []T {
	list, _ := c.args[name].([]any)
	var out []T
	for _, v := range list {
		if t, ok := v.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

func describe(v starlark.Value) string {
	switch v := v.(type) {
	case starlark.String:
		return v.String()
	case starlark.Int, starlark.Float, starlark.Bool:
		return v.Type() + " " + v.String()
	case starlark.NoneType:
		return "None"
	}
	return v.Type()
}

func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// broken stands for a value that could not be made. It takes every use without a further report.
type broken struct{}

func (broken) String() string        { return "<broken>" }
func (broken) Type() string          { return "broken" }
func (broken) Freeze()               {}
func (broken) Truth() starlark.Bool  { return true }
func (broken) Hash() (uint32, error) { return 0, nil }
func (broken) Name() string          { return "broken" }

// Attr returns broken again.
func (broken) Attr(string) (starlark.Value, error) { return broken{}, nil }

// AttrNames returns nothing.
func (broken) AttrNames() []string { return nil }

// Get returns broken again.
func (broken) Get(starlark.Value) (starlark.Value, bool, error) { return broken{}, true, nil }

// Binary returns broken again.
func (broken) Binary(syntax.Token, starlark.Value, starlark.Side) (starlark.Value, error) {
	return broken{}, nil
}

// CallInternal returns broken again.
func (broken) CallInternal(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return broken{}, nil
}
