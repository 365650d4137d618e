package starbind

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/spec"
)

// cellEntries are the builtins that put faults together.
func cellEntries() []entry {
	return []entry{
		{
			Name: "fault_scenario", Phases: bind.AtLoad,
			Doc: "declares one cell: a scenario under faults that are in force together, with an expectation of its own. Each fault must fire, unless it is optional; " +
				"ending one never ends another.",
			Example: "fault_scenario(\"slow_and_full\", scenario = create_order, faults = [slow_disk, disk_full],\n    expect = lambda r: assert_eq(r.status, 503), timeout = \"10s\")",
			Params: []param{
				{Name: "name", Kind: bind.Name(), Required: true, Doc: "its name, a column of the matrix"},
				{Name: "scenario", Kind: aScenario(), Required: true, Doc: "the scenario, or the function that it was declared with"},
				{Name: "faults", Kind: aFaults(), Required: true, Doc: "an assumption, or a list of them"},
				{Name: "expect", Kind: bind.Function(1), Preset: "the scenario's", Doc: "judges the result: returns False, or asserts"},
				{Name: "monitors", Kind: bind.List(oracle.MonitorKind()), Doc: "monitors that hold in its leaves"},
				{Name: "properties", Kind: bind.List(oracle.TemporalKind()), Doc: "temporal properties that hold in its leaves"},
				{Name: "timeout", Kind: bind.Duration(), Preset: "the scenario's", Doc: "how long the body may take"},
				{Name: "require_faults_fire", Kind: bind.Bool(), Preset: "True", Doc: "it is INCONCLUSIVE where a fault never fires; False lets it pass"},
			},
			Do: do(declareCell),
		},
	}
}

// aFaultSet is an assumption, or some that are in force together.
func aFaultSet() kind {
	return kindOf("a fault_assumption, or a tuple of them", func(c *call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		return c.faultSet(v, at)
	})
}

// aFaults is an assumption or a list of them, which stay single.
func aFaults() kind {
	return kindOf("a fault_assumption, or a list of them", func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		if a, single := v.(*assumption); single {
			return []any{a}, true
		}
		return bind.List(anAssumption()).Convert(c.Call, v, at, e)
	})
}

func (c *call) faultSet(v starlark.Value, at source.Span) (*assumption, bool) {
	if a, single := v.(*assumption); single {
		return a, true
	}
	seq, ok := v.(starlark.Sequence)
	if _, dict := v.(*starlark.Dict); dict || !ok || seq.Len() == 0 {
		return nil, false
	}
	var parts []*assumption
	for item := range starlark.Elements(seq) {
		if _, broken := item.(bind.Broken); broken {
			c.Bad = true
		}
		part, ok := item.(*assumption)
		if !ok {
			return nil, false
		}
		if slices.Contains(parts, part) {
			c.Errorf(at, "", "fault %q is named twice", part.decl.Name)
			return nil, false
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		return parts[0], true
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.decl.Name)
	}
	return c.env.loader.together(strings.Join(names, "+"), parts, c.Site.Start().String()), true
}

// together returns the assumption that puts several in force at once. Their rules keep their names and owners, so
// that each is told apart, and lifted, on its own.
func (ld *loader) together(name string, parts []*assumption, position string) *assumption {
	if known := ld.decls.together[name]; known != nil {
		return known
	}
	a := &assumption{
		opaque: named("fault_assumption", fmt.Sprintf("faults %s together", name)),
		decl:   &spec.Assumption{Name: name, Position: position},
	}
	for _, p := range parts {
		a.decl.Parts = append(a.decl.Parts, p.decl)
		a.decl.Rules = append(a.decl.Rules, p.decl.Rules...)
		a.hooks.Add(p.hooks)
	}
	if ld.decls.together == nil {
		ld.decls.together = map[string]*assumption{}
	}
	ld.decls.together[name] = a
	return a
}

func declareCell(c *call) (starlark.Value, error) {
	ld := c.env.loader
	name, parts := arg[string](c, "name"), argList[*assumption](c, "faults")
	if len(parts) == 0 {
		if !c.Bad {
			c.Errorf(c.Where("faults"), "", "faults is empty; what runs without a fault is the scenario itself")
		}
		return starlark.None, nil
	}
	for i, p := range parts {
		if slices.Contains(parts[:i], p) {
			c.Errorf(c.Where("faults"), "", "fault %q is named twice", p.decl.Name)
			return starlark.None, nil
		}
	}
	for _, other := range ld.decls.assumptions {
		if other.decl.Name == name {
			c.FirstUse("fault_assumption", name, other.decl.Position)
			return starlark.None, nil
		}
	}
	if other := ld.decls.together[name]; other != nil {
		c.FirstUse("fault_scenario", name, other.decl.Position)
		return starlark.None, nil
	}
	a := ld.together(name, parts, c.Site.Start().String())
	m := &matrix{decl: &spec.Matrix{
		Assumptions: []*spec.Assumption{a.decl}, Overrides: map[spec.CellKey]spec.Expect{}, Exclude: map[spec.CellKey]bool{},
		Timeout: arg[time.Duration](c, "timeout"), Position: c.Site.Start().String(),
		FaultsMayRest: c.Has("require_faults_fire") && !arg[bool](c, "require_faults_fire"),
	}, hooks: oracle.HooksOf(c.Call)}
	ld.decls.later = append(ld.decls.later, func() {
		s := c.cellScenario(arg[cell](c, "scenario"))
		if s == nil {
			return
		}
		m.decl.Scenarios = []*spec.Scenario{s.decl}
		if fn := arg[starlark.Callable](c, "expect"); fn != nil {
			s.judged(fn)
			key := spec.CellKey{Scenario: s.decl.Name, Assumption: name}
			m.decl.Overrides[key] = ld.expectOf(fn, source.PlaceOf(c.Where("expect").Start).String())
		}
	})
	ld.decls.matrices = append(ld.decls.matrices, m)
	return starlark.None, nil
}
