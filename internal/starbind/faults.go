package starbind

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/calls"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/static"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// faultEntries are the builtins for rules on system calls and for named faults.
func faultEntries(ld *loader) []entry {
	return []entry{
		{
			Name: "deny", Phases: bind.AtLoad | bind.InBody, Pure: true,
			Doc:     "makes system calls fail with an error. It stands behind the keyword that says which calls.",
			Example: `disk_full = fault_assumption("disk_full", target = db, write = deny("ENOSPC"))`,
			Params:  append([]param{{Name: "errno", Kind: anErrno(), Required: true, Doc: "the error, by name"}}, syscallParams()...),
			Do:      do(func(c *call) (starlark.Value, error) { return effectOf(c), nil }),
		},
		{
			Name: "delay", Phases: bind.AtLoad | bind.InBody, Pure: true, Acts: bind.OnMessages,
			Doc:     "holds system calls for a time before they go on or, with errno, before they fail. In rules, it holds requests to an interface.",
			Example: `slow_disk = fault_assumption("slow_disk", target = db, fsync = delay("500ms"))`,
			Params: append([]param{
				{Name: "duration", Kind: bind.Duration(), Required: true, Doc: "how long each call or request is held"},
				{Name: "errno", Kind: anErrno(), Doc: "for calls: the error to give afterwards"},
			}, delayParams()...),
			Rest: matchKeywords(ld, "path"),
			Do:   do(func(c *call) (starlark.Value, error) { return effectOf(c), nil }),
		},
		partialEntry(),
		holdEntry(ld),
		crashEntry(),
		{
			Name: "fault_assumption", Phases: bind.AtLoad,
			Doc:     "names a fault, with the properties that must hold under it. It is in force while a scenario's body and its expectation run.",
			Example: "db_down = fault_assumption(\"db_down\",\n    target = api,\n    connect = deny(\"ECONNREFUSED\"),\n    monitors = [persisted],\n)",
			Params: []param{
				{Name: "name", Kind: bind.Name(), Required: true, Doc: "its name, a column of the matrix"},
				{Name: "target", Kind: aTarget(), Doc: "the service whose calls are hit, or the interface or service whose connections are"},
				{Name: "source", Kind: topology.ServiceKind(), Preset: "any", Doc: "with rules: the service that connects"},
				{Name: "rules", Kind: bind.List(aLinkRule()), Doc: "effects on connections and requests: latency(), partition(), error() and the like"},
				{Name: "faults", Kind: bind.List(anAssumption()), Doc: "other assumptions whose rules are part of this one"},
				{Name: "monitors", Kind: bind.List(oracle.MonitorKind()), Doc: "monitors that hold under this fault"},
				{Name: "properties", Kind: bind.List(oracle.TemporalKind()), Doc: "temporal properties that hold under this fault"},
				{Name: "description", Kind: bind.String(), Doc: "a sentence for the report"},
			},
			Rest: callKeywords(ld),
			Do:   do(declareAssumption),
		},
		{
			Name: "fault", Phases: bind.InBody, Reach: bind.InjectsRules, Check: checkRules,
			Doc:     "puts rules in force while a function runs, and lifts them even when it fails. It returns the function's result.",
			Example: `r = fault(db, write = deny("ENOSPC"), run = lambda: api.post(path = "/orders"))`,
			Params: []param{
				{Name: "target", Kind: aFaultTarget(), Required: true, Doc: "a service, an interface, a link, an assumption, or a rule that says itself between whom"},
				{Name: "rules", Kind: aLinkRule(), Variadic: true, Doc: "effects on connections to the target, or on requests to it"},
				{Name: "run", Kind: bind.Function(0), Required: true, Doc: "what to do meanwhile"},
				{Name: "source", Kind: topology.ServiceKind(), Preset: "any", Doc: "for effects on connections: the service that connects"},
			},
			Rest: callKeywords(ld),
			Do:   do(doFault),
		},
		{
			Name: "fault_start", Phases: bind.InBody, Reach: bind.InjectsRules, Check: checkRules,
			Doc:     "puts rules in force until fault_stop or the end of the body. The result's fired() tells how often they acted.",
			Example: `f = fault_start(db, fsync = delay("1s"))`,
			Params: []param{
				{Name: "target", Kind: aFaultTarget(), Required: true, Doc: "as for fault"},
				{Name: "rules", Kind: aLinkRule(), Variadic: true, Doc: "as for fault"},
				{Name: "source", Kind: topology.ServiceKind(), Preset: "any", Doc: "as for fault"},
			},
			Rest: callKeywords(ld),
			Do:   do(doFaultStart),
		},
		{
			Name: "fault_stop", Phases: bind.InBody,
			Doc:     "lifts what fault_start put in force.",
			Example: `fault_stop(f)`,
			Params:  []param{{Name: "fault", Kind: bind.Value(), Required: true, Doc: "the result of fault_start, or what was given to it as target"}},
			Do:      do(doFaultStop),
		},
		releaseEntry(),
		faultAllEntry(ld),
	}
}

