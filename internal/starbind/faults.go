package starbind

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/spec"
)

// faultEntries are the builtins for rules on system calls and for named faults.
func faultEntries() []entry {
	return []entry{
		{
			name: "deny", phases: atLoad | inBody, pure: true,
			doc:     "makes system calls fail with an error. It stands behind the keyword that says which calls.",
			example: `disk_full = fault_assumption("disk_full", target = db, write = deny("ENOSPC"))`,
			params:  append([]param{{name: "errno", kind: anErrno(), required: true, doc: "the error, by name"}}, syscallParams()...),
			do:      func(c *call) (starlark.Value, error) { return effectOf(c), nil },
		},
		{
			name: "delay", phases: atLoad | inBody, pure: true,
			doc:     "holds system calls for a time before they go on or, with errno, before they fail.",
			example: `slow_disk = fault_assumption("slow_disk", target = db, fsync = delay("500ms"))`,
			params: append([]param{
				{name: "duration", kind: aDuration(), required: true, doc: "how long each call is held"},
				{name: "errno", kind: anErrno(), doc: "the error to give afterwards"},
			}, syscallParams()...),
			do: func(c *call) (starlark.Value, error) { return effectOf(c), nil },
		},
		{
			name: "fault_assumption", phases: atLoad,
			doc:     "names a fault, with the properties that must hold under it. It is in force while a scenario's body and its expectation run.",
			example: "db_down = fault_assumption(\"db_down\",\n    target = api,\n    connect = deny(\"ECONNREFUSED\"),\n    monitors = [persisted],\n)",
			params: []param{
				{name: "name", kind: aName(), required: true, doc: "its name, a column of the matrix"},
				{name: "target", kind: aTarget(), doc: "the service whose calls are hit, or the interface or service whose connections are"},
				{name: "source", kind: aService(), preset: "any", doc: "with rules: the service that connects"},
				{name: "rules", kind: listOf(aLinkRule()), doc: "effects on connections: latency(), partition() and the like"},
				{name: "faults", kind: listOf(anAssumption()), doc: "other assumptions whose rules are part of this one"},
				{name: "monitors", kind: listOf(aMonitor()), doc: "monitors that hold under this fault"},
				{name: "properties", kind: listOf(aTemporal()), doc: "temporal properties that hold under this fault"},
				{name: "description", kind: aString(), doc: "a sentence for the report"},
			},
			rest: callKeywords(),
			do:   declareAssumption,
		},
		{
			name: "fault", phases: inBody, reach: injectsRules,
			doc:     "puts rules in force while a function runs, and lifts them even when it fails. It returns the function's result.",
			example: `r = fault(db, write = deny("ENOSPC"), run = lambda: api.post(path = "/orders"))`,
			params: []param{
				{name: "target", kind: aFaultTarget(), required: true, doc: "a service, an interface, an assumption, or a rule that says itself between whom"},
				{name: "rules", kind: aLinkRule(), variadic: true, doc: "effects on connections to the target"},
				{name: "run", kind: aFunction(0), required: true, doc: "what to do meanwhile"},
				{name: "source", kind: aService(), preset: "any", doc: "for effects on connections: the service that connects"},
			},
			rest: callKeywords(),
			do:   doFault,
		},
		{
			name: "fault_start", phases: inBody, reach: injectsRules,
			doc:     "puts rules in force until fault_stop or the end of the body. The result's fired() tells how often they acted.",
			example: `f = fault_start(db, fsync = delay("1s"))`,
			params: []param{
				{name: "target", kind: aFaultTarget(), required: true, doc: "as for fault"},
				{name: "rules", kind: aLinkRule(), variadic: true, doc: "as for fault"},
				{name: "source", kind: aService(), preset: "any", doc: "as for fault"},
			},
			rest: callKeywords(),
			do:   doFaultStart,
		},
		{
			name: "fault_stop", phases: inBody,
			doc:     "lifts what fault_start put in force.",
			example: `fault_stop(f)`,
			params:  []param{{name: "fault", kind: aValue(), required: true, doc: "the result of fault_start, or what was given to it as target"}},
			do:      doFaultStop,
		},
	}
}

