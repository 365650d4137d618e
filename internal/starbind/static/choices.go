package static

import (
	"cmp"
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
)

// Choice is a choice that stands in the text of reachable code.
type Choice struct {
	Name string
	// Options are empty where they are not known.
	Options []starlark.Value
	// Sure is set where every run of the code comes to it that does not end before.
	Sure bool
	// Fans is set for parallel branches, Unnamed where the name is not known.
	Fans, Unnamed bool
	At            source.Place
}

// Choices returns the choices in functions that run one after the other: first those that are sure to be met, in
// the order in which they are, then all others that code can reach.
func (p *Program) Choices(fns ...starlark.Callable) []Choice {
	f := &finder{program: p, seen: map[source.Place]bool{}, count: map[string]int{}, sure: true}
	for _, fn := range fns {
		if fn, ok := fn.(*starlark.Function); ok {
			f.straight(fn)
		}
	}
	sure := f.found
	f.found, f.sure = nil, false
	for fn := range p.reach(fns...).functions {
		if node := p.Index.Funcs[source.PlaceOf(fn.Position())]; node != nil {
			f.expr(node, p.namesIn(node, fn.Globals(), freeOf(fn)))
		}
	}
	slices.SortFunc(f.found, func(a, b Choice) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Col, b.At.Col))
	})
	return append(sure, f.found...)
}

func freeOf(fn *starlark.Function) starlark.StringDict {
	free := starlark.StringDict{}
	for i := range fn.NumFreeVars() {
		if b, v := fn.FreeVar(i); v != nil {
			free[b.Name] = v
		}
	}
	return free
}

// finder collects choices. As long as sure is set, what it comes to is met by every run.
type finder struct {
	program *Program
	found   []Choice
	seen    map[source.Place]bool
	count   map[string]int
	sure    bool
}

// straight goes through the statements of a function that are always executed. From the first on of which that
// can't be said, nothing is sure.
func (f *finder) straight(fn *starlark.Function) {
	node := f.program.Index.Funcs[source.PlaceOf(fn.Position())]
	names := f.program.namesIn(node, fn.Globals(), freeOf(fn))
	switch node := node.(type) {
	case *syntax.DefStmt:
		for _, s := range node.Body {
			if !f.sure || !f.statement(s, names) {
				f.sure = false
				return
			}
		}
	case *syntax.LambdaExpr:
		if f.sure && f.plain(node.Body, names) {
			f.expr(node.Body, names)
		} else {
			f.sure = false
		}
	default:
		f.sure = false
	}
}

// statement takes one statement; false where what follows may not be executed.
func (f *finder) statement(s syntax.Stmt, n *names) bool {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		return f.take(s.X, n)
	case *syntax.AssignStmt:
		return f.take(s.RHS, n)
	case *syntax.ReturnStmt:
		if s.Result == nil {
			return true
		}
		return f.take(s.Result, n)
	case *syntax.DefStmt:
		return true
	case *syntax.BranchStmt:
		return s.Token == syntax.PASS
	}
	return f.plainStatement(s, n)
}

func (f *finder) take(e syntax.Expr, n *names) bool {
	if !f.plain(e, n) {
		return false
	}
	f.expr(e, n)
	return true
}

// plainStatement reports whether a conditional or loop neither returns nor chooses.
func (f *finder) plainStatement(s syntax.Stmt, n *names) bool {
	ok := true
	syntax.Walk(s, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.ReturnStmt:
			ok = false
		case *syntax.CallExpr:
			ok = ok && f.known(node, n) && !chooses(n, node)
		}
		return ok
	})
	return ok
}

// plain reports whether an expression calls nothing but builtins, and chooses only where it is sure to.
func (f *finder) plain(e syntax.Expr, n *names) bool {
	ok := true
	syntax.Walk(e, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.CallExpr:
			ok = ok && f.known(node, n)
		case *syntax.CondExpr, *syntax.Comprehension, *syntax.LambdaExpr:
			syntax.Walk(node, func(inner syntax.Node) bool {
				if c, call := inner.(*syntax.CallExpr); call {
					ok = ok && f.known(c, n) && !chooses(n, c)
				}
				return ok
			})
			return false
		case *syntax.BinaryExpr:
			if node.Op == syntax.AND || node.Op == syntax.OR {
				syntax.Walk(node.Y, func(inner syntax.Node) bool {
					if c, call := inner.(*syntax.CallExpr); call {
						ok = ok && !chooses(n, c)
					}
					return ok
				})
			}
		}
		return ok
	})
	return ok
}