// syscallParams are the options that deny and delay share.
func syscallParams() []param {
	return []param{
		{Name: "probability", Kind: bind.Probability(), Preset: "always", Doc: "how many of the matching calls are hit"},
		{Name: "nth", Kind: bind.Int(1, math.MaxInt32), Doc: "hits the n-th matching call only, counting from 1"},
		{Name: "after", Kind: bind.Int(1, math.MaxInt32), Doc: "lets so many matching calls pass first"},
		{Name: "every", Kind: bind.Int(1, math.MaxInt32), Doc: "hits each n-th matching call"},
		{Name: "max_fires", Kind: bind.Int(1, math.MaxInt32), Preset: "no limit", Doc: "stops after so many hits"},
		{Name: "mode", Kind: bind.Choice("stochastic", "exhaustive"), Preset: `"stochastic"`, Doc: `"exhaustive", with probability and max_fires, gives each way to hit and spare the first max_fires matching calls a leaf of its own, instead of drawing`},
		{Name: "on", Kind: calls.Descriptor(), Preset: "what the call is mostly for", Doc: `kinds of descriptor: "file", "socket", "pipe", "tty", "other", a list of them, or "any"`},
		{Name: "path", Kind: calls.Glob(), Preset: "any", Doc: `glob over the file's absolute path; * does not cross /, ** does`},
		{Name: "link", Kind: aLink(), Preset: "any", Doc: "only calls on sockets that the service has connected so: link(the service, another)"},
		{Name: "optional", Kind: bind.Bool(), Preset: "False", Doc: "a leaf may pass although the rule never fired"},
		{Name: "during", Kind: bind.Choice("body", "start"), Preset: `"body"`, Doc: `"start" puts it in force before the programs run`},
		{Name: "label", Kind: bind.Name(), Preset: "the keyword", Doc: "its name in records"},
	}
}

// delayParams are those of deny, but for path, whose meaning the target decides.
func delayParams() []param {
	params := syscallParams()
	for i, p := range params {
		if p.Name == "path" {
			params[i].Kind = bind.String()
			params[i].Doc += "; for requests to an http interface over the request's path"
		}
	}
	return params
}

// callKeywords are the keywords that name system calls: families, single calls, and what services call ops.
func callKeywords(ld *loader) *rest {
	return &rest{
		Label: "<call>", Check: true, Known: func() []string { return slices.Concat(calls.Names(), opNames(ld.topology)) }, Kind: anEffect(),
		Doc: "what happens to one of the service's ops, to a family of system calls, or to one call: deny(), delay(), partial(), hold() or crash()",
	}
}

func anErrno() kind {
	return kindOf("the name of an error", func(c *call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, false
		}
		if _, known := fault.ErrnoNumber(s); known {
			return s, true
		}
		var names []string
		for _, e := range fault.Errnos() {
			names = append(names, e.Name)
		}
		c.Errorf(at, source.Nearest(s, names), "unknown errno %q", s)
		return nil, false
	})
}

func anEffect() kind {
	return bind.Scalar("deny(), delay(), partial(), hold() or crash()", func(v starlark.Value) (any, bool) {
		e, ok := v.(*syscallEffect)
		return e, ok
	})
}

func anAssumption() kind {
	return bind.Scalar("a fault_assumption", func(v starlark.Value) (any, bool) {
		a, ok := v.(*assumption)
		return a, ok
	})
}