// syscallParams are the options that deny and delay share.
func syscallParams() []param {
	return []param{
		{name: "probability", kind: aProbability(), preset: "always", doc: "how many of the matching calls are hit"},
		{name: "nth", kind: anInt(1, math.MaxInt32), doc: "hits the n-th matching call only, counting from 1"},
		{name: "after", kind: anInt(1, math.MaxInt32), doc: "lets so many matching calls pass first"},
		{name: "every", kind: anInt(1, math.MaxInt32), doc: "hits each n-th matching call"},
		{name: "max_fires", kind: anInt(1, math.MaxInt32), preset: "no limit", doc: "stops after so many hits"},
		{name: "on", kind: aDescriptor(), preset: "what the call is mostly for", doc: `kinds of descriptor: "file", "socket", "pipe", "tty", "other", a list of them, or "any"`},
		{name: "path", kind: aGlob(), preset: "any", doc: `glob over the file's absolute path; * does not cross /, ** does`},
		{name: "optional", kind: aBool(), preset: "False", doc: "a leaf may pass although the rule never fired"},
		{name: "during", kind: aChoice("body", "start"), preset: `"body"`, doc: `"start" puts it in force before the programs run`},
		{name: "label", kind: aName(), preset: "the keyword", doc: "its name in records"},
	}
}

// callKeywords are the keywords that name system calls.
func callKeywords() *rest {
	return &rest{
		label: "<call>", check: true, known: callNames, kind: anEffect(),
		doc: "what happens to a family of system calls, or to one call: deny() or delay()",
	}
}

