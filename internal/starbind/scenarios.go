package starbind

import (
	"fmt"
	"slices"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/spec"
)

// matrix is a declared matrix.
type matrix struct {
	decl  *spec.Matrix
	hooks oracle.Hooks
}

// scenarioEntries are the builtins that say what is tried.
func scenarioEntries() []entry {
	monitors := param{Name: "monitors", Kind: bind.List(oracle.MonitorKind()), Doc: "monitors that hold in its leaves"}
	properties := param{Name: "properties", Kind: bind.List(oracle.TemporalKind()), Doc: "temporal properties that hold in its leaves"}
	return []entry{
		{
			Name: "scenario", Phases: bind.AtLoad,
			Doc:     "declares a flow to try: a function without parameters, whose result the expectation judges. It runs once with no fault, as a baseline, and in the matrices that name it.",
			Example: "def create_order():\n    return api.http.post(path = \"/orders\", body = '{\"item\":\"widget\"}')\n\nscenario(create_order, expect = lambda r: r.status == 201)",
			Params: []param{
				{Name: "fn", Kind: bind.Function(0), Required: true, Doc: "the body"},
				{Name: "name", Kind: bind.Name(), Preset: "the function's name", Doc: "its name, a row of the matrix"},
				{Name: "timeout", Kind: bind.Duration(), Preset: `"30s"`, Doc: "how long the body may take"},
				{Name: "expect", Kind: bind.Function(1), Preset: "it returns", Doc: "judges the result where no matrix does: returns False, or asserts"},
				monitors, properties,
			},
			Do: do(declareScenario),
		},
		{
			Name: "fault_matrix", Phases: bind.AtLoad,
			Doc:     "crosses scenarios with assumptions: one cell for each pair.",
			Example: "fault_matrix(\n    scenarios = [create_order],\n    faults = [db_down, disk_full],\n    default_expect = lambda r: assert_true(r.status >= 500),\n    overrides = {(create_order, db_down): lambda r: assert_eq(r.status, 503)},\n)",
			Params: []param{
				{Name: "scenarios", Kind: bind.List(aScenario()), Required: true, Doc: "scenarios, or the functions that they were declared with"},
				{Name: "faults", Kind: bind.List(aFaultSet()), Required: true, Doc: "assumptions; a tuple or list of some is one column, in which they are in force together"},
				{Name: "default_expect", Kind: bind.Function(1), Preset: "the scenario returns", Doc: "judges the results of cells without an override"},
				{Name: "overrides", Kind: aCellDict(), Doc: "{(scenario, fault): function}"},
				{Name: "exclude", Kind: bind.List(aCell()), Doc: "pairs (scenario, fault) to leave out"},
				{Name: "require_faults_fire", Kind: bind.Bool(), Preset: "True", Doc: "a cell whose faults never fire is INCONCLUSIVE; False lets it pass"},
				monitors, properties,
			},
			Do: do(declareMatrix),
		},
	}
}

// cell is a pair in a matrix, with its place in the text.
type cell struct {
	scenario starlark.Value
	fault    *assumption
	expect   starlark.Callable
	at       source.Span
}

func aScenario() kind {
	return kindOf("a scenario or its function", func(c *call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		switch v.(type) {
		case *scenario, *starlark.Function:
			return cell{scenario: v, at: at}, true
		}
		return nil, false
	})
}

func aCell() kind {
	return kindOf("a pair (scenario, fault)", func(c *call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		pair, ok := v.(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return nil, false
		}
		for _, part := range pair {
			if _, poisoned := part.(bind.Broken); poisoned {
				c.Bad = true
				return nil, false
			}
		}
		a, ok := c.faultSet(pair[1], at)
		return cell{scenario: pair[0], fault: a, at: at}, ok
	})
}

func aCellDict() kind {
	return kindOf("a dict {(scenario, fault): function}", func(c *call, v starlark.Value, _ source.Span, e syntax.Expr) (any, bool) {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, false
		}
		var list []any
		for i, item := range d.Items() {
			key, value := source.Element(e, i, d.Len()), syntax.Expr(nil)
			if entry, ok := key.(*syntax.DictEntry); ok {
				key, value = entry.Key, entry.Value
			}
			k, ok1 := c.Convert(aCell(), "each key", item[0], key)
			fn, ok2 := c.Convert(bind.Function(1), "each value", item[1], value)
			if ok1 && ok2 {
				one := k.(cell)
				one.expect = fn.(starlark.Callable)
				list = append(list, one)
			}
		}
		return list, true
	})
}

