// Package starbind reads specs written in Starlark into a spec.Suite.
//
// It is the only package that knows Starlark. Every builtin is one entry of a table (entries.go);
// binding, messages with the nearest name and the reference page come from it. Files are executed
// once; then names are resolved that were used before they were declared, everything
// reachable from a scenario's body is walked to find what it may inject, and
// calls in bodies are checked as far as they can be known (static). Bodies run later, each on a
// thread of its own, against a spec.World (body.go); what judges a run is in oracle.
package starbind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/library"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Loader reads specs. It implements spec.Loader.
type Loader struct {
	// Protocols are those that an interface may name.
	Protocols []protocol.Info
	// Print receives what print() says at the top level of a spec; nil means standard error.
	Print func(position, message string)
	// MaxSteps bounds the work of each file's top level, and of each call of a property; 0 means 50 million steps.
	MaxSteps uint64
}

var _ spec.Loader = Loader{}

const (
	defaultMaxSteps = 50_000_000
	maxFileSize     = 8 << 20
)

// Load reads the spec in the file at path and the files that it loads. What is wrong with them
// comes back as an *Errors that lists as much as could be found in one go.
func (l Loader) Load(ctx context.Context, path string) (*spec.Suite, error) {
	ld, err := newLoader(l, path)
	if err != nil {
		return nil, err
	}
	if _, err := ld.module(ctx, filepath.Base(path)); err != nil && !errors.Is(err, errReported) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("starbind: load %s: %w", path, context.Cause(ctx))
		}
		return nil, fmt.Errorf("starbind: load: %w", err)
	}
	suite := ld.finish()
	if len(ld.reports) > 0 {
		main := ld.display(filepath.Base(path))
		return nil, &Errors{List: source.Sorted(ld.reports, func(file string) int {
			if file == main {
				return 0
			}
			return 1
		})}
	}
	return suite, nil
}

// loader is one load on its way, and afterwards what bodies need of it.
type loader struct {
	Loader
	oracle.Methods
	// dir is the main file's directory as the user named it; root is the same, absolute and without
	// symbolic links.
	dir, root string
	protocols map[string]protocol.Info
	table     *table
	index     *source.Index
	sources   []*source.File
	modules   map[string]*module
	reports   []Diagnostic
	decls     declarations
	topology  *topology.Topology
	// data are files that are no specs: what load_file and its like have read.
	data []*source.File
}

// module is a file that was executed, or is being executed.
type module struct {
	file    *source.File
	globals starlark.StringDict
	err     error
	done    bool
}

// errReported says that a report has been made already.
var errReported = errors.New("reported")

func newLoader(l Loader, path string) (*loader, error) {
	dir := filepath.Dir(path)
	root, err := filepath.Abs(dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, fmt.Errorf("starbind: load: %w", err)
	}
	ld := &loader{
		Loader: l, Methods: oracle.NewMethods(), dir: dir, root: root, index: source.NewIndex(),
		protocols: map[string]protocol.Info{}, modules: map[string]*module{}, decls: newDeclarations(path),
	}
	for _, p := range l.Protocols {
		ld.protocols[p.Name] = p
	}
	ld.topology = &topology.Topology{Root: root, Protocols: ld.protocols, Index: ld.index, Report: ld.report, Body: ld.bodyOf}
	ld.table = newTable(ld)
	return ld, nil
}

// display is a path of the spec as the user would name it.
func (ld *loader) display(rel string) string {
	if strings.HasPrefix(rel, library.Prefix) {
		return rel
	}
	return filepath.Join(ld.dir, rel)
}

// Diagnostic makes a diagnostic with the line of the source.
func (ld *loader) Diagnostic(at source.Span, near, message string) Diagnostic {
	d := Diagnostic{
		File: ld.display(at.Start.Filename()), Line: int(at.Start.Line), Col: int(at.Start.Col),
		EndCol: int(at.End.Col), Message: message, Nearest: near,
	}
	if m := ld.modules[at.Start.Filename()]; m != nil && m.file != nil && d.Line >= 1 && d.Line <= len(m.file.Lines) {
		d.Text = m.file.Lines[d.Line-1]
	}
	if at.End.Line != at.Start.Line {
		d.EndCol = len([]rune(d.Text)) + 1
	}
	d.EndCol = max(d.EndCol, d.Col+1)
	return d
}

func (ld *loader) report(at source.Span, near, format string, args ...any) {
	ld.reports = append(ld.reports, ld.Diagnostic(at, near, fmt.Sprintf(format, args...)))
}

// module executes the file at rel, a path relative to root, or returns what it was executed to.
func (ld *loader) module(ctx context.Context, rel string) (starlark.StringDict, error) {
	if m := ld.modules[rel]; m != nil {
		if !m.done {
			return nil, fmt.Errorf("cycle: %s is being loaded already", rel)
		}
		return m.globals, m.err
	}
	m := &module{}
	ld.modules[rel] = m
	m.globals, m.err = ld.execute(ctx, m, rel)
	m.done = true
	return m.globals, m.err
}

