package starbind

import (
	"context"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// lint checks the calls and attributes inside functions as far as their names resolve without
// running them, so that a misspelt keyword in a body is found before anything starts.
func (ld *loader) lint() {
	for _, s := range ld.sources {
		m := ld.modules[s.path]
		free := ld.loaded(s)
		for _, fn := range outermost(s.tree) {
			n := ld.namesIn(fn, m.globals, free)
			syntax.Walk(fn, func(x syntax.Node) bool {
				switch x := x.(type) {
				case *syntax.CallExpr:
					ld.lintCall(x, n)
				case *syntax.DotExpr:
					ld.lintAttribute(x, n)
				}
				return true
			})
		}
	}
}

// loaded returns what a file's load statements bind.
func (ld *loader) loaded(s *source) starlark.StringDict {
	out := starlark.StringDict{}
	for _, stmt := range s.tree.Stmts {
		l, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		target, err := ld.locate(s.path, l.ModuleName())
		if m := ld.modules[target]; err == nil && m != nil {
			for i, to := range l.To {
				out[to.Name] = m.globals[l.From[i].Name]
			}
		}
	}
	return out
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

func (ld *loader) lintAttribute(e *syntax.DotExpr, n *names) {
	v, ok := n.one(e.X)
	if !ok {
		return
	}
	switch v := v.(type) {
	case *service, *iface, *namespace:
		has := v.(starlark.HasAttrs)
		got, err := has.Attr(e.Name.Name)
		switch {
		case err != nil:
			ld.report(spanOf(e.Name), nearest(e.Name.Name, has.AttrNames()), "%s", err)
		case got == nil:
			ld.report(spanOf(e.Name), nearest(e.Name.Name, has.AttrNames()), "%s has no .%s", v, e.Name.Name)
		}
	}
}

func (ld *loader) lintCall(e *syntax.CallExpr, n *names) {
	v, ok := n.one(e.Fn)
	b, isBuiltin := v.(*builtin)
	if !ok || !isBuiltin {
		return
	}
	c := newCall(&env{loader: ld, phase: atLoad, ctx: context.Background()}, nil, b.entry, site{node: e, pos: e.Lparen})
	l := &linter{c: c, n: n, whole: true}
	for i, a := range e.Args {
		x, op, star := starred(a)
		id, value := keyword(a)
		switch {
		case star && op == syntax.STAR:
			l.open, l.whole = true, false
		case star:
			l.whole = l.keywordsOf(x) && l.whole
		case id != nil:
			l.keyword(id, value)
		default:
			l.positional(i, value)
		}
	}
	l.missing()
	if l.whole && b.entry.pure && b.entry.reach == injectsNothing && !c.bad {
		// A pure builtin's own checks, for what binding alone can't see.
		_, _ = b.entry.do(c)
	}
}

// linter checks one call.
type linter struct {
	c *call
	n *names
	// open is set where some arguments are not known; whole is cleared where some values are not.
	open, whole bool
	given       []string
}

// value converts an argument whose value is known.
func (l *linter) value(k kind, name string, e syntax.Expr) (any, bool) {
	v, ok := l.n.one(e)
	if !ok {
		l.whole = false
		return nil, false
	}
	return l.c.convert(k, name, v, e)
}

func (l *linter) positional(i int, e syntax.Expr) {
	params := l.c.entry.params
	if len(params) > 0 && params[len(params)-1].variadic {
		i = min(i, len(params)-1)
	}
	if v := slices.IndexFunc(params, func(p param) bool { return p.variadic }); v >= 0 {
		i = min(i, v)
	}
	if i >= len(params) {
		if !l.open {
			got := 0
			for _, a := range l.c.site.node.Args {
				if id, _ := keyword(a); id == nil {
					got++
				}
			}
			l.c.errorf(spanOf(e), "", "takes %s, got %d", count(len(params), "positional argument"), got)
			l.open = true
		}
		return
	}
	l.given = append(l.given, params[i].name)
	l.bind(params[i], e)
}

func (l *linter) bind(p param, e syntax.Expr) {
	l.c.exprs[p.name] = e
	if v, ok := l.n.one(e); ok && v == starlark.None && !p.required {
		return
	}
	got, ok := l.value(p.kind, p.name, e)
	if !ok {
		return
	}
	if p.variadic {
		list, _ := l.c.args[p.name].([]any)
		l.c.args[p.name] = append(list, got)
		return
	}
	l.c.args[p.name] = got
}

func (l *linter) keyword(id *syntax.Ident, e syntax.Expr) {
	en := l.c.entry
	i := slices.IndexFunc(en.params, func(p param) bool { return p.name == id.Name && !p.variadic })
	switch {
	case i >= 0 && slices.Contains(l.given, id.Name):
		l.c.errorf(spanOf(id), "", "argument %q is given twice", id.Name)
	case i >= 0:
		l.given = append(l.given, id.Name)
		l.bind(en.params[i], e)
	case en.rest != nil && (!en.rest.check || slices.Contains(en.rest.known(), id.Name)):
		if got, ok := l.value(en.rest.kind, id.Name, e); ok {
			l.c.rest = append(l.c.rest, keywordArg{id.Name, got, spanOf(id)})
		}
	default:
		l.c.errorf(spanOf(id), nearest(id.Name, en.keywords()), "unknown keyword %q", id.Name)
	}
}

// keywordsOf takes **x as far as it is known, and reports whether it is.
func (l *linter) keywordsOf(x syntax.Expr) bool {
	keys, ok := dictKeys(l.n, x)
	if !ok {
		l.open = true
		return false
	}
	l.given = append(l.given, keys...)
	return false
}

func (l *linter) missing() {
	if l.open {
		return
	}
	for _, p := range l.c.entry.params {
		if p.required && !slices.Contains(l.given, p.name) {
			l.whole = false
			l.c.errorf(l.c.site.span(), "", "missing argument %q", p.name)
		}
	}
}
