package starbind

import (
	"context"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// testEntries are the builtins that declare scenarios with all that belongs to them.
func testEntries() []entry {
	return []entry{
		{
			Name: "test", Phases: bind.AtLoad,
			Doc: "declares a scenario with more to it than a body. It is a scenario in every other respect: it runs without a fault, and in the matrices that name it. " +
				"The setup runs in a phase of its own, before any fault is in force; where it does not come to its end, the leaf is INCONCLUSIVE (setup-failed). " +
				"Where terminate_when becomes true, the body ends there as if it had returned, without a result: the properties are judged, expect is not asked. If it calls fail() or a false assertion, the leaf fails.",
			Example: "def fill():\n    return db.query(sql = \"insert into items values (1)\")\n\ndef order(filled):\n    assert_true(filled.ok)\n    return api.post(path = \"/orders\", body = {\"item\": 1})\n\ntest(\"order\", order, setup = fill, expect = expect_success(), timeout = \"10s\",\n    terminate_when = lambda trace: trace.count(type = \"stdout\", status = \"confirmed\") > 0)",
			Params: []param{
				{Name: "name", Kind: bind.Name(), Required: true, Doc: "its name, a row of the matrix"},
				{Name: "body", Kind: aBody(), Required: true, Doc: "a function without parameters or, where there is a setup, of what that returned"},
				{Name: "setup", Kind: bind.Function(0), Doc: "runs before it, without a fault; it has the same time as the body and may not inject faults"},
				{Name: "expect", Kind: bind.Function(1), Preset: "it returns", Doc: "judges the result where no matrix does: returns False, or asserts"},
				{Name: "timeout", Kind: bind.Duration(), Preset: `"30s"`, Doc: "how long the body may take"},
				{Name: "terminate_when", Kind: oracle.TracePredicate(), Doc: "ends the body where it becomes true: a matcher or dict for the newest event, or a function of the trace that returns True or False"},
				{Name: "assume", Kind: bind.List(bind.Function(0)), Doc: "functions that the body begins with; where one returns False, the leaf has nothing to say (halted)"},
				{Name: "monitors", Kind: bind.List(oracle.MonitorKind()), Doc: "monitors that hold in its leaves"},
				{Name: "properties", Kind: bind.List(oracle.TemporalKind()), Doc: "temporal properties that hold in its leaves"},
			},
			Do: do(declareScenario),
		},
	}
}

// checkedBody is bodyOf for what is judged.
func (ld *loader) checkedBody(name string, fn starlark.Callable) spec.Body {
	body := ld.bodyOf(name, fn)
	return func(ctx context.Context, w spec.World) (any, error) {
		ld.bodyChecks(w, fn)
		return body(ctx, w)
	}
}

// aBody is a function of nothing, or of what the setup returned.
func aBody() kind {
	return bind.Parsed("a function", func(v starlark.Value) (any, error) {
		fn, ok := v.(starlark.Callable)
		if !ok {
			return nil, nil
		}
		if bind.Arity(fn, 0) == nil {
			return fn, nil
		}
		return fn, bind.Arity(fn, 1)
	})
}

// testParts adds what test() knows beside scenario().
// What it returns ends the body; nil for nothing.
func (c *call) testParts(decl *spec.Scenario) *property.Temporal {
	ld := c.env.loader
	body := arg[starlark.Callable](c, "body")
	if body == nil {
		decl.Body = ld.checkedBody(decl.Name, arg[starlark.Callable](c, "fn"))
		return nil
	}
	takes := bind.Arity(body, 0) != nil
	var until []starlark.Callable
	if p := arg[oracle.Predicate](c, "terminate_when"); p.Func() != nil {
		until = append(until, p.Func())
	}
	setup := arg[starlark.Callable](c, "setup")
	if takes && setup == nil && !c.TriedAndFailed("setup") {
		c.Errorf(c.Where("body"), "", "%s takes a parameter, which is for what setup= returns", body.Name())
	}
	if setup != nil {
		decl.Setup = ld.bodyOf(decl.Name+"/setup", setup)
	}
	plain := argList[starlark.Callable](c, "assume")
	decl.Body = func(ctx context.Context, w spec.World) (any, error) {
		ld.bodyChecks(w, append([]starlark.Callable{body}, until...)...)
		for _, fn := range plain {
			if err := ld.assume(ctx, w, fn); err != nil {
				return nil, err
			}
		}
		if !takes {
			return ld.bodyOf(decl.Name, body)(ctx, w)
		}
		result, ok := spec.SetupResult(ctx).(starlark.Value)
		if !ok {
			result = starlark.None
		}
		return ld.bodyOf(decl.Name, body, result)(ctx, w)
	}
	if !c.Has("terminate_when") {
		return nil
	}
	return &property.Temporal{
		Name: "terminate_when of " + decl.Name, Kind: property.Until,
		Holds: arg[oracle.Predicate](c, "terminate_when").Holds(ld), Position: source.PlaceOf(c.Where("terminate_when").Start).String(),
	}
}

// bodyChecks tells the world where a body's code has something that can keep the leaf from passing, called or not.
func (ld *loader) bodyChecks(w spec.World, fns ...starlark.Callable) {
	v, ok := w.Events().(interface{ Asserted() })
	program := ld.program()
	if ok && slices.ContainsFunc(fns, program.Checks) {
		v.Asserted()
	}
}

// assume ends the leaf where what the body takes for granted is not so.
func (ld *loader) assume(ctx context.Context, w spec.World, fn starlark.Callable) error {
	v, err := ld.bodyOf("assume", fn)(ctx, w)
	if err != nil {
		return err
	}
	switch v {
	case starlark.True:
		return nil
	case starlark.False:
		return w.End(spec.Ended{
			Code: string(verdict.Halted), Detail: fmt.Sprintf("assume: %s does not hold", fn.Name()), Position: placeOf(fn),
		})
	}
	return fmt.Errorf("assume: %s returned %s; it must return True or False", fn.Name(), bind.Describe(v.(starlark.Value)))
}

// placeOf says where a function stands.
func placeOf(fn starlark.Callable) string {
	if f, ok := fn.(*starlark.Function); ok {
		return fmt.Sprint(f.Position())
	}
	return ""
}
