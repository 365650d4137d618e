package starbind

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/library"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/static"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// declarations is what a spec has declared so far.
type declarations struct {
	source      string
	services    []*service
	scenarios   []*scenario
	assumptions []*assumption
	matrices    []*matrix
	monitors    []*monitorValue
	temporal    []*temporalValue
	references  []*reference
	// later are checks and fillings that need all declarations.
	later []func()
	// places holds the placeholders for addresses that are not known yet.
	places []placeholder
	level  string
	// volumes are those of all services, by the place in the world.
	volumes []spec.Volume
	// assumes rule combinations of choices out; together has assumptions that are in force at once, by name.
	assumes  []*ruling
	together map[string]*assumption
}

// placeholder stands in a string for a part of an address.
type placeholder struct {
	ref         *reference
	iface, part string
}

func newDeclarations(source string) declarations { return declarations{source: source} }

// The brackets of a placeholder are characters that no address, path or flag has.
const (
	placeOpen  = "\u27e6squall:"
	placeClose = "\u27e7"
)

func (d *declarations) placeholder(r *reference, iface, part string) string {
	d.places = append(d.places, placeholder{r, iface, part})
	return placeOpen + strconv.Itoa(len(d.places)-1) + placeClose
}

// service returns a declared service.
func (d *declarations) service(name string) *service {
	for _, s := range d.services {
		if s.decl.Name == name {
			return s
		}
	}
	return nil
}

func (d *declarations) serviceNames() []string {
	var names []string
	for _, s := range d.services {
		names = append(names, s.decl.Name)
	}
	return names
}

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
	for _, r := range d.references {
		if d.service(r.name) == nil && len(ld.modules) > 0 && ld.complete() {
			ld.report(r.at, source.Nearest(r.name, d.serviceNames()), "ref: no service %q is declared", r.name)
		}
	}
	for _, fn := range d.later {
		fn()
	}
	for _, s := range d.services {
		ld.fillService(s)
	}
	ld.checkCycles()
	ld.checkVariables()
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
	p := &static.Program{Index: ld.index, Predeclared: ld.table.predeclared, Op: ld.decls.opCallsNamed}
	p.Reference = func(name string) starlark.Value {
		if s := ld.decls.service(name); s != nil {
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
	suite := &spec.Suite{Source: d.source, Volumes: d.volumes}
	for _, s := range slices.Concat(ld.sources, ld.data) {
		// The library comes with Squall itself.
		file := spec.File{Path: s.Path, Content: s.Content}
		known := slices.ContainsFunc(suite.Files, func(f spec.File) bool { return f.Path == s.Path })
		if !known && !strings.HasPrefix(s.Path, library.Prefix) {
			suite.Files = append(suite.Files, file)
		}
	}
	for _, s := range d.services {
		suite.Services = append(suite.Services, s.decl)
	}
	for _, s := range d.scenarios {
		s.decl.Monitors, s.decl.Temporal = s.hooks.settle()
		s.decl.MayInject = program.Reach(append([]starlark.Callable{s.fn}, s.expects...)...)
		suite.Scenarios = append(suite.Scenarios, s.decl)
	}
	for _, name := range slices.Sorted(maps.Keys(d.together)) {
		a := d.together[name]
		a.decl.Monitors, a.decl.Temporal = a.hooks.settle()
		suite.Assumptions = append(suite.Assumptions, a.decl)
	}
	for _, a := range d.assumptions {
		a.decl.Monitors, a.decl.Temporal = a.hooks.settle()
		suite.Assumptions = append(suite.Assumptions, a.decl)
	}
	for _, m := range d.matrices {
		m.decl.Monitors, m.decl.Temporal = m.hooks.settle()
		suite.Matrices = append(suite.Matrices, m.decl)
	}
	for _, m := range d.monitors {
		if !m.used {
			suite.Monitors = append(suite.Monitors, m.decl)
		}
	}
	for _, t := range d.temporal {
		if !t.used {
			suite.Temporal = append(suite.Temporal, t.decl)
		}
	}
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

// use marks the properties as scoped, so that they do not hold everywhere.
func (h hooks) use() hooks {
	for _, m := range h.monitors {
		m.used = true
	}
	for _, t := range h.temporal {
		t.used = true
	}
	return h
}

func (h hooks) settle() (monitors []*property.Monitor, temporal []*property.Temporal) {
	for _, m := range h.monitors {
		if !slices.Contains(monitors, m.decl) {
			monitors = append(monitors, m.decl)
		}
	}
	for _, t := range h.temporal {
		if !slices.Contains(temporal, t.decl) {
			temporal = append(temporal, t.decl)
		}
	}
	return monitors, temporal
}

// fillService puts addresses in the place of their placeholders.
func (ld *loader) fillService(s *service) {
	for i, a := range s.decl.Args {
		s.decl.Args[i] = ld.fill(a)
	}
	for k, v := range s.decl.Env {
		s.decl.Env[k] = ld.fill(v)
	}
	if s.decl.Health != nil {
		s.decl.Health.Address = ld.fill(s.decl.Health.Address)
	}
}

func (ld *loader) fill(text string) string {
	if !strings.Contains(text, placeOpen) {
		return text
	}
	return regexp.MustCompile(placeOpen+"([0-9]+)"+placeClose).ReplaceAllStringFunc(text, func(m string) string {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(m, placeOpen), placeClose))
		if err != nil || n >= len(ld.decls.places) {
			return m
		}
		return ld.fillPlace(ld.decls.places[n])
	})
}

