package starbind

import (
	"context"
	"fmt"
	"math"
	"slices"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/static"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// choiceEntries are the builtins for what is not known and for what is left out.
func choiceEntries() []entry {
	return slices.Concat(cellEntries(), []entry{
		{
			Name: "choose", Phases: bind.InBody,
			Doc: "decides an unknown: each option gets a leaf of its own. A choice with a name keeps its leaves' IDs when others are added before it; one without is known by " +
				"its place in the order of calls. What is met in one leaf only is found in the running.",
			Example: `backend = choose("backend", ["primary", "replica"])`,
			Params: []param{
				{Name: "name", Kind: bind.Value(), Required: true, Doc: "its name; may be left out"},
				{Name: "options", Kind: bind.List(bind.Value()), Doc: "the options, at least one"},
			},
			Do: do(doChoose),
		},
		{
			Name: "nondet", Phases: bind.InBody,
			Doc:     "without arguments, a choice between True and False. With services: parallel() puts no steps on them in order from here on.",
			Example: `retried = nondet()`,
			Params:  []param{{Name: "services", Kind: topology.ServiceKind(), Variadic: true, Doc: "services whose steps may come in any order without a leaf for each"}},
			Do:      do(doNondet),
		},
		{
			Name: "assume", Phases: bind.AtLoad | bind.InBody,
			Doc: "rules out what does not hold. At the top level it is given a function of the choices that have names: where that returns False, there is no such leaf. In a body it " +
				"ends the leaf: before the first step on the system the combination of choices is ruled out, later the leaf is INCONCLUSIVE (halted).",
			Example: `assume(lambda choices: not (choices["backend"] == "replica" and choices["write"]))`,
			Params:  []param{{Name: "cond", Kind: bind.Value(), Required: true, Doc: "at the top level a function of the choices; in a body True, False, or a function without parameters"}},
			Do:      do(doAssume),
		},
		{
			Name: "halt", Phases: bind.InBody,
			Doc: "ends the leaf because it has nothing to say here. Before the first step on the system it rules the combination of choices out, as assume does; later the leaf is " +
				"INCONCLUSIVE (halted).",
			Example: `halt("the leader was not elected before the fault")`,
			Params:  []param{{Name: "reason", Kind: bind.String(), Doc: "why"}},
			Do: do(func(c *call) (starlark.Value, error) {
				return nil, c.finish(verdict.Halted, orElse(arg[string](c, "reason"), "halted by the scenario"))
			}),
		},
		{
			Name: "parallel", Phases: bind.InBody,
			Doc: "runs functions side by side and returns their results in order. One runs at a time; they change over where they have to do with the system. Unless interleavings says " +
				"otherwise their steps overlap as they come. With it, one operation (a step, a fault's begin or end, kill and the like, sleep, await) happens at a time, and their " +
				"orders are choices: a leaf for each. An operation that waits for another branch lets the others go on, and is written down so that a replay takes the same order.",
			Example: `a, b = parallel(lambda: api.get(path = "/a"), lambda: api.get(path = "/b"), interleavings = "critical")`,
			Params: []param{
				{Name: "fns", Kind: bind.Function(0), Variadic: true, Required: true, Doc: "functions without parameters"},
				{Name: "interleavings", Kind: anInterleaving(), Preset: "1", Doc: `"all" orders of the operations, "critical" for one of each set of orders that differ only in operations on services that have nothing to do with one another, or the number of orders to draw`},
			},
			Do: do(doParallel),
		},
	})
}

func anInterleaving() kind {
	return bind.Parsed(`"all", "critical" or a number`, func(v starlark.Value) (any, error) {
		switch v := v.(type) {
		case starlark.String:
			if v == "all" || v == "critical" {
				return spec.Interleaving{Order: spec.Order(v)}, nil
			}
			return nil, fmt.Errorf(`%s is none of "all", "critical" and a number`, v)
		case starlark.Int:
			n, err := starlark.AsInt32(v)
			if err != nil || n < 1 || n > math.MaxInt16 {
				return nil, fmt.Errorf("%s is not a number of orders from 1 to %d", v, math.MaxInt16)
			}
			if n == 1 {
				return spec.Interleaving{}, nil
			}
			return spec.Interleaving{Order: spec.SomeOrders, Count: n}, nil
		}
		return nil, nil
	})
}

func doParallel(c *call) (starlark.Value, error) {
	fns := argList[starlark.Callable](c, "fns")
	results := make([]starlark.Value, len(fns))
	var branches []func(context.Context, spec.World) error
	for i, fn := range fns {
		results[i] = starlark.None
		branches = append(branches, func(ctx context.Context, w spec.World) error {
			e := &env{when: bind.InBody, ctx: ctx, world: w, body: c.env.body}
			v, err := c.env.loader.run(e, fmt.Sprintf("%s/branch %d", c.Thread.Name, i+1), fn)
			if err == nil {
				results[i] = v
			}
			return err
		})
	}
	how := arg[spec.Interleaving](c, "interleavings")
	c.env.body.mu.Lock()
	how.Exempt = slices.Clone(c.env.body.exempt)
	c.env.body.mu.Unlock()
	if err := c.env.world.Parallel(c.env.ctx, how, branches...); err != nil {
		return nil, c.Worldly(err)
	}
	return starlark.NewList(results), nil
}

func doChoose(c *call) (starlark.Value, error) {
	name, options := "", argList[starlark.Value](c, "options")
	switch v := c.Args["name"].(type) {
	case starlark.String:
		name = string(v)
	case starlark.Iterable:
		if c.Has("options") {
			c.Errorf(c.Where("name"), "", "name must be a string, got %s", v.Type())
			return nil, nil
		}
		for item := range starlark.Elements(v) {
			options = append(options, item)
		}
	default:
		c.Errorf(c.Where("name"), "", "name must be a string")
		return nil, nil
	}
	if len(options) == 0 {
		c.Errorf(c.Site.Span(), "", "needs at least one option")
		return nil, nil
	}
	return c.choose(name, options)
}

// choose has the world decide, and ends the leaf where the specification rules the decision out.
func (c *call) choose(name string, options []starlark.Value) (starlark.Value, error) {
	i, err := c.env.world.Choose(spec.Choice{Name: name, Options: words(options)})
	if err != nil {
		return nil, c.Worldly(err)
	}
	if i < 0 || i >= len(options) {
		return nil, fmt.Errorf("choose %q: the world took option %d of %d", name, i, len(options))
	}
	if name == "" || c.env.body == nil {
		return options[i], nil
	}
	b := c.env.body
	b.mu.Lock()
	if b.named == nil {
		b.named = map[string]starlark.Value{}
	}
	b.named[name] = options[i]
	b.mu.Unlock()
	for _, r := range c.env.loader.decls.assumes {
		out, err := r.rulesOut(b.named)
		if err != nil {
			return nil, err
		}
		if out {
			return nil, c.finish(verdict.Halted, r.text)
		}
	}
	return options[i], nil
}

// words are options as records have them.
func words(options []starlark.Value) []string {
	out := make([]string, len(options))
	for i, o := range options {
		out[i] = value.Short(o)
	}
	return out
}

func doNondet(c *call) (starlark.Value, error) {
	services := argList[string](c, "services")
	if len(services) == 0 {
		return c.choose("", []starlark.Value{starlark.True, starlark.False})
	}
	c.env.body.mu.Lock()
	defer c.env.body.mu.Unlock()
	c.env.body.exempt = append(c.env.body.exempt, services...)
	return starlark.None, nil
}

func doAssume(c *call) (starlark.Value, error) {
	cond := c.Args["cond"].(starlark.Value)
	fn, callable := cond.(starlark.Callable)
	if c.env.when == bind.AtLoad {
		switch {
		case !callable:
			c.Errorf(c.Where("cond"), "", "at the top level assume needs a function of the choices, got %s", bind.Describe(cond))
		case bind.Arity(fn, 1) != nil:
			c.Errorf(c.Where("cond"), "", "%s", bind.Arity(fn, 1))
		default:
			c.env.loader.decls.assumes = append(c.env.loader.decls.assumes, &ruling{
				ld: c.env.loader, fn: fn, at: c.Where("cond"),
				text: "assume: " + oracle.Text(c.env.loader, cond, c.Exprs["cond"]) + " does not hold, " + c.Site.Start().String(),
			})
		}
		return starlark.None, nil
	}
	if callable {
		if err := bind.Arity(fn, 0); err != nil {
			c.Errorf(c.Where("cond"), "", "%s", err)
			return nil, nil
		}
		var err error
		if cond, err = starlark.Call(c.Thread, fn, nil, nil); err != nil {
			return nil, err
		}
	}
	switch cond {
	case starlark.True:
		return starlark.None, nil
	case starlark.False:
		return nil, c.finish(verdict.Halted, "assume: "+oracle.Text(c.env.loader, cond, c.Exprs["cond"])+" does not hold")
	}
	c.Errorf(c.Where("cond"), "", "assume needs True or False, got %s", bind.Describe(cond))
	return nil, nil
}

// ruling is an assume() over the choices of all scenarios.
type ruling struct {
	ld   *loader
	fn   starlark.Callable
	at   source.Span
	text string
}

// rulesOut reports whether the choices can't be made together. Where it needs one that has not been made, it
// does not know yet.
func (r *ruling) rulesOut(named map[string]starlark.Value) (bool, error) {
	out, _, err := r.ask(named)
	return out, err
}

func (r *ruling) ask(named map[string]starlark.Value) (out bool, missing []string, err error) {
	choices := &choicesValue{opaque: called("choices"), named: named}
	v, err := r.ld.run(&env{when: bind.InProperty, ctx: context.Background()}, "assume", r.fn, choices)
	if len(choices.missing) > 0 {
		return false, choices.missing, nil
	}
	if err != nil {
		return false, nil, err
	}
	b, ok := v.(starlark.Bool)
	if !ok {
		return false, nil, fmt.Errorf("assume: %s returned %s; it must return True or False", r.fn.Name(), bind.Describe(v))
	}
	return !bool(b), nil, nil
}

func called(kind string) opaque { return named(kind, kind) }

// choicesValue is what an assume() sees of the choices: by name, those that have been made.
type choicesValue struct {
	opaque
	named   map[string]starlark.Value
	missing []string
}

// Get returns what was chosen under a name.
func (v *choicesValue) Get(key starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(key)
	if !ok {
		return nil, false, fmt.Errorf("choices are known by name, got %s", bind.Describe(key))
	}
	got, found := v.named[name]
	if !found {
		v.missing = append(v.missing, name)
		return starlark.None, false, nil
	}
	return got, true, nil
}

// findChoices finds the choices in the scenarios' code, and what the specification rules out of them.
func (ld *loader) findChoices() {
	program := ld.program()
	names, complete := map[string]starlark.Value{}, true
	for _, s := range ld.decls.scenarios {
		found := program.Choices(slices.Concat([]starlark.Callable{s.setup, s.fn}, s.expects)...)
		s.decl.Choices = nil
		s.decl.ActsOn = program.ActsOn(slices.Concat([]starlark.Callable{s.setup, s.fn}, s.expects)...)
		for _, f := range found {
			known := spec.KnownChoice{Sure: f.Sure, Fans: f.Fans, Position: f.At.String()}
			known.Name, known.Options = f.Name, words(f.Options)
			s.decl.Choices = append(s.decl.Choices, known)
			switch {
			case f.Unnamed:
				complete = false
			case len(f.Options) > 0:
				names[f.Name] = f.Options[0]
			default:
				names[f.Name] = starlark.None
			}
		}
		if len(ld.decls.assumes) > 0 {
			s.decl.RulesOut = ld.rulesOut(found)
		}
	}
	ld.findNames()
	if !complete {
		return
	}
	for _, r := range ld.decls.assumes {
		_, missing, _ := r.ask(names)
		for _, name := range missing {
			var list []string
			for known := range names {
				list = append(list, known)
			}
			slices.Sort(list)
			ld.report(r.at, source.Nearest(name, list), "assume: no choice is named %q, so this rules nothing out", name)
		}
	}
}

// findNames finds what the main file's text calls services and the functions of scenarios.
func (ld *loader) findNames() {
	if len(ld.sources) == 0 {
		return
	}
	globals := ld.modules[ld.sources[0].Path].globals
	names := globals.Keys()
	slices.Sort(names)
	for _, name := range names {
		v := globals[name]
		for _, s := range ld.topology.Services() {
			if s.Decl.Ref == "" && v == starlark.Value(s) {
				s.Decl.Ref = name
			}
		}
		for _, s := range ld.decls.scenarios {
			if fn, ok := v.(*starlark.Function); ok && s.decl.Ref == "" && fn == s.fn && bind.Arity(fn, 0) == nil {
				s.decl.Ref = name
			}
		}
	}
}

// rulesOut makes the function by which a plan leaves out what an assume() rules out.
func (ld *loader) rulesOut(found []static.Choice) func(map[string]int) string {
	return func(options map[string]int) string {
		named := map[string]starlark.Value{}
		for _, f := range found {
			if i, ok := options[f.Name]; ok && i < len(f.Options) {
				named[f.Name] = f.Options[i]
			}
		}
		for _, r := range ld.decls.assumes {
			if out, err := r.rulesOut(named); err == nil && out {
				return r.text
			}
		}
		return ""
	}
}