func (ld *loader) execute(ctx context.Context, m *module, rel string) (starlark.StringDict, error) {
	content, err := ld.read(rel)
	if err != nil {
		return nil, err
	}
	m.file = &source.File{Path: rel, Content: content, Lines: source.SplitLines(content)}
	ld.sources = append(ld.sources, m.file)
	tree, err := parseOptions().Parse(rel, content, 0)
	if err != nil {
		return nil, ld.reportStatic(err)
	}
	m.file.Tree = tree
	program, err := starlark.FileProgram(tree, ld.table.predeclared.Has)
	if err != nil {
		return nil, ld.reportStatic(err)
	}
	ld.index.Add(tree)
	thread := ld.thread(ctx, rel)
	stop := context.AfterFunc(ctx, func() { thread.Cancel("interrupted") })
	defer stop()
	globals, err := program.Init(thread, ld.table.predeclared)
	globals.Freeze()
	if err != nil && ctx.Err() == nil {
		return globals, ld.reportEval(err)
	}
	return globals, err
}

// steps bounds the work of the top level, and of each call of a property.
func (ld *loader) steps() uint64 {
	if ld.MaxSteps == 0 {
		return defaultMaxSteps
	}
	return ld.MaxSteps
}

// parseOptions is the dialect.
func parseOptions() *syntax.FileOptions {
	return &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}
}

// thread makes the thread on which the top level of a file runs.
func (ld *loader) thread(ctx context.Context, rel string) *starlark.Thread {
	thread := &starlark.Thread{Name: rel}
	thread.Print = func(t *starlark.Thread, msg string) {
		pos := t.CallFrame(1).Pos
		if ld.Print != nil {
			ld.Print(source.PlaceOf(pos).String(), msg)
			return
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", source.PlaceOf(pos), msg)
	}
	thread.Load = func(_ *starlark.Thread, name string) (starlark.StringDict, error) {
		target, err := ld.locate(rel, name)
		if err != nil {
			return nil, err
		}
		return ld.module(ctx, target)
	}
	steps := ld.steps()
	thread.SetMaxExecutionSteps(steps)
	thread.OnMaxSteps = func(t *starlark.Thread) {
		t.Cancel(fmt.Sprintf("stopped after %d steps: the top level does not come to an end here", steps))
	}
	bind.Attach(thread, &env{loader: ld, when: bind.AtLoad, ctx: ctx})
	return thread
}

// locate turns a name in load() into a path relative to root.
func (ld *loader) locate(from, name string) (string, error) {
	if strings.HasPrefix(name, "@") {
		if !strings.HasPrefix(name, library.Prefix) {
			return "", fmt.Errorf("%q: names with @ begin with %s", name, library.Prefix)
		}
		return name, nil
	}
	if strings.Contains(name, "://") {
		return "", fmt.Errorf("%q: files are read from this machine only", name)
	}
	if path.IsAbs(name) {
		return "", fmt.Errorf("%q: the path must be relative to this file", name)
	}
	rel := path.Join(path.Dir(from), name)
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("%q is outside the directory of the main file", name)
	}
	return rel, nil
}

func (ld *loader) read(rel string) ([]byte, error) {
	if strings.HasPrefix(rel, library.Prefix) {
		return library.Read(rel)
	}
	full, err := filepath.EvalSymlinks(filepath.Join(ld.root, rel))
	if err != nil {
		return nil, bare(err)
	}
	if inside, err := filepath.Rel(ld.root, full); err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
		return nil, fmt.Errorf("%s leads outside the directory of the main file", rel)
	}
	info, err := os.Stat(full)
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", rel)
	}
	if info.Size() > maxFileSize {
		return nil, fmt.Errorf("%s has %d bytes; the limit is %d", rel, info.Size(), maxFileSize)
	}
	content, err := os.ReadFile(full)
	return content, bare(err)
}

// bare takes the machine's own paths out of an error.
func bare(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", filepath.Base(pe.Path), pe.Err)
	}
	return err
}

// reportStatic reports what the parser or the resolver found.
func (ld *loader) reportStatic(err error) error {
	var list resolve.ErrorList
	var se syntax.Error
	switch {
	case errors.As(err, &list):
		for _, e := range list {
			ld.reportUndefined(e)
		}
	case errors.As(err, &se):
		ld.report(source.At(se.Pos), "", "%s", se.Msg)
	default:
		return err
	}
	return errReported
}

func (ld *loader) reportUndefined(e resolve.Error) {
	message, hint, _ := strings.Cut(e.Msg, " (did you mean ")
	near := strings.TrimSuffix(hint, "?)")
	end := e.Pos
	if name, ok := strings.CutPrefix(message, "undefined: "); ok {
		if near == "" {
			near = source.Nearest(name, append(ld.table.predeclared.Keys(), starlark.Universe.Keys()...))
		}
		end.Col += int32(len([]rune(name)))
	}
	ld.report(source.Span{Start: e.Pos, End: end}, near, "%s", message)
}

// reportEval reports an error that ended the execution of a file.
func (ld *loader) reportEval(err error) error {
	if errors.Is(err, errReported) {
		return errReported
	}
	se := ld.scriptError(err)
	ld.reports = append(ld.reports, se.Diagnostic)
	return errReported
}