func (ld *loader) fillPlace(p placeholder) string {
	s := ld.decls.service(p.ref.name)
	if s == nil {
		return "" // reported with the reference itself
	}
	var names []string
	for _, i := range s.ifaces {
		names = append(names, i.decl.Name)
		if i.decl.Name == p.iface || (p.iface == "" && len(s.ifaces) == 1) {
			part, ok := addressPart(p.part, i.decl)
			if !ok {
				ld.report(p.ref.at, "", "ref: %s", noPart(i.decl, p.part))
			}
			return part
		}
	}
	if p.iface == "" {
		ld.report(p.ref.at, "", "ref: service %q has %s; name the one whose %s is meant", p.ref.name, bind.Count(len(names), "interface"), p.part)
		return ""
	}
	ld.report(p.ref.at, source.Nearest(p.iface, names), "ref: service %q has no interface %q", p.ref.name, p.iface)
	return ""
}

// checkCycles reports services that wait for each other.
func (ld *loader) checkCycles() {
	const visiting, visited = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(s *service)
	visit = func(s *service) {
		state[s.decl.Name] = visiting
		path = append(path, s.decl.Name)
		for _, name := range s.decl.DependsOn {
			next := ld.decls.service(name)
			switch {
			case next == nil:
			case state[name] == visiting:
				from := slices.Index(path, name)
				ld.report(ld.spanAt(next.decl.Position), "", "service %q: depends_on goes in a circle: %s", name,
					strings.Join(append(slices.Clone(path[from:]), name), " -> "))
			case state[name] == 0:
				visit(next)
			}
		}
		path = path[:len(path)-1]
		state[s.decl.Name] = visited
	}
	for _, s := range ld.decls.services {
		if state[s.decl.Name] == 0 {
			visit(s)
		}
	}
}

// checkVariables reports interfaces whose addresses would stand in one variable.
func (ld *loader) checkVariables() {
	seen := map[string]*spec.Interface{}
	for _, s := range ld.decls.services {
		for _, i := range s.ifaces {
			name := s.decl.Variable(i.decl)
			if other := seen[name]; other != nil && other.Service != i.decl.Service {
				ld.report(ld.spanAt(s.decl.Position), "", "service %q: %s.%s and %s.%s would both be %sADDR in the environment; rename one",
					s.decl.Name, other.Service, other.Name, i.decl.Service, i.decl.Name, name)
			}
			seen[name] = i.decl
		}
	}
}

// spanAt finds the span of the call that begins at a recorded position.
func (ld *loader) spanAt(position string) source.Span {
	for _, call := range ld.index.Calls {
		if s := source.SpanOf(call.Fn); source.PlaceOf(s.Start).String() == position {
			return s
		}
	}
	return source.Span{}
}

// absolute resolves a path of a spec against the main file's directory.
func (ld *loader) absolute(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(ld.root, p)
}

// firstUse reports a name that is declared twice, and returns false.
func (c *call) firstUse(what, name, before string) bool {
	if before == "" {
		return true
	}
	c.Errorf(c.Site.At(c.Site.ValueExpr("name", 0)), "", "%s is declared twice; the first is at %s", fmt.Sprintf("%s %q", what, name), before)
	return false
}
