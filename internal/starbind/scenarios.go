package starbind

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/spec"
)

// matrix is a declared matrix.
type matrix struct {
	decl  *spec.Matrix
	hooks hooks
}

// scenarioEntries are the builtins that say what is tried.
func scenarioEntries() []entry {
	monitors := param{name: "monitors", kind: listOf(aMonitor()), doc: "monitors that hold in its leaves"}
	properties := param{name: "properties", kind: listOf(aTemporal()), doc: "temporal properties that hold in its leaves"}
	return []entry{
		{
			name: "scenario", phases: atLoad,
			doc:     "declares a flow to try: a function without parameters, whose result the expectation judges. It runs once with no fault, as a baseline, and in the matrices that name it.",
			example: "def create_order():\n    return api.http.post(path = \"/orders\", body = '{\"item\":\"widget\"}')\n\nscenario(create_order, expect = lambda r: r.status == 201)",
			params: []param{
				{name: "fn", kind: aFunction(0), required: true, doc: "the body"},
				{name: "name", kind: aName(), preset: "the function's name", doc: "its name, a row of the matrix"},
				{name: "timeout", kind: aDuration(), preset: `"30s"`, doc: "how long the body may take"},
				{name: "expect", kind: aFunction(1), preset: "it returns", doc: "judges the result where no matrix does: returns False, or asserts"},
				monitors, properties,
			},
			do: declareScenario,
		},
		{
			name: "fault_matrix", phases: atLoad,
			doc:     "crosses scenarios with assumptions: one cell for each pair.",
			example: "fault_matrix(\n    scenarios = [create_order],\n    faults = [db_down, disk_full],\n    default_expect = lambda r: assert_true(r.status >= 500),\n    overrides = {(create_order, db_down): lambda r: assert_eq(r.status, 503)},\n)",
			params: []param{
				{name: "scenarios", kind: listOf(aScenario()), required: true, doc: "scenarios, or the functions that they were declared with"},
				{name: "faults", kind: listOf(anAssumption()), required: true, doc: "assumptions"},
				{name: "default_expect", kind: aFunction(1), preset: "the scenario returns", doc: "judges the results of cells without an override"},
				{name: "overrides", kind: aCellDict(), doc: "{(scenario, fault): function}"},
				{name: "exclude", kind: listOf(aCell()), doc: "pairs (scenario, fault) to leave out"},
				monitors, properties,
			},
			do: declareMatrix,
		},
	}
}

// cell is a pair in a matrix, with its place in the text.
type cell struct {
	scenario starlark.Value
	fault    *assumption
	expect   starlark.Callable
	at       span
}

func aScenario() kind {
	return kind{"a scenario or its function", func(c *call, v starlark.Value, at span, _ syntax.Expr) (any, bool) {
		switch v.(type) {
		case *scenario, *starlark.Function:
			return cell{scenario: v, at: at}, true
		}
		return nil, false
	}}
}

func aCell() kind {
	return kind{"a pair (scenario, fault)", func(c *call, v starlark.Value, at span, _ syntax.Expr) (any, bool) {
		pair, ok := v.(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return nil, false
		}
		for _, part := range pair {
			if _, poisoned := part.(broken); poisoned {
				c.bad = true
				return nil, false
			}
		}
		a, ok := pair[1].(*assumption)
		return cell{scenario: pair[0], fault: a, at: at}, ok
	}}
}

func aCellDict() kind {
	return kind{"a dict {(scenario, fault): function}", func(c *call, v starlark.Value, _ span, e syntax.Expr) (any, bool) {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, false
		}
		var list []any
		for i, item := range d.Items() {
			key, value := element(e, i, d.Len()), syntax.Expr(nil)
			if entry, ok := key.(*syntax.DictEntry); ok {
				key, value = entry.Key, entry.Value
			}
			k, ok1 := c.convert(aCell(), "each key", item[0], key)
			fn, ok2 := c.convert(aFunction(1), "each value", item[1], value)
			if ok1 && ok2 {
				one := k.(cell)
				one.expect = fn.(starlark.Callable)
				list = append(list, one)
			}
		}
		return list, true
	}}
}

func declareScenario(c *call) (starlark.Value, error) {
	ld := c.env.loader
	fn := arg[starlark.Callable](c, "fn")
	name := orElse(arg[string](c, "name"), fn.Name())
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`).MatchString(name) || name == "lambda" {
		c.errorf(c.where("fn"), "", "a %s needs name=", fn.Name())
		return nil, nil
	}
	decl := &spec.Scenario{Name: name, Timeout: arg[time.Duration](c, "timeout"), Position: c.site.start().String()}
	if f, ok := fn.(*starlark.Function); ok {
		decl.Doc = f.Doc()
	}
	for _, other := range ld.decls.scenarios {
		if other.decl.Name == name {
			c.firstUse("scenario", name, other.decl.Position)
			return other, nil
		}
	}
	decl.Body = ld.bodyOf(name, fn)
	if expect := arg[starlark.Callable](c, "expect"); expect != nil {
		decl.Expect = ld.expectOf(expect, placeOf(c.where("expect").start).String())
	}
	s := &scenario{
		opaque: opaque{"scenario", fmt.Sprintf("scenario(%q)", name)}, decl: decl, fn: fn,
		hooks: c.hooks(), at: c.site.span(),
	}
	s.judged(arg[starlark.Callable](c, "expect"))
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
		Overrides: map[spec.CellKey]spec.Expect{}, Exclude: map[spec.CellKey]bool{}, Position: c.site.start().String(),
	}, hooks: c.hooks()}
	if fn := arg[starlark.Callable](c, "default_expect"); fn != nil {
		m.decl.Default = ld.expectOf(fn, placeOf(c.where("default_expect").start).String())
	}
	for _, a := range argList[*assumption](c, "faults") {
		if slices.Contains(m.decl.Assumptions, a.decl) {
			c.errorf(c.where("faults"), "", "fault %q is named twice", a.decl.Name)
			continue
		}
		m.decl.Assumptions = append(m.decl.Assumptions, a.decl)
	}
	for _, name := range []string{"scenarios", "faults"} {
		if list, ok := c.args[name].([]any); ok && len(list) == 0 && !c.bad {
			c.errorf(c.where(name), "", "%s is empty, so there is no cell", name)
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
			c.errorf(given.at, "", "scenario %q is named twice", s.decl.Name)
		default:
			m.decl.Scenarios = append(m.decl.Scenarios, s.decl)
			s.judged(arg[starlark.Callable](c, "default_expect"))
		}
	}
	for _, given := range argList[cell](c, "overrides") {
		if key, ok := c.cellKey(m, given); ok {
			c.cellScenario(given).judged(given.expect)
			m.decl.Overrides[key] = c.env.loader.expectOf(given.expect, placeOf(given.at.start).String())
		}
	}
	for _, given := range argList[cell](c, "exclude") {
		if key, ok := c.cellKey(m, given); ok {
			m.decl.Exclude[key] = true
		}
	}
}

func (c *call) cellScenario(given cell) *scenario {
	s := c.env.loader.decls.scenarioOf(given.scenario)
	if s != nil || !c.env.loader.complete() {
		return s
	}
	if fn, ok := given.scenario.(*starlark.Function); ok {
		c.errorf(given.at, "", "%s is not a scenario; declare it with scenario(%s)", fn.Name(), fn.Name())
	} else {
		c.errorf(given.at, "", "%s is not a scenario", describe(given.scenario))
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
		if !c.bad {
			c.errorf(given.at, "", "(%s, %s) is not a cell of this matrix", key.Scenario, key.Assumption)
		}
		return key, false
	}
	return key, true
}
