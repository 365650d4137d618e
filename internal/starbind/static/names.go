package static

import (
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
)

// names tells what the names in a function stand for, as far as that is known without running it.
// Globals are final and frozen when it is asked.
type names struct {
	program *Program
	globals starlark.StringDict
	// free are the captured variables of a function; locals are those of its text, by name.
	free   starlark.StringDict
	locals map[string][]assigned
}

// assigned is one thing that a local variable may hold: the value of expr, an element of it, or,
// where expr is nil, anything.
type assigned struct {
	expr    syntax.Expr
	element bool
}

// namesIn prepares for the text of a function, nested functions included. Equal names in nested
// functions are taken together, which can only add to what they may stand for.
func (p *Program) namesIn(node syntax.Node, globals, free starlark.StringDict) *names {
	n := &names{program: p, globals: globals, free: free, locals: map[string][]assigned{}}
	syntax.Walk(node, func(s syntax.Node) bool {
		switch s := s.(type) {
		case *syntax.DefStmt:
			n.assign(s.Name, assigned{})
			n.params(s.Params)
		case *syntax.LambdaExpr:
			n.params(s.Params)
		case *syntax.AssignStmt:
			if s.Op == syntax.EQ {
				n.assign(s.LHS, assigned{expr: s.RHS})
			} else {
				n.assign(s.LHS, assigned{})
			}
		case *syntax.ForStmt:
			n.assign(s.Vars, assigned{s.X, true})
		case *syntax.ForClause:
			n.assign(s.Vars, assigned{s.X, true})
		}
		return true
	})
	return n
}

func (n *names) params(list []syntax.Expr) {
	for _, p := range list {
		if id, _ := source.Keyword(p); id != nil {
			p = id
		} else if x, _, star := source.Starred(p); star {
			p = x
		}
		if p != nil {
			n.assign(p, assigned{})
		}
	}
}

// assign records what a variable, or each of a tuple of variables, may hold.
func (n *names) assign(lhs syntax.Expr, a assigned) {
	switch lhs := lhs.(type) {
	case *syntax.Ident:
		n.locals[lhs.Name] = append(n.locals[lhs.Name], a)
	case *syntax.ParenExpr:
		n.assign(lhs.X, a)
	case *syntax.TupleExpr:
		n.assignEach(lhs.List, a)
	case *syntax.ListExpr:
		n.assignEach(lhs.List, a)
	}
}

func (n *names) assignEach(list []syntax.Expr, a assigned) {
	for i, x := range list {
		one := assigned{}
		if !a.element && a.expr != nil {
			if e := source.Element(a.expr, i, len(list)); e != a.expr {
				one.expr = e
			}
		}
		n.assign(x, one)
	}
}

const maxDepth = 12

// values returns what an expression may evaluate to, and whether that is all of it.
func (n *names) values(e syntax.Expr) ([]starlark.Value, bool) { return n.resolve(e, 0) }

// one returns the only thing that an expression may evaluate to.
func (n *names) one(e syntax.Expr) (starlark.Value, bool) {
	list, all := n.values(e)
	if !all || len(list) != 1 {
		return nil, false
	}
	_, poisoned := list[0].(bind.Broken)
	return list[0], !poisoned
}

func (n *names) resolve(e syntax.Expr, depth int) ([]starlark.Value, bool) {
	if depth > maxDepth {
		return nil, false
	}
	depth++
	switch e := e.(type) {
	case *syntax.Ident:
		return n.ident(e, depth)
	case *syntax.ParenExpr:
		return n.resolve(e.X, depth)
	case *syntax.Literal:
		v, ok := literal(e)
		return v, ok
	case *syntax.CondExpr:
		return n.union(depth, e.True, e.False)
	case *syntax.BinaryExpr:
		if e.Op == syntax.OR || e.Op == syntax.AND {
			return n.union(depth, e.X, e.Y)
		}
	case *syntax.DotExpr:
		return each(n, e.X, depth, func(v starlark.Value) ([]starlark.Value, bool) { return attribute(v, e.Name.Name) })
	case *syntax.IndexExpr:
		return n.index(e, depth)
	case *syntax.CallExpr:
		return n.called(e, depth)
	}
	return nil, false
}

func literal(e *syntax.Literal) ([]starlark.Value, bool) {
	switch v := e.Value.(type) {
	case string:
		if e.Token == syntax.BYTES {
			return []starlark.Value{starlark.Bytes(v)}, true
		}
		return []starlark.Value{starlark.String(v)}, true
	case int64:
		return []starlark.Value{starlark.MakeInt64(v)}, true
	case float64:
		return []starlark.Value{starlark.Float(v)}, true
	}
	return nil, false
}

