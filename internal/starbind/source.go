package starbind

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"
)

// source is one file of a spec, as read and as parsed.
type source struct {
	// path is relative to the main file's directory, with slashes.
	path    string
	content []byte
	lines   []string
	tree    *syntax.File
}

// place is a position without its pointer, so that it can be a key.
type place struct {
	file      string
	line, col int32
}

func placeOf(p syntax.Position) place { return place{p.Filename(), p.Line, p.Col} }

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.col) }

// index finds syntax by position: calls by their opening parenthesis, which is what a frame
// of the interpreter reports, and functions by their first keyword.
type index struct {
	calls map[place]*syntax.CallExpr
	funcs map[place]syntax.Node
	loads map[place]*syntax.LoadStmt
}

func newIndex() *index {
	return &index{calls: map[place]*syntax.CallExpr{}, funcs: map[place]syntax.Node{}, loads: map[place]*syntax.LoadStmt{}}
}

func (x *index) add(f *syntax.File) {
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			x.calls[placeOf(n.Lparen)] = n
		case *syntax.DefStmt:
			x.funcs[placeOf(n.Def)] = n
		case *syntax.LambdaExpr:
			x.funcs[placeOf(n.Lambda)] = n
		case *syntax.LoadStmt:
			x.loads[placeOf(n.Load)] = n
		}
		return true
	})
}

// keyword splits an argument of a call into its keyword, or nil, and its value.
func keyword(arg syntax.Expr) (*syntax.Ident, syntax.Expr) {
	if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
		if id, ok := b.X.(*syntax.Ident); ok {
			return id, b.Y
		}
	}
	return nil, arg
}

// starred reports whether an argument is *x or **x.
func starred(arg syntax.Expr) (syntax.Expr, syntax.Token, bool) {
	if u, ok := arg.(*syntax.UnaryExpr); ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR) {
		return u.X, u.Op, true
	}
	return nil, 0, false
}

// site is where a call stands: its node where the call was written in a spec, and its position.
type site struct {
	node *syntax.CallExpr
	pos  syntax.Position
}

func (s site) span() span {
	if s.node != nil {
		return spanOf(s.node.Fn)
	}
	return span{s.pos, s.pos}
}

// start is where the call begins, for records.
func (s site) start() place { return placeOf(s.span().start) }

// keywordSpan is the span of a keyword's name, or of the call where it is not written out.
func (s site) keywordSpan(name string) span {
	if s.node != nil {
		for _, arg := range s.node.Args {
			if id, _ := keyword(arg); id != nil && id.Name == name {
				return spanOf(id)
			}
		}
	}
	return s.span()
}

// valueExpr returns the expression of a keyword or, where it was given by position, of argument i.
func (s site) valueExpr(name string, i int) syntax.Expr {
	if s.node == nil {
		return nil
	}
	for _, arg := range s.node.Args {
		if id, value := keyword(arg); id != nil && id.Name == name {
			return value
		}
	}
	if i < 0 || i >= len(s.node.Args) {
		return nil
	}
	// After a *x the positions of arguments can't be told from the text.
	for _, arg := range s.node.Args[:i+1] {
		if _, _, star := starred(arg); star {
			return nil
		}
	}
	if id, value := keyword(s.node.Args[i]); id == nil {
		return value
	}
	return nil
}

// at returns the span of an expression, or of the call where there is none.
func (s site) at(e syntax.Expr) span {
	if e == nil {
		return s.span()
	}
	return spanOf(e)
}

// element returns the i-th element of a list, tuple or dict display of n elements, or e itself.
func element(e syntax.Expr, i, n int) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			break
		}
		e = p.X
	}
	var list []syntax.Expr
	switch e := e.(type) {
	case *syntax.ListExpr:
		list = e.List
	case *syntax.TupleExpr:
		list = e.List
	case *syntax.DictExpr:
		list = e.List
	}
	if len(list) != n || i >= n {
		return e
	}
	return list[i]
}

func splitLines(content []byte) []string {
	lines := strings.Split(string(content), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines
}
