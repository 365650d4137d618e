package tidy

import (
	"go/ast"
	"go/token"
	"strings"
)

// documented wants a doc comment on each exported name at the top level. In a group, the group's
// own comment is enough.
func documented(f *File) []Finding {
	if f.Test() {
		return nil
	}
	var all []Finding
	missing := func(id *ast.Ident) {
		all = append(all, f.find("documented", id.Pos(), id.Name, "exported %s has no doc comment", id.Name))
	}
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
				missing(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				for _, id := range undocumented(d, s) {
					missing(id)
				}
			}
		}
	}
	return all
}

func undocumented(d *ast.GenDecl, s ast.Spec) []*ast.Ident {
	var names []*ast.Ident
	switch s := s.(type) {
	case *ast.TypeSpec:
		// A group of types needs a comment for each; a single one has it on the declaration.
		if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, s.Name)
		}
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				names = append(names, id)
			}
		}
	}
	return names
}

// exportedReceiver is true for functions, and for methods of exported types.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}

// packageComment wants one that begins with "Package" or "Command" in each directory.
func packageComment(t *Tree) []Finding {
	type state struct{ path, name string }
	wanting, having := map[string]state{}, map[string]bool{}
	for _, f := range t.Go {
		if f.Test() && strings.HasSuffix(f.AST.Name.Name, "_test") {
			continue
		}
		if wanting[f.Dir()].path == "" {
			wanting[f.Dir()] = state{f.Path, f.AST.Name.Name}
		}
		if doc := f.AST.Doc.Text(); strings.HasPrefix(doc, "Package ") || strings.HasPrefix(doc, "Command ") {
			having[f.Dir()] = true
		}
	}
	var all []Finding
	for dir, s := range wanting {
		if !having[dir] {
			all = append(all, Finding{"package-comment", s.path, 0, s.name, "package " + s.name + " has no package comment"})
		}
	}
	return all
}

func noInit(f *File) []Finding {
	var all []Finding
	for _, d := range f.AST.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			all = append(all, f.find("no-init", fn.Pos(), "init", "func init: do it where it is needed"))
		}
	}
	return all
}

// noVariables allows package variables only where nothing can change them in practice: error
// sentinels, compiled expressions, embedded files and assertions by the blank name.
func noVariables(f *File) []Finding {
	if f.Test() {
		return nil
	}
	var all []Finding
	for _, d := range f.AST.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if embedded(g.Doc) || embedded(v.Doc) {
				continue
			}
			for i, id := range v.Names {
				if id.Name != "_" && (i >= len(v.Values) || !constant(v.Values[i])) {
					all = append(all, f.find("no-variables", id.Pos(), id.Name,
						"package variable %s: use a constant or a function", id.Name))
				}
			}
		}
	}
	return all
}

func embedded(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, c := range doc.List {
		if strings.HasPrefix(c.Text, "//go:embed ") {
			return true
		}
	}
	return false
}

func constant(e ast.Expr) bool {
	if s, ok := e.(*ast.SelectorExpr); ok {
		// Another package's sentinel by a name of this one.
		return strings.HasPrefix(s.Sel.Name, "Err")
	}
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch selector(c.Fun) {
	case "errors.New", "fmt.Errorf", "regexp.MustCompile":
		return true
	}
	return false
}

// selector returns x.y for such an expression, else "".
func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}