func declareScenario(c *call) (starlark.Value, error) {
	ld := c.env.loader
	fn := arg[starlark.Callable](c, "fn")
	if fn == nil {
		fn = arg[starlark.Callable](c, "body")
	}
	name := orElse(arg[string](c, "name"), fn.Name())
	if !bind.Word(name, "_") || name == "lambda" {
		c.Errorf(c.Where("fn"), "", "a %s needs name=", fn.Name())
		return nil, nil
	}
	decl := &spec.Scenario{Name: name, Timeout: arg[time.Duration](c, "timeout"), Position: c.Site.Start().String()}
	if f, ok := fn.(*starlark.Function); ok {
		decl.Doc = f.Doc()
	}
	for _, other := range ld.decls.scenarios {
		if other.decl.Name == name {
			c.FirstUse("scenario", name, other.decl.Position)
			return other, nil
		}
	}
	until := c.testParts(decl)
	if expect := arg[starlark.Callable](c, "expect"); expect != nil {
		decl.Expect = ld.expectOf(expect, source.PlaceOf(c.Where("expect").Start).String())
	}
	s := &scenario{
		opaque: named("scenario", fmt.Sprintf("scenario(%q)", name)), decl: decl, fn: fn,
		hooks: oracle.HooksOf(c.Call), at: c.Site.Span(), setup: arg[starlark.Callable](c, "setup"),
	}
	s.judged(arg[starlark.Callable](c, "expect"))
	for _, fn := range argList[starlark.Callable](c, "assume") {
		s.judged(fn)
	}
	if until != nil {
		s.hooks.AddTemporal(until)
	}
	ld.decls.scenarios = append(ld.decls.scenarios, s)
	return s, nil
}

// judged notes a function that judges results of the scenario: it may inject too.
func (s *scenario) judged(fn starlark.Callable) {
	if fn != nil {
		s.expects = append(s.expects, fn)
	}
}

func declareMatrix(c *call) (starlark.Value, error) {
	ld := c.env.loader
	m := &matrix{decl: &spec.Matrix{
		Overrides: map[spec.CellKey]spec.Expect{}, Exclude: map[spec.CellKey]bool{}, Position: c.Site.Start().String(),
	}, hooks: oracle.HooksOf(c.Call)}
	m.decl.FaultsMayRest = c.Has("require_faults_fire") && !arg[bool](c, "require_faults_fire")
	if fn := arg[starlark.Callable](c, "default_expect"); fn != nil {
		m.decl.Default = ld.expectOf(fn, source.PlaceOf(c.Where("default_expect").Start).String())
	}
	for _, a := range argList[*assumption](c, "faults") {
		if slices.Contains(m.decl.Assumptions, a.decl) {
			c.Errorf(c.Where("faults"), "", "fault %q is named twice", a.decl.Name)
			continue
		}
		m.decl.Assumptions = append(m.decl.Assumptions, a.decl)
	}
	for _, name := range []string{"scenarios", "faults"} {
		if list, ok := c.Args[name].([]any); ok && len(list) == 0 && !c.Bad {
			c.Errorf(c.Where(name), "", "%s is empty, so there is no cell", name)
		}
	}
	// A scenario may be declared after the matrix that names it.
	ld.decls.later = append(ld.decls.later, func() { c.matrixCells(m) })
	ld.decls.matrices = append(ld.decls.matrices, m)
	return starlark.None, nil
}

func (c *call) matrixCells(m *matrix) {
	for _, given := range argList[cell](c, "scenarios") {
		s := c.cellScenario(given)
		switch {
		case s == nil:
		case slices.Contains(m.decl.Scenarios, s.decl):
			c.Errorf(given.at, "", "scenario %q is named twice", s.decl.Name)
		default:
			m.decl.Scenarios = append(m.decl.Scenarios, s.decl)
			s.judged(arg[starlark.Callable](c, "default_expect"))
		}
	}
	for _, given := range argList[cell](c, "overrides") {
		if key, ok := c.cellKey(m, given); ok {
			c.cellScenario(given).judged(given.expect)
			m.decl.Overrides[key] = c.env.loader.expectOf(given.expect, source.PlaceOf(given.at.Start).String())
		}
	}
	for _, given := range argList[cell](c, "exclude") {
		if key, ok := c.cellKey(m, given); ok {
			m.decl.Exclude[key] = true
		}
	}
}

func (c *call) cellScenario(given cell) *scenario {
	if fn, ok := given.scenario.(*starlark.Function); ok && c.env.loader.decls.scenariosOf(fn) > 1 {
		c.Errorf(given.at, "", "%s is the body of several scenarios; name one by what test() or scenario() returned", fn.Name())
	}
	s := c.env.loader.decls.scenarioOf(given.scenario)
	if s != nil || !c.env.loader.complete() {
		return s
	}
	if fn, ok := given.scenario.(*starlark.Function); ok {
		c.Errorf(given.at, "", "%s is not a scenario; declare it with scenario(%s)", fn.Name(), fn.Name())
	} else {
		c.Errorf(given.at, "", "%s is not a scenario", bind.Describe(given.scenario))
	}
	return nil
}

func (c *call) cellKey(m *matrix, given cell) (spec.CellKey, bool) {
	s := c.cellScenario(given)
	if s == nil {
		return spec.CellKey{}, false
	}
	key := spec.CellKey{Scenario: s.decl.Name, Assumption: given.fault.decl.Name}
	if !slices.Contains(m.decl.Scenarios, s.decl) || !slices.Contains(m.decl.Assumptions, given.fault.decl) {
		if !c.Bad {
			c.Errorf(given.at, "", "(%s, %s) is not a cell of this matrix", key.Scenario, key.Assumption)
		}
		return key, false
	}
	return key, true
}