// target is a service or one of its interfaces.
type target struct{ service, iface string }

func aTarget() kind {
	return bind.Scalar("a service or an interface", func(v starlark.Value) (any, bool) { return targetOf(v) })
}

func targetOf(v starlark.Value) (target, bool) {
	t, ok := v.(static.Target)
	if !ok {
		return target{}, false
	}
	service, iface := t.Target()
	return target{service, iface}, true
}

// aFaultTarget converts to a target, a *linkValue, an *assumption or a *linkRule.
func aFaultTarget() kind {
	return bind.Scalar("a service, an interface, a link, an assumption or a rule", func(v starlark.Value) (any, bool) {
		switch v := v.(type) {
		case *assumption, *linkRule, *linkValue:
			return v, true
		}
		return targetOf(v)
	})
}

func effectOf(c *call) *syscallEffect {
	e := &syscallEffect{
		rule:        fault.Syscall{Errno: arg[string](c, "errno"), Delay: arg[time.Duration](c, "duration"), Path: arg[string](c, "path")},
		ruleOptions: c.options(),
	}
	e.opaque = named(c.Entry.Name, c.Entry.Name+"(...)")
	for _, d := range argList[string](c, "on") {
		if d != "any" {
			e.rule.On = append(e.rule.On, fault.Descriptor(d))
		}
	}
	e.onSet = c.Has("on")
	if c.exhaustive(); arg[string](c, "mode") == "exhaustive" {
		e.when.Exhaustive = true
	}
	if c.Entry.Acts != 0 { // delay and hold
		e.message = &messageEffect{verb: protocol.Verb(c.Entry.Name), delay: e.rule.Delay, match: c.matches("path"), refused: refusedByMessages(c)}
	}
	if l := arg[*linkValue](c, "link"); l != nil {
		e.rule.Link = &l.pair
	}
	e.rule.Crash = c.Entry.Name == "crash"
	e.rule.Hold, e.rule.Partial = c.Entry.Name == "hold", int64(arg[int](c, "bytes"))
	if c.Entry.Name == "delay" && e.rule.Delay == 0 && c.Has("duration") {
		c.Errorf(c.Where("duration"), "", "a delay of nothing has no effect")
	}
	return e
}

// maxVector is the most matching calls whose hits are tried out: 2 to this power leaves.
const maxVector = 12

// exhaustive says what is wrong with mode = "exhaustive".
func (c *call) exhaustive() {
	if arg[string](c, "mode") != "exhaustive" || c.Bad {
		return
	}
	at := c.Site.KeywordSpan("mode")
	p, hasP := c.Args["probability"].(float64)
	switch n := arg[int](c, "max_fires"); {
	case n == 0:
		c.Errorf(at, "", `mode = "exhaustive" needs max_fires, the number of matching calls that are decided`)
	case n > maxVector:
		c.Errorf(c.Where("max_fires"), "", `mode = "exhaustive" makes 2 to the power of max_fires leaves, so that is at most %d`, maxVector)
	case !hasP || p >= 1:
		c.Errorf(at, "", `mode = "exhaustive" is for a rule that may spare calls: give it a probability below 1`)
	}
}

// options collects what every rule may say.
func (c *call) options() ruleOptions {
	o := ruleOptions{
		when: fault.When{
			Nth: arg[int](c, "nth"), After: arg[int](c, "after"), Every: arg[int](c, "every"), MaxFires: arg[int](c, "max_fires"),
		},
		optional: arg[bool](c, "optional"), label: arg[string](c, "label"), at: c.Site.Span(),
	}
	if during := arg[string](c, "during"); during != "body" {
		o.during = during
	}
	if p := arg[float64](c, "probability"); p < 1 {
		o.when.Probability = p
	}
	if c.Has("nth") && (c.Has("after") || c.Has("every")) {
		c.Errorf(c.Site.KeywordSpan("nth"), "", "nth can't be used together with after or every")
	}
	return o
}

// namer gives each rule of an owner an ID of its own.
type namer struct {
	owner string
	seen  map[string]int
}

func (n *namer) name(what string) string {
	id := n.owner + "/" + what
	n.seen[id]++
	if k := n.seen[id]; k > 1 {
		return fmt.Sprintf("%s#%d", id, k)
	}
	return id
}

