package bind

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/source"
)

// Builtin is an entry as a Starlark value. A method has its receiver.
type Builtin struct {
	Entry *Entry
	Recv  starlark.Value
}

// Name returns the entry's name.
func (b *Builtin) Name() string { return b.Entry.Name }

// String writes it for messages.
func (b *Builtin) String() string { return "<built-in function " + b.Entry.Name + ">" }

// Type names its type.
func (b *Builtin) Type() string { return "builtin_function_or_method" }

// Freeze does nothing: it does not change.
func (b *Builtin) Freeze() {}

// Truth is True.
func (b *Builtin) Truth() starlark.Bool { return true }

// Hash makes it usable as a key.
func (b *Builtin) Hash() (uint32, error) { return starlark.String(b.Entry.Name).Hash() }

// CallInternal binds the arguments and does what the entry says.
func (b *Builtin) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	h := HostOf(t)
	c := NewCall(h, b.Entry, h.Site(t))
	c.Thread, c.Recv = t, b.Recv
	if h.Phase()&b.Entry.Phases == 0 {
		c.Errorf(c.Site.Span(), "", "may be used %s only", b.Entry.Phases)
		return c.end(nil, nil)
	}
	if !c.bind(args, kwargs) || (c.Bad && h.Phase() != AtLoad) {
		return c.end(nil, nil)
	}
	return c.end(b.Entry.Do(c))
}

// Call is a call of a builtin on its way: its arguments and what is wrong with them.
type Call struct {
	Host   Host
	Thread *starlark.Thread
	Entry  *Entry
	// Recv is the receiver of a method.
	Recv starlark.Value
	Site source.Site
	// Args are the converted arguments by parameter; Exprs are their expressions, where written out.
	Args  map[string]any
	Exprs map[string]syntax.Expr
	Rest  []Keyword
	// Bad is set once something was reported.
	Bad bool
	// first is the first report, for the phases in which it is raised.
	first error
}

// NewCall begins a call.
func NewCall(h Host, e *Entry, s source.Site) *Call {
	return &Call{Host: h, Entry: e, Site: s, Args: map[string]any{}, Exprs: map[string]syntax.Expr{}}
}

// end settles what the call returns: while loading, a report is kept and evaluation goes on with a
// value that takes everything; later it is raised.
func (c *Call) end(v starlark.Value, err error) (starlark.Value, error) {
	switch {
	case err != nil:
		return nil, err
	case c.Bad && c.Host.Phase() != AtLoad:
		return nil, c.first
	case v == nil && c.Bad:
		return Broken{}, nil
	case v == nil:
		return starlark.None, nil
	}
	return v, nil
}

// Errorf reports something wrong at a place. The message begins with the builtin's name.
func (c *Call) Errorf(at source.Span, near, format string, args ...any) {
	c.Report(at, near, c.title()+": "+fmt.Sprintf(format, args...))
}

// Report reports something wrong at a place.
func (c *Call) Report(at source.Span, near, message string) {
	c.Bad = true
	d := c.Host.Diagnostic(at, near, message)
	if c.Host.Phase() == AtLoad {
		c.Host.Keep(d)
		return
	}
	if c.first == nil {
		c.first = &source.ScriptError{Diagnostic: d}
	}
}

// title is the builtin's name, with the name of what it declares where there is one.
func (c *Call) title() string {
	if len(c.Entry.Params) > 0 && c.Entry.Params[0].Kind.Name == nameOfName {
		if name, ok := c.Args[c.Entry.Params[0].Name].(string); ok {
			return fmt.Sprintf("%s %q", c.Entry.Name, name)
		}
	}
	return c.Entry.Name
}

// bind converts the arguments. It returns false where a required one is missing or unusable.
func (c *Call) bind(args starlark.Tuple, kwargs []starlark.Tuple) bool {
	c.bindPositional(args)
	for _, kw := range kwargs {
		name, _ := starlark.AsString(kw[0])
		c.bindKeyword(name, kw[1])
	}
	complete := true
	for _, p := range c.Entry.Params {
		if c.Has(p.Name) || !p.Required {
			continue
		}
		complete = false
		if _, tried := c.Exprs[p.Name]; !tried {
			c.Errorf(c.Site.Span(), "", "missing argument %q", p.Name)
		}
	}
	return complete
}

