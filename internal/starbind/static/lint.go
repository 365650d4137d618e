package static

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
)

// Lint checks the calls and attributes inside functions as far as their names resolve without
// running them, so that a misspelt keyword in a body is found before anything starts. What it finds
// goes to the host.
func (p *Program) Lint(h bind.Host) {
	for _, m := range p.Modules {
		for _, fn := range outermost(m.File.Tree) {
			l := &linter{host: h, names: p.namesIn(fn, m.Globals, m.Loaded), made: map[*syntax.CallExpr]starlark.Value{}}
			syntax.Walk(fn, func(x syntax.Node) bool {
				switch x := x.(type) {
				case *syntax.CallExpr:
					l.call(x)
				case *syntax.DotExpr:
					l.attribute(x)
				}
				return true
			})
		}
	}
}

// linter checks the calls of one function.
type linter struct {
	host  bind.Host
	names *names
	// made are the values of pure calls that are known entirely; a call that was looked at is there.
	made map[*syntax.CallExpr]starlark.Value
}

// outermost returns the functions that stand in no other function.
func outermost(f *syntax.File) []syntax.Node {
	var out []syntax.Node
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.DefStmt, *syntax.LambdaExpr:
			out = append(out, n)
			return false
		}
		return true
	})
	return out
}

func (l *linter) attribute(e *syntax.DotExpr) {
	v, ok := l.names.one(e.X)
	has, fixed := v.(Fixed)
	if !ok || !fixed {
		return
	}
	got, err := has.Attr(e.Name.Name)
	if err == nil && got != nil {
		return
	}
	if err == nil {
		err = fmt.Errorf("%s has no .%s", v, e.Name.Name)
	}
	near := source.Nearest(e.Name.Name, has.AttrNames())
	l.host.Keep(l.host.Diagnostic(source.SpanOf(e.Name), near, err.Error()))
}

// call checks a call, once.
func (l *linter) call(e *syntax.CallExpr) {
	if _, done := l.made[e]; done {
		return
	}
	l.made[e] = nil
	v, ok := l.names.one(e.Fn)
	b, isBuiltin := v.(*bind.Builtin)
	if !ok || !isBuiltin {
		return
	}
	c := &checked{Call: bind.NewCall(l.host, b.Entry, source.Site{Node: e, Pos: e.Lparen}), linter: l, whole: true, unknown: map[string]bool{}}
	for i, a := range e.Args {
		x, op, star := source.Starred(a)
		id, value := source.Keyword(a)
		switch {
		case star && op == syntax.STAR:
			c.open, c.whole = true, false
		case star:
			c.keywordsOf(x)
		case id != nil:
			c.keyword(id, value)
		default:
			c.positional(i, value)
		}
	}
	c.missing()
	if c.whole && b.Entry.Pure && b.Entry.Reach == bind.InjectsNothing && !c.Bad {
		// A pure builtin's own checks, for what binding alone can't see.
		l.made[e], _ = b.Entry.Do(c.Call)
	}
	c.check()
}

// check runs the entry's own check of a call that is known in part.
func (c *checked) check() {
	if c.Entry.Check != nil && !c.Bad && !c.open {
		c.Entry.Check(c.Call, func(param string) bool { return !c.unknown[param] })
	}
}

// checked is a call whose arguments are bound as far as they are known.
type checked struct {
	*bind.Call
	*linter
	// open is set where some arguments are not known; whole is cleared where some values are not, which unknown lists.
	open, whole bool
	unknown     map[string]bool
	given       []string
}

// value converts an argument whose value is known.
func (c *checked) value(k bind.Kind, name string, e syntax.Expr) (any, bool) {
	v, ok := c.names.one(e)
	if nested, isCall := e.(*syntax.CallExpr); !ok && isCall {
		c.linter.call(nested)
		v = c.made[nested]
		_, broken := v.(bind.Broken)
		ok = v != nil && !broken
	}
	if !ok {
		c.whole, c.unknown[name] = false, true
		return nil, false
	}
	return c.Convert(k, name, v, e)
}

func (c *checked) positional(i int, e syntax.Expr) {
	params := c.Entry.Params
	if v := slices.IndexFunc(params, func(p bind.Param) bool { return p.Variadic }); v >= 0 {
		i = min(i, v)
	}
	if i >= len(params) {
		if !c.open {
			got := 0
			for _, a := range c.Site.Node.Args {
				if id, _ := source.Keyword(a); id == nil {
					got++
				}
			}
			c.Errorf(source.SpanOf(e), "", "takes %s, got %d", bind.Count(len(params), "positional argument"), got)
			c.open = true
		}
		return
	}
	c.given = append(c.given, params[i].Name)
	c.take(params[i], e)
}

func (c *checked) take(p bind.Param, e syntax.Expr) {
	c.Exprs[p.Name] = e
	if v, ok := c.names.one(e); ok && v == starlark.None && !p.Required {
		return
	}
	got, ok := c.value(p.Kind, p.Name, e)
	if !ok {
		return
	}
	if p.Variadic {
		list, _ := c.Args[p.Name].([]any)
		c.Args[p.Name] = append(list, got)
		return
	}
	c.Args[p.Name] = got
}

func (c *checked) keyword(id *syntax.Ident, e syntax.Expr) {
	en := c.Entry
	i := slices.IndexFunc(en.Params, func(p bind.Param) bool { return p.Name == id.Name && !p.Variadic })
	switch {
	case i >= 0 && slices.Contains(c.given, id.Name):
		c.Errorf(source.SpanOf(id), "", "argument %q is given twice", id.Name)
	case i >= 0:
		c.given = append(c.given, id.Name)
		c.take(en.Params[i], e)
	case en.Rest.Takes(id.Name):
		if got, ok := c.value(en.Rest.Kind, id.Name, e); ok {
			c.Rest = append(c.Rest, bind.Keyword{Name: id.Name, Value: got, At: source.SpanOf(id)})
		}
	default:
		c.Errorf(source.SpanOf(id), source.Nearest(id.Name, en.Keywords()), "unknown keyword %q", id.Name)
	}
}

// keywordsOf takes **x as far as it is known: its values are not.
func (c *checked) keywordsOf(x syntax.Expr) {
	keys, ok := dictKeys(c.names, x)
	c.whole, c.open = false, c.open || !ok
	c.given = append(c.given, keys...)
}

func (c *checked) missing() {
	if c.open {
		return
	}
	for _, p := range c.Entry.Params {
		if p.Required && !slices.Contains(c.given, p.Name) {
			c.whole = false
			c.Errorf(c.Site.Span(), "", "missing argument %q", p.Name)
		}
	}
}