// syscallRules turns the keywords of a call into rules.
func (c *call) syscallRules(ids *namer, service, assumption string) []fault.Rule {
	var rules []fault.Rule
	for _, kw := range c.Rest {
		e := kw.Value.(*syscallEffect)
		s, ok := c.syscallOf(kw, service)
		if !ok {
			continue
		}
		rules = append(rules, fault.Rule{
			ID: ids.name(orElse(e.label, kw.Name)), Assumption: assumption, Syscall: &s, When: e.when,
			Optional: e.optional, During: e.during, Position: source.PlaceOf(kw.At.Start).String(),
		})
	}
	return rules
}

// syscallOf is what a keyword's rule does to which calls of a service.
func (c *call) syscallOf(kw bind.Keyword, service string) (fault.Syscall, bool) {
	e := kw.Value.(*syscallEffect)
	family, ok := c.callsNamed(kw, service)
	if !ok {
		return fault.Syscall{}, false
	}
	s := e.rule
	s.Service, s.Family, s.Calls = service, kw.Name, family.Calls
	if s.Partial > 0 && !c.canBePartial(kw, &s) {
		return s, false
	}
	if !e.onSet {
		s.On = family.On
	}
	if s.Link != nil {
		c.onLink(kw, family, &s)
	}
	if family.glob != "" && s.Path == "" {
		s.Path = family.glob
	} else if family.glob != "" {
		c.Errorf(kw.At, "", "%s has a path already: %s", kw.Name, family.glob)
	}
	if e.message != nil {
		c.ofCalls(e, s.Path)
	}
	c.checkKinds(kw, family, s)
	return s, true
}

// checkKinds reports a rule that looks at what its calls do not have.
func (c *call) checkKinds(kw bind.Keyword, family callSet, s fault.Syscall) {
	if s.Path != "" && family.Path < 0 && (family.Descriptor < 0 || len(s.On) > 0 && !slices.Contains(s.On, fault.File)) {
		c.Errorf(kw.At, "", "path= does not apply to %s, which has no file", kw.Name)
	}
	if kw.Value.(*syscallEffect).onSet && family.Descriptor < 0 && len(s.On) > 0 {
		c.Errorf(kw.At, "", "on= does not apply to %s, which has no descriptor", kw.Name)
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func declareAssumption(c *call) (starlark.Value, error) {
	ld := c.env.loader
	name := arg[string](c, "name")
	a := &assumption{
		opaque: named("fault_assumption", fmt.Sprintf("fault_assumption(%q)", name)),
		decl:   &spec.Assumption{Name: name, Doc: arg[string](c, "description"), Position: c.Site.Start().String()},
		hooks:  oracle.HooksOf(c.Call), at: c.Site.Span(),
	}
	if name == "none" {
		c.Errorf(c.Where("name"), "", `"none" is the name of the column without a fault`)
	}
	for _, other := range ld.decls.assumptions {
		if other.decl.Name == name {
			c.FirstUse("fault_assumption", name, other.decl.Position)
			return other, nil
		}
	}
	ids := &namer{name, map[string]int{}}
	tgt := arg[target](c, "target")
	if len(c.Rest) > 0 && tgt.service == "" && !c.TriedAndFailed("target") {
		c.Errorf(c.Rest[0].At, "", "%s= needs target=, the service whose calls are hit", c.Rest[0].Name)
	}
	a.decl.Rules = append(a.decl.Rules, c.syscallRules(ids, tgt.service, name)...)
	a.decl.Rules = append(a.decl.Rules, c.linkRules(ids, tgt, name, argList[*linkRule](c, "rules"))...)
	for _, child := range argList[*assumption](c, "faults") {
		for _, r := range child.decl.Rules {
			r.ID, r.Assumption = ids.name(r.ID), name
			a.decl.Rules = append(a.decl.Rules, r)
		}
		a.hooks.Add(child.hooks)
	}
	if len(a.decl.Rules) == 0 && !c.Bad {
		c.Errorf(c.Site.Span(), "", "has no rule: name a call (write = deny(...)), rules or faults")
	}
	ld.decls.assumptions = append(ld.decls.assumptions, a)
	return a, nil
}
