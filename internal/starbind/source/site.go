package source

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"
)

// File is one file of a spec, as read and as parsed.
type File struct {
	// Path is relative to the main file's directory, with slashes.
	Path    string
	Content []byte
	Lines   []string
	Tree    *syntax.File
}

// Place is a position without its pointer, so that it can be a key.
type Place struct {
	File      string
	Line, Col int32
}

// PlaceOf returns the key of a position.
func PlaceOf(p syntax.Position) Place { return Place{p.Filename(), p.Line, p.Col} }

// String returns file:line:column.
func (p Place) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// Index finds syntax by position: calls by their opening parenthesis, which is what a frame
// of the interpreter reports, and functions by their first keyword.
type Index struct {
	Calls map[Place]*syntax.CallExpr
	Funcs map[Place]syntax.Node
	Loads map[Place]*syntax.LoadStmt
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{Calls: map[Place]*syntax.CallExpr{}, Funcs: map[Place]syntax.Node{}, Loads: map[Place]*syntax.LoadStmt{}}
}

// Add takes the calls, functions and loads of a file.
func (x *Index) Add(f *syntax.File) {
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			x.Calls[PlaceOf(n.Lparen)] = n
		case *syntax.DefStmt:
			x.Funcs[PlaceOf(n.Def)] = n
		case *syntax.LambdaExpr:
			x.Funcs[PlaceOf(n.Lambda)] = n
		case *syntax.LoadStmt:
			x.Loads[PlaceOf(n.Load)] = n
		}
		return true
	})
}

// Keyword splits an argument of a call into its keyword, or nil, and its value.
func Keyword(arg syntax.Expr) (*syntax.Ident, syntax.Expr) {
	if b, ok := arg.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
		if id, ok := b.X.(*syntax.Ident); ok {
			return id, b.Y
		}
	}
	return nil, arg
}

// Starred reports whether an argument is *x or **x.
func Starred(arg syntax.Expr) (syntax.Expr, syntax.Token, bool) {
	if u, ok := arg.(*syntax.UnaryExpr); ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR) {
		return u.X, u.Op, true
	}
	return nil, 0, false
}

// Site is where a call stands: its node where the call was written in a spec, and its position.
type Site struct {
	Node *syntax.CallExpr
	Pos  syntax.Position
}

// Span is the span of what is called.
func (s Site) Span() Span {
	if s.Node != nil {
		return SpanOf(s.Node.Fn)
	}
	return Span{s.Pos, s.Pos}
}

// Start is where the call begins, for records.
func (s Site) Start() Place { return PlaceOf(s.Span().Start) }

// KeywordSpan is the span of a keyword's name, or of the call where it is not written out.
func (s Site) KeywordSpan(name string) Span {
	if s.Node != nil {
		for _, arg := range s.Node.Args {
			if id, _ := Keyword(arg); id != nil && id.Name == name {
				return SpanOf(id)
			}
		}
	}
	return s.Span()
}

// ValueExpr returns the expression of a keyword or, where it was given by position, of argument i.
func (s Site) ValueExpr(name string, i int) syntax.Expr {
	if s.Node == nil {
		return nil
	}
	for _, arg := range s.Node.Args {
		if id, value := Keyword(arg); id != nil && id.Name == name {
			return value
		}
	}
	if i < 0 || i >= len(s.Node.Args) {
		return nil
	}
	// After a *x the positions of arguments can't be told from the text.
	for _, arg := range s.Node.Args[:i+1] {
		if _, _, star := Starred(arg); star {
			return nil
		}
	}
	if id, value := Keyword(s.Node.Args[i]); id == nil {
		return value
	}
	return nil
}

// At returns the span of an expression, or of the call where there is none.
func (s Site) At(e syntax.Expr) Span {
	if e == nil {
		return s.Span()
	}
	return SpanOf(e)
}

// Element returns the i-th element of a list, tuple or dict display of n elements, or e itself.
func Element(e syntax.Expr, i, n int) syntax.Expr {
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

// SplitLines returns the lines of a file without their ends.
func SplitLines(content []byte) []string {
	lines := strings.Split(string(content), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines
}

// CallAt finds the span of the call that begins at a recorded position.
func (x *Index) CallAt(position string) Span {
	for _, call := range x.Calls {
		if s := SpanOf(call.Fn); PlaceOf(s.Start).String() == position {
			return s
		}
	}
	return Span{}
}