func callNames() []string {
	var names []string
	for _, f := range fault.Families() {
		names = append(names, f.Name)
		names = append(names, f.Calls...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func anErrno() kind {
	return kind{"the name of an error", func(c *call, v starlark.Value, at span, _ syntax.Expr) (any, bool) {
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
		c.errorf(at, nearest(s, names), "unknown errno %q", s)
		return nil, false
	}}
}

func aDescriptor() kind {
	words := []string{string(fault.File), string(fault.Socket), string(fault.Pipe), string(fault.TTY), string(fault.Other)}
	one := aChoice(append(words, "any")...)
	return kind{"a kind of descriptor", func(c *call, v starlark.Value, at span, e syntax.Expr) (any, bool) {
		if _, single := starlark.AsString(v); single {
			got, ok := c.convert(one, "on", v, e)
			return []any{got}, ok
		}
		return listOf(one).convert(c, v, at, e)
	}}
}

func aGlob() kind {
	return parsed("a glob", func(v starlark.Value) (any, error) {
		s, ok := starlark.AsString(v)
		switch {
		case !ok:
			return nil, nil
		case !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "**"):
			return nil, fmt.Errorf("path %q can't match: paths are absolute; begin it with / or **/", s)
		}
		if _, err := path.Match(strings.ReplaceAll(s, "**", "*"), "/"); err != nil {
			return nil, fmt.Errorf("path %q is not a glob: %v", s, err)
		}
		return s, nil
	})
}

func anEffect() kind {
	return scalar("deny() or delay()", func(v starlark.Value) (any, bool) {
		e, ok := v.(*syscallEffect)
		return e, ok
	})
}

func anAssumption() kind {
	return scalar("a fault_assumption", func(v starlark.Value) (any, bool) {
		a, ok := v.(*assumption)
		return a, ok
	})
}

// target is a service or one of its interfaces.
type target struct{ service, iface string }

func aTarget() kind {
	return scalar("a service or an interface", func(v starlark.Value) (any, bool) { return targetOf(v) })
}

func targetOf(v starlark.Value) (target, bool) {
	switch v := v.(type) {
	case *service:
		return target{v.decl.Name, ""}, true
	case *iface:
		return target{v.decl.Service, v.decl.Name}, true
	case *reference:
		return target{v.name, ""}, true
	case *interfaceReference:
		return target{v.service.name, v.name}, true
	}
	return target{}, false
}

// aFaultTarget converts to a target, an *assumption or a *linkRule.
func aFaultTarget() kind {
	return scalar("a service, an interface, an assumption or a rule", func(v starlark.Value) (any, bool) {
		switch v := v.(type) {
		case *assumption, *linkRule:
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
	e.opaque = opaque{c.entry.name, c.entry.name + "(...)"}
	for _, d := range argList[string](c, "on") {
		if d != "any" {
			e.rule.On = append(e.rule.On, fault.Descriptor(d))
		}
	}
	e.onSet = c.has("on")
	if c.has("nth") && (c.has("after") || c.has("every")) {
		c.errorf(c.site.keywordSpan("nth"), "", "nth can't be used together with after or every")
	}
	if c.entry.name == "delay" && e.rule.Delay == 0 && c.has("duration") {
		c.errorf(c.where("duration"), "", "a delay of nothing has no effect")
	}
	return e
}

// options collects what every rule may say.
func (c *call) options() ruleOptions {
	o := ruleOptions{
		when: fault.When{
			Nth: arg[int](c, "nth"), After: arg[int](c, "after"), Every: arg[int](c, "every"), MaxFires: arg[int](c, "max_fires"),
		},
		optional: arg[bool](c, "optional"), label: arg[string](c, "label"), at: c.site.span(),
	}
	if during := arg[string](c, "during"); during != "body" {
		o.during = during
	}
	if p := arg[float64](c, "probability"); p < 1 {
		o.when.Probability = p
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
	for _, kw := range c.rest {
		e := kw.value.(*syscallEffect)
		family, _ := fault.FamilyOf(kw.name)
		s := e.rule
		s.Service, s.Family, s.Calls = service, kw.name, family.Calls
		if !e.onSet {
			s.On = family.On
		}
		if s.Path != "" && family.Path < 0 && (family.Descriptor < 0 || !slices.Contains(s.On, fault.File)) {
			c.errorf(kw.at, "", "path= does not apply to %s, which has no file", kw.name)
		}
		if e.onSet && family.Descriptor < 0 && len(s.On) > 0 {
			c.errorf(kw.at, "", "on= does not apply to %s, which has no descriptor", kw.name)
		}
		rules = append(rules, fault.Rule{
			ID: ids.name(orElse(e.label, kw.name)), Assumption: assumption, Syscall: &s, When: e.when,
			Optional: e.optional, During: e.during, Position: placeOf(kw.at.start).String(),
		})
	}
	return rules
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
		opaque: opaque{"fault_assumption", fmt.Sprintf("fault_assumption(%q)", name)},
		decl:   &spec.Assumption{Name: name, Doc: arg[string](c, "description"), Position: c.site.start().String()},
		hooks:  c.hooks(), at: c.site.span(),
	}
	if name == "none" {
		c.errorf(c.where("name"), "", `"none" is the name of the column without a fault`)
	}
	for _, other := range ld.decls.assumptions {
		if other.decl.Name == name {
			c.firstUse("fault_assumption", name, other.decl.Position)
			return other, nil
		}
	}
	ids := &namer{name, map[string]int{}}
	tgt := arg[target](c, "target")
	if len(c.rest) > 0 && tgt.service == "" && !c.triedAndFailed("target") {
		c.errorf(c.rest[0].at, "", "%s= needs target=, the service whose calls are hit", c.rest[0].name)
	}
	a.decl.Rules = append(a.decl.Rules, c.syscallRules(ids, tgt.service, name)...)
	a.decl.Rules = append(a.decl.Rules, c.linkRules(ids, tgt, name, argList[*linkRule](c, "rules"))...)
	for _, child := range argList[*assumption](c, "faults") {
		for _, r := range child.decl.Rules {
			r.ID, r.Assumption = ids.name(r.ID), name
			a.decl.Rules = append(a.decl.Rules, r)
		}
		a.hooks.monitors = append(a.hooks.monitors, child.hooks.monitors...)
		a.hooks.temporal = append(a.hooks.temporal, child.hooks.temporal...)
	}
	if len(a.decl.Rules) == 0 && !c.bad {
		c.errorf(c.site.span(), "", "has no rule: name a call (write = deny(...)), rules or faults")
	}
	ld.decls.assumptions = append(ld.decls.assumptions, a)
	return a, nil
}

// triedAndFailed reports whether an argument was given but could not be used.
func (c *call) triedAndFailed(name string) bool {
	_, tried := c.exprs[name]
	return tried && !c.has(name)
}