// known reports whether a call is one of a builtin or of a value's method, and not of code that may choose.
func (f *finder) known(c *syntax.CallExpr, n *names) bool {
	if _, method := c.Fn.(*syntax.DotExpr); method {
		return true
	}
	list, all := n.values(c.Fn)
	return all && !slices.ContainsFunc(list, func(v starlark.Value) bool {
		_, function := v.(*starlark.Function)
		return function
	})
}

// chooser returns the builtin that a call chooses by; nil for other calls.
func chooser(n *names, c *syntax.CallExpr) *bind.Builtin {
	v, ok := n.one(c.Fn)
	b, is := v.(*bind.Builtin)
	if !ok || !is {
		return nil
	}
	switch b.Entry.Name {
	case "choose", "nondet", "parallel":
		return b
	}
	return nil
}

func chooses(n *names, c *syntax.CallExpr) bool { return chooser(n, c) != nil }

// expr collects the choices in an expression or a function.
func (f *finder) expr(node syntax.Node, n *names) {
	syntax.Walk(node, func(node syntax.Node) bool {
		c, ok := node.(*syntax.CallExpr)
		if !ok {
			return true
		}
		b := chooser(n, c)
		at := source.PlaceOf(c.Lparen)
		if b == nil || f.seen[at] {
			return true
		}
		if choice, ok := f.choice(b, c, n); ok {
			choice.At = at
			f.seen[at] = true
			f.found = append(f.found, choice)
		}
		return true
	})
}

// choice reads a call that chooses; false where it gives no leaves.
func (f *finder) choice(b *bind.Builtin, c *syntax.CallExpr, n *names) (Choice, bool) {
	at := source.Site{Node: c}
	out := Choice{Sure: f.sure}
	switch b.Entry.Name {
	case "parallel":
		how := at.ValueExpr("interleavings", -1)
		if how == nil {
			return out, false
		}
		if v, ok := n.one(how); ok {
			if i, number := v.(starlark.Int); number && i.Sign() > 0 && i.BigInt().BitLen() == 1 {
				return out, false
			}
		}
		out.Name, out.Fans = f.name("parallel"), true
		return out, true
	case "nondet":
		if len(c.Args) > 0 {
			return out, false
		}
		out.Name, out.Options = f.name("choose"), []starlark.Value{starlark.True, starlark.False}
		return out, true
	}
	name, options := at.ValueExpr("name", 0), at.ValueExpr("options", 1)
	if options == nil {
		name, options = nil, name
	}
	if name != nil {
		v, ok := n.one(name)
		text, isText := starlark.AsString(v)
		if !ok || !isText {
			out.Unnamed, out.Sure = true, false
			text = "?"
		}
		out.Name = f.name(text)
	} else {
		out.Name = f.name("choose")
	}
	out.Options = optionsOf(n, options)
	return out, true
}

// name counts a choice's name as the walk does: "backend", then "backend#2".
func (f *finder) name(base string) string {
	if !f.sure {
		return base
	}
	f.count[base]++
	if k := f.count[base]; k > 1 {
		return fmt.Sprintf("%s#%d", base, k)
	}
	return base
}

// optionsOf returns the options where each of them is known; nil otherwise.
func optionsOf(n *names, e syntax.Expr) []starlark.Value {
	var exprs []syntax.Expr
	switch e := e.(type) {
	case *syntax.ListExpr:
		exprs = e.List
	case *syntax.TupleExpr:
		exprs = e.List
	case *syntax.ParenExpr:
		return optionsOf(n, e.X)
	case nil:
		return nil
	default:
		v, ok := n.one(e)
		seq, isSeq := v.(starlark.Sequence)
		if !ok || !isSeq {
			return nil
		}
		return slices.Collect(starlark.Elements(seq))
	}
	var out []starlark.Value
	for _, x := range exprs {
		v, ok := n.one(x)
		if !ok {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// ActsOn returns the services whose processes code may act on; "" is any.
func (p *Program) ActsOn(fns ...starlark.Callable) []string {
	var out []string
	for fn := range p.reach(fns...).functions {
		node := p.Index.Funcs[source.PlaceOf(fn.Position())]
		if node == nil {
			continue
		}
		n := p.namesIn(node, fn.Globals(), freeOf(fn))
		syntax.Walk(node, func(node syntax.Node) bool {
			c, ok := node.(*syntax.CallExpr)
			if !ok {
				return true
			}
			v, _ := n.one(c.Fn)
			if b, ok := v.(*bind.Builtin); ok && slices.Contains([]string{"kill", "pause", "resume", "restart"}, b.Entry.Name) {
				service := ""
				if t, known := n.one(source.Site{Node: c}.ValueExpr("service", 0)); known {
					if t, is := t.(Target); is {
						service, _ = t.Target()
					}
				}
				out = append(out, service)
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}
