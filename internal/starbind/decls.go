package starbind

import (
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/library"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/static"
	"github.com/squallhq/squall/spec"
)

// declarations is what a spec has declared so far.
type declarations struct {
	source      string
	scenarios   []*scenario
	assumptions []*assumption
	matrices    []*matrix
	properties  oracle.Properties
	// later are checks and fillings that need all declarations.
	later []func()
	// assumes rule combinations of choices out; together has assumptions that are in force at once, by name.
	assumes  []*ruling
	together map[string]*assumption
}

func newDeclarations(source string) declarations { return declarations{source: source} }

// scenarioOf returns the scenario that a function, or a scenario value, stands for.
func (d *declarations) scenarioOf(v starlark.Value) *scenario {
	for _, s := range d.scenarios {
		if v == starlark.Value(s) || v == starlark.Value(s.fn) {
			return s
		}
	}
	return nil
}

// scenariosOf counts the scenarios with a body.
func (d *declarations) scenariosOf(fn starlark.Callable) int {
	n := 0
	for _, s := range d.scenarios {
		if s.fn == fn {
			n++
		}
	}
	return n
}

// finish settles what could not be settled before all was declared, and returns the suite.
func (ld *loader) finish() *spec.Suite {
	d := &ld.decls
	if ld.complete() {
		ld.topology.CheckReferences()
	}
	for _, fn := range d.later {
		fn()
	}
	ld.topology.Settle()
	if ld.complete() {
		ld.findChoices()
		ld.program().Lint(&env{loader: ld, when: bind.AtLoad})
	}
	if len(ld.reports) > 0 {
		return nil
	}
	return ld.suite()
}

// program is all code, for what is found out without running it.
func (ld *loader) program() *static.Program {
	p := &static.Program{Index: ld.index, Predeclared: ld.table.predeclared}
	p.Op = func(service, name string) []string { return opCallsNamed(ld.topology, service, name) }
	p.Reference = func(name string) starlark.Value {
		if s := ld.topology.Service(name); s != nil {
			return s
		}
		return nil
	}
	for _, f := range ld.sources {
		p.Modules = append(p.Modules, static.Module{File: f, Globals: ld.modules[f.Path].globals, Loaded: ld.loaded(f)})
	}
	return p
}

// loaded returns what a file's load statements bind.
func (ld *loader) loaded(f *source.File) starlark.StringDict {
	out := starlark.StringDict{}
	for _, stmt := range f.Tree.Stmts {
		l, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		target, err := ld.locate(f.Path, l.ModuleName())
		if m := ld.modules[target]; err == nil && m != nil {
			for i, to := range l.To {
				out[to.Name] = m.globals[l.From[i].Name]
			}
		}
	}
	return out
}

// suite puts together what was declared.
func (ld *loader) suite() *spec.Suite {
	d, program := &ld.decls, ld.program()
	suite := &spec.Suite{Source: d.source, Volumes: ld.topology.Volumes(), Determinism: ld.topology.Determinism()}
	for _, s := range slices.Concat(ld.sources, ld.data) {
		// The library comes with Squall itself.
		file := spec.File{Path: s.Path, Content: s.Content}
		known := slices.ContainsFunc(suite.Files, func(f spec.File) bool { return f.Path == s.Path })
		if !known && !strings.HasPrefix(s.Path, library.Prefix) {
			suite.Files = append(suite.Files, file)
		}
	}
	for _, s := range ld.topology.Services() {
		suite.Services = append(suite.Services, s.Decl)
	}
	for _, s := range d.scenarios {
		s.decl.Monitors, s.decl.Temporal = s.hooks.Settle()
		s.decl.MayInject = program.Reach(append([]starlark.Callable{s.fn}, s.expects...)...)
		suite.Scenarios = append(suite.Scenarios, s.decl)
	}
	for _, name := range slices.Sorted(maps.Keys(d.together)) {
		a := d.together[name]
		a.decl.Monitors, a.decl.Temporal = a.hooks.Settle()
		suite.Assumptions = append(suite.Assumptions, a.decl)
	}
	for _, a := range d.assumptions {
		a.decl.Monitors, a.decl.Temporal = a.hooks.Settle()
		suite.Assumptions = append(suite.Assumptions, a.decl)
	}
	for _, m := range d.matrices {
		m.decl.Monitors, m.decl.Temporal = m.hooks.Settle()
		suite.Matrices = append(suite.Matrices, m.decl)
	}
	suite.Monitors, suite.Temporal = d.properties.Everywhere()
	return suite
}

// complete reports whether every file ran to its end, so that what is missing is missing.
func (ld *loader) complete() bool {
	for _, m := range ld.modules {
		if m.err != nil {
			return false
		}
	}
	return true
}
