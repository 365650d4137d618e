package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
)

// The house numbers.
const (
	maxFunction   = 70
	maxComplexity = 15
	maxFile       = 500
	maxTestFile   = 800
	maxPackage    = 4000
	maxFields     = 15
	maxMethods    = 8
)

// functionLength counts the lines of each function, without those of tables: slice and map
// literals, but for the functions in them.
func functionLength(f *File) []Finding {
	var all []Finding
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		if n := f.span(fn) - f.tableLines(fn.Body); n > maxFunction {
			all = append(all, f.find("function-length", fn.Pos(), fn.Name.Name,
				"%s has %d lines, at most %d", fn.Name.Name, n, maxFunction))
		}
	}
	return all
}

func (f *File) tableLines(body ast.Node) int {
	lines := 0
	ast.Inspect(body, func(n ast.Node) bool {
		c, ok := n.(*ast.CompositeLit)
		if !ok || !isTable(c) {
			return true
		}
		lines += f.span(c) - 1
		ast.Inspect(c, func(n ast.Node) bool {
			if l, ok := n.(*ast.FuncLit); ok {
				lines -= f.span(l) - 1
				return false
			}
			return true
		})
		return false
	})
	return lines
}

func isTable(c *ast.CompositeLit) bool {
	switch c.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		return true
	}
	return false
}

// complexity counts the ways through each function: one, and one more for each branch, loop,
// case, && and ||. A function literal is a function of its own. In tests one assertion after the
// other is no sign of a knot.
func complexity(f *File) []Finding {
	if f.Test() {
		return nil
	}
	var all []Finding
	check := func(name string, at token.Pos, body *ast.BlockStmt) {
		if n := branches(body); n > maxComplexity {
			all = append(all, f.find("complexity", at, name,
				"%s has a cyclomatic complexity of %d, at most %d", name, n, maxComplexity))
		}
	}
	for _, d := range f.AST.Decls {
		name := "a function literal"
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			name = fn.Name.Name
			check(name, fn.Pos(), fn.Body)
			name = "a function literal in " + name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if l, ok := n.(*ast.FuncLit); ok {
				check(name, l.Pos(), l.Body)
			}
			return true
		})
	}
	return all
}

func branches(body *ast.BlockStmt) int {
	count := 1
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			count++
		case *ast.CaseClause:
			if n.List != nil {
				count++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				count++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}

func fileLength(f *File) []Finding {
	limit := maxFile
	if f.Test() {
		limit = maxTestFile
	}
	if n := f.Lines(); n > limit {
		return []Finding{{"file-length", f.Path, 0, "", fmt.Sprintf("%d lines, at most %d", n, limit)}}
	}
	return nil
}

func packageLength(t *Tree) []Finding {
	lines := map[string]int{}
	for _, f := range t.Go {
		if !f.Test() {
			lines[f.Dir()] += f.Lines()
		}
	}
	var all []Finding
	for dir, n := range lines {
		if n > maxPackage {
			all = append(all, Finding{"package-length", dir, 0, "",
				fmt.Sprintf("%d lines without tests, at most %d", n, maxPackage)})
		}
	}
	return all
}

func typeSize(f *File) []Finding {
	var all []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			if c := members(n.Fields); c > maxFields {
				all = append(all, f.find("type-size", n.Pos(), "", "a struct with %d fields, at most %d", c, maxFields))
			}
		case *ast.InterfaceType:
			if c := members(n.Methods); c > maxMethods {
				all = append(all, f.find("type-size", n.Pos(), "", "an interface with %d methods, at most %d", c, maxMethods))
			}
		}
		return true
	})
	return all
}

// members counts names; an embedded type is one.
func members(l *ast.FieldList) int {
	n := 0
	for _, field := range l.List {
		n += max(1, len(field.Names))
	}
	return n
}
