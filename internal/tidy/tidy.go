// Package tidy reads the source tree and says where it breaks the house rules.
//
// The rules are checks: pure functions from a Tree to findings. The test of this
// package runs all of them over the repository, with the exceptions that stand
// there, and tries each on a snippet that it has to catch.
package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the path of the module whose tree is read.
const Module = "github.com/squallhq/squall"

// Finding is one place that breaks a rule.
type Finding struct {
	// Check is the rule's name.
	Check string
	// Path is the file or directory, relative to the tree's root.
	Path string
	// Line is 0 where the whole file or directory is meant.
	Line int
	// Name is the declaration concerned, or "".
	Name    string
	Message string
}

// String returns path:line: message (check).
func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return fmt.Sprintf("%s: %s (%s)", at, f.Message, f.Check)
}

// Tree is a source tree that has been read.
type Tree struct {
	// Go holds the Go files of the module that are not generated, tests among them.
	Go []*File
	// Text holds every file that is text.
	Text []*Text
}

// Text is a file as it lies on disk.
type Text struct {
	// Path is relative to the root, with slashes.
	Path    string
	Content []byte
}

// File is a parsed Go file.
type File struct {
	*Text
	Fset *token.FileSet
	AST  *ast.File
}

// Dir returns the directory of the file, "." for the root.
func (t *Text) Dir() string { return path.Dir(t.Path) }

// Test reports whether it is a test file.
func (t *Text) Test() bool { return strings.HasSuffix(t.Path, "_test.go") }

// Lines returns how many lines the file has.
func (t *Text) Lines() int {
	n := bytes.Count(t.Content, []byte{'\n'})
	if len(t.Content) > 0 && t.Content[len(t.Content)-1] != '\n' {
		n++
	}
	return n
}

func (f *File) line(p token.Pos) int { return f.Fset.Position(p).Line }

// span returns how many lines a node covers.
func (f *File) span(n ast.Node) int { return f.line(n.End()) - f.line(n.Pos()) + 1 }

func (f *File) find(check string, at token.Pos, name, format string, args ...any) Finding {
	return Finding{check, f.Path, f.line(at), name, fmt.Sprintf(format, args...)}
}

// Read reads a tree. Directories that hold what was built or fetched are left out; Go files of
// nested modules and below testdata are read as text only.
func Read(root fs.FS) (*Tree, error) {
	t := &Tree{}
	var foreign []string
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(built(), d.Name()) {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(p, "go.mod")); (err == nil && p != ".") || d.Name() == "testdata" {
				foreign = append(foreign, p+"/")
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		return t.add(root, p, foreign)
	})
	return t, err
}

// built lists directories that hold nothing that a person wrote.
func built() []string {
	return []string{".git", ".squall", "bin", "node_modules", "__pycache__", ".venv", ".pytest_cache"}
}

func (t *Tree) add(root fs.FS, p string, foreign []string) error {
	content, err := fs.ReadFile(root, p)
	if err != nil {
		return err
	}
	if bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
		return nil
	}
	text := &Text{p, content}
	t.Text = append(t.Text, text)
	isForeign := slices.ContainsFunc(foreign, func(dir string) bool { return strings.HasPrefix(p, dir) })
	if path.Ext(p) != ".go" || isForeign {
		return nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, p, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("tidy: read: %w", err)
	}
	if !ast.IsGenerated(file) {
		t.Go = append(t.Go, &File{text, fset, file})
	}
	return nil
}

// Check is a rule: it returns the places that break it.
type Check struct {
	Name string
	Run  func(*Tree) []Finding
}

// Checks returns all rules.
func Checks() []Check {
	perFile := func(name string, run func(*File) []Finding) Check {
		return Check{name, func(t *Tree) []Finding {
			var all []Finding
			for _, f := range t.Go {
				all = append(all, run(f)...)
			}
			return all
		}}
	}
	return []Check{
		perFile("function-length", functionLength),
		perFile("complexity", complexity),
		perFile("file-length", fileLength),
		{"package-length", packageLength},
		perFile("type-size", typeSize),
		perFile("documented", documented),
		{"package-comment", packageComment},
		perFile("clock", clock),
		{"unsafe", unsafeFiles},
		perFile("no-init", noInit),
		perFile("no-variables", noVariables),
		perFile("layers", layers),
		{"architecture", architecture},
		perFile("comments", comments),
		{"places", places},
	}
}