func (c *Call) bindPositional(args starlark.Tuple) {
	for i := range args {
		e := c.Site.ValueExpr("", i)
		if i >= len(c.Entry.Params) {
			c.Errorf(c.Site.At(e), "", "takes %s, got %d", Count(len(c.Entry.Params), "positional argument"), len(args))
			return
		}
		p := c.Entry.Params[i]
		if !p.Variadic {
			c.set(p, args[i], e)
			continue
		}
		list := []any{}
		for j, v := range args[i:] {
			if got, ok := c.Convert(p.Kind, p.Name, v, c.Site.ValueExpr("", i+j)); ok {
				list = append(list, got)
			}
		}
		c.Args[p.Name] = list
		return
	}
}

func (c *Call) bindKeyword(name string, v starlark.Value) {
	i := slices.IndexFunc(c.Entry.Params, func(p Param) bool { return p.Name == name && !p.Variadic })
	at := c.Site.KeywordSpan(name)
	switch {
	case i >= 0 && c.Entry.Params[i].Unsupported:
		c.Errorf(at, "", "%s= is not supported yet", name)
	case i >= 0 && c.Has(name):
		c.Errorf(at, "", "argument %q is given twice", name)
	case i >= 0:
		c.set(c.Entry.Params[i], v, c.Site.ValueExpr(name, -1))
	case c.Entry.Rest.Takes(name):
		if got, ok := c.Convert(c.Entry.Rest.Kind, name, v, c.Site.ValueExpr(name, -1)); ok {
			c.Rest = append(c.Rest, Keyword{name, got, at})
		}
	default:
		c.Errorf(at, source.Nearest(name, c.Entry.Keywords()), "unknown keyword %q", name)
	}
}

func (c *Call) set(p Param, v starlark.Value, e syntax.Expr) {
	c.Exprs[p.Name] = e
	if v == starlark.None && !p.Required && p.Kind.Name != nameOfValue {
		return
	}
	if got, ok := c.Convert(p.Kind, p.Name, v, e); ok {
		c.Args[p.Name] = got
	}
}

// Convert converts a value to a kind; name is what a message calls it.
func (c *Call) Convert(k Kind, name string, v starlark.Value, e syntax.Expr) (any, bool) {
	if _, poisoned := v.(Broken); poisoned {
		c.Bad = true
		return nil, false
	}
	before := c.Bad
	c.Bad = false
	got, ok := k.Convert(c, v, c.Site.At(e), e)
	if !ok && !c.Bad {
		c.Errorf(c.Site.At(e), "", "%s must be %s, got %s", name, k.Name, Describe(v))
	}
	c.Bad = c.Bad || before
	return got, ok
}

// Has reports whether an argument was given and could be used.
func (c *Call) Has(name string) bool {
	_, ok := c.Args[name]
	return ok
}

// TriedAndFailed reports whether an argument was given but could not be used.
func (c *Call) TriedAndFailed(name string) bool {
	_, tried := c.Exprs[name]
	return tried && !c.Has(name)
}

// Where is the span of an argument's value, or of the call.
func (c *Call) Where(name string) source.Span { return c.Site.At(c.Exprs[name]) }

// Arg returns a bound argument, or the zero value.
func Arg[T any](c *Call, name string) T {
	v, _ := c.Args[name].(T)
	return v
}

// ArgList returns those elements of a bound list that have type T.
func ArgList[T any](c *Call, name string) []T {
	list, _ := c.Args[name].([]any)
	var out []T
	for _, v := range list {
		if t, ok := v.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// Describe names a value in a message.
func Describe(v starlark.Value) string {
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

// Count writes a number with a noun.
func Count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// FirstUse reports a name that is declared twice, and returns false.
func (c *Call) FirstUse(what, name, before string) bool {
	if before == "" {
		return true
	}
	c.Errorf(c.Site.At(c.Site.ValueExpr("name", 0)), "", "%s is declared twice; the first is at %s", fmt.Sprintf("%s %q", what, name), before)
	return false
}

// Words writes words as a list.
func Words[T ~string](words []T) string {
	var out []string
	for _, w := range words {
		out = append(out, string(w))
	}
	return strings.Join(out, ", ")
}
