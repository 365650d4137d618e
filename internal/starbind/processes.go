package starbind

import (
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/spec"
)

// processEntries are the builtins that do something to a service's processes: as a step now, or as a rule at a time.
func processEntries() []entry {
	row := func(a spec.Action, doc, example string, params ...param) entry {
		list := append([]param{{Name: "service", Kind: topology.ServiceKind(), Doc: "as a step of a scenario: the service. A rule takes the target of its fault"}}, params...)
		list = append(list,
			param{Name: "after", Kind: bind.Duration(), Doc: "as a rule: how long after the fault begins"},
			param{Name: "optional", Kind: bind.Bool(), Preset: "False", Doc: "as a rule: a leaf may pass although it never came to that"},
			param{Name: "label", Kind: bind.Name(), Preset: "the builtin's name", Doc: "as a rule: its name in records"})
		return entry{
			Name: string(a), Phases: bind.AtLoad | bind.InBody, Acts: bind.OnProcesses,
			Doc: doc + " With a service it is a step, which happens at once; without, and with after, it is a rule.", Example: example,
			Params: list,
			Do:     do(func(c *call) (starlark.Value, error) { return c.process(a) }),
			Check: func(b *bind.Call, known func(string) bool) {
				if known("service") && known("after") {
					with(b).stepOrRule()
				}
			},
		}
	}
	return []entry{
		row(spec.Kill, "ends a service's processes with SIGKILL, or sends them another signal.", `db_dies = fault_assumption("db_dies", target = db, rules = [kill(after = "100ms")])`,
			param{Name: "signal", Kind: bind.Choice("SIGKILL", "SIGTERM", "SIGINT", "SIGQUIT", "SIGABRT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE"), Preset: `"SIGKILL"`, Doc: "what is sent; a service may outlive others than SIGKILL, and nothing waits for its end"}),
		row(spec.Pause, "stops a service's processes, as a step until resume, as a rule until its fault ends; peers see silence.", `stall = fault_assumption("stall", target = db, rules = [pause(after = "0s", duration = "2s")])`,
			param{Name: "duration", Kind: bind.Duration(), Preset: "until the fault ends", Doc: "as a rule: how long it lasts"}),
		{
			Name: string(spec.Resume), Phases: bind.InBody, Doc: "lets a paused service go on.", Example: "resume(db)",
			Params: []param{{Name: "service", Kind: topology.ServiceKind(), Required: true, Doc: "the service"}},
			Do: do(func(c *call) (starlark.Value, error) {
				return starlark.None, c.Worldly(c.env.world.Act(c.env.ctx, arg[string](c, "service"), spec.Resume))
			}),
		},
		row(spec.Restart, "ends a service's processes, starts it again and waits until it is ready. Its files stay as it left them.", `bounce = fault_assumption("bounce", target = db, rules = [restart(after = "50ms")])`),
	}
}

// process is a step on a service, or a rule for the target of a fault.
func (c *call) process(a spec.Action) (starlark.Value, error) {
	if signal := arg[string](c, "signal"); signal != "" && signal != "SIGKILL" {
		a = spec.KillBy(signal)
	}
	c.stepOrRule()
	if !c.Has("service") {
		p := &fault.Process{Action: string(a), After: arg[time.Duration](c, "after"), For: arg[time.Duration](c, "duration")}
		o := ruleOptions{optional: arg[bool](c, "optional"), label: arg[string](c, "label"), at: c.Site.Span()}
		return &linkRule{opaque: named("rule", c.Entry.Name+"(...)"), process: p, ruleOptions: o}, nil
	}
	if c.env.when == bind.AtLoad {
		c.Errorf(c.Where("service"), "", "with a service this is a step of a scenario; a rule takes the target of its fault, and after=")
	}
	if c.Bad {
		return nil, nil
	}
	return starlark.None, c.Worldly(c.env.world.Act(c.env.ctx, arg[string](c, "service"), a))
}

// stepOrRule reports a call that is neither a step nor a rule.
func (c *call) stepOrRule() {
	if !c.Has("service") {
		if !c.Has("after") {
			c.Errorf(c.Site.Span(), "", "missing argument \"service\"; a rule takes after=")
		}
		return
	}
	for _, name := range []string{"after", "duration", "optional", "label"} {
		if c.Has(name) {
			c.Errorf(c.Site.KeywordSpan(name), "", "%s= is for a rule, and with a service this is a step", name)
		}
	}
}

// processRule makes a rule on the processes of the target.
func (c *call) processRule(ids *namer, e *linkRule, tgt target, assumption string) (fault.Rule, bool) {
	if tgt.service == "" {
		if !c.TriedAndFailed("target") {
			c.Report(e.at, "", e.name()+": says not of which service: give it a target")
		}
		return fault.Rule{}, false
	}
	p := *e.process
	p.Service = tgt.service
	return fault.Rule{
		ID: ids.name(orElse(e.label, e.name())), Assumption: assumption, Process: &p, Optional: e.optional,
		Position: source.PlaceOf(e.at.Start).String(),
	}, true
}