func (n *names) ident(e *syntax.Ident, depth int) ([]starlark.Value, bool) {
	scope := resolve.Undefined
	if b, ok := e.Binding.(*resolve.Binding); ok {
		scope = b.Scope
	}
	one := func(v starlark.Value) ([]starlark.Value, bool) {
		if v == nil {
			return nil, false
		}
		return []starlark.Value{v}, true
	}
	switch scope {
	case resolve.Global:
		return one(n.globals[e.Name])
	case resolve.Predeclared:
		return one(n.program.Predeclared[e.Name])
	case resolve.Universal:
		return one(starlark.Universe[e.Name])
	case resolve.Local, resolve.Cell, resolve.Free:
		return n.local(e.Name, depth)
	}
	return nil, false
}

func (n *names) local(name string, depth int) ([]starlark.Value, bool) {
	var out []starlark.Value
	all := true
	if v := n.free[name]; v != nil {
		out = append(out, v)
	} else if len(n.locals[name]) == 0 {
		return nil, false
	}
	for _, a := range n.locals[name] {
		var got []starlark.Value
		ok := false
		switch {
		case a.expr == nil:
		case a.element:
			got, ok = n.elements(a.expr, depth)
		default:
			got, ok = n.resolve(a.expr, depth)
		}
		out, all = append(out, got...), all && ok
	}
	return out, all
}

func (n *names) union(depth int, list ...syntax.Expr) ([]starlark.Value, bool) {
	var out []starlark.Value
	all := true
	for _, e := range list {
		got, ok := n.resolve(e, depth)
		out, all = append(out, got...), all && ok
	}
	return out, all
}

// elements returns what iterating over an expression may give.
func (n *names) elements(e syntax.Expr, depth int) ([]starlark.Value, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return n.elements(e.X, depth+1)
	case *syntax.ListExpr:
		return n.union(depth+1, e.List...)
	case *syntax.TupleExpr:
		return n.union(depth+1, e.List...)
	}
	return each(n, e, depth+1, func(v starlark.Value) ([]starlark.Value, bool) {
		if _, text := v.(starlark.String); text {
			return nil, false
		}
		it, ok := v.(starlark.Iterable)
		if !ok {
			return nil, false
		}
		var out []starlark.Value
		for item := range starlark.Elements(it) {
			out = append(out, item)
		}
		return out, true
	})
}

// index returns the named element of a container where its key is known, otherwise all of them.
func (n *names) index(e *syntax.IndexExpr, depth int) ([]starlark.Value, bool) {
	key, known := n.resolve(e.Y, depth)
	return each(n, e.X, depth, func(v starlark.Value) ([]starlark.Value, bool) {
		if m, ok := v.(starlark.Mapping); ok && known && len(key) == 1 {
			got, found, err := m.Get(key[0])
			return []starlark.Value{got}, found && err == nil
		}
		return contents(v)
	})
}

// each applies fn to all that an expression may evaluate to.
func each(n *names, e syntax.Expr, depth int, fn func(starlark.Value) ([]starlark.Value, bool)) ([]starlark.Value, bool) {
	list, all := n.resolve(e, depth)
	var out []starlark.Value
	for _, v := range list {
		got, ok := fn(v)
		out, all = append(out, got...), all && ok
	}
	return out, all
}

// attribute returns an attribute of a value whose attributes do not depend on when it is asked.
func attribute(v starlark.Value, name string) ([]starlark.Value, bool) {
	switch v := v.(type) {
	case Fixed:
		if got, err := v.Attr(name); err == nil && got != nil {
			return []starlark.Value{got}, true
		}
	case *starlarkstruct.Struct:
		if got, err := v.Attr(name); err == nil && got != nil {
			return []starlark.Value{got}, true
		}
	}
	return nil, false
}

// called knows one call whose result is plain: ref("name").
func (n *names) called(e *syntax.CallExpr, depth int) ([]starlark.Value, bool) {
	fn, ok := n.resolve(e.Fn, depth)
	if !ok || len(fn) != 1 || len(e.Args) != 1 {
		return nil, false
	}
	b, ok := fn[0].(*bind.Builtin)
	if !ok || b.Entry.Name != "ref" {
		return nil, false
	}
	_, value := source.Keyword(e.Args[0])
	name, ok := n.resolve(value, depth)
	if !ok || len(name) != 1 {
		return nil, false
	}
	text, _ := starlark.AsString(name[0])
	if s := n.program.Reference(text); s != nil {
		return []starlark.Value{s}, true
	}
	return nil, false
}

// contents returns what a container holds; false where it is none.
func contents(v starlark.Value) ([]starlark.Value, bool) {
	var out []starlark.Value
	switch v := v.(type) {
	case *starlark.Dict:
		for _, item := range v.Items() {
			out = append(out, item[0], item[1])
		}
	case *starlarkstruct.Struct:
		for _, name := range v.AttrNames() {
			if got, err := v.Attr(name); err == nil {
				out = append(out, got)
			}
		}
	case *starlark.Builtin:
		if v.Receiver() != nil {
			out = append(out, v.Receiver())
		}
	case *starlark.List, starlark.Tuple, *starlark.Set:
		for item := range starlark.Elements(v.(starlark.Iterable)) {
			out = append(out, item)
		}
	default:
		return nil, false
	}
	return out, true
}
