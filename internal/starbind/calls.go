package starbind

import (
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/calls"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/spec"
)

// maxPartial bounds how many bytes a call is cut to.
const maxPartial = 16 << 20

// partialEntry is the builtin for calls that come up short.
func partialEntry() entry {
	params := syscallParams()
	for i := range params {
		doc := strings.ReplaceAll(params[i].Doc, "matching calls", "calls of more bytes")
		params[i].Doc = strings.ReplaceAll(doc, "matching call", "call of more bytes")
	}
	return entry{
		Name: "partial", Phases: bind.AtLoad | bind.InBody, Pure: true,
		Doc: "makes reads and writes come up short: a call that would move more bytes moves so many, and returns that. It stands behind the keyword that says which calls. " +
			"A call that would move no more anyway is no match.",
		Example: `short_writes = fault_assumption("short_writes", target = db, write = partial(10, path = "/data/**"))`,
		Params:  append([]param{{Name: "bytes", Kind: bind.Int(1, maxPartial), Required: true, Doc: "how many bytes a call moves"}}, params...),
		Do:      do(func(c *call) (starlark.Value, error) { return effectOf(c), nil }),
	}
}

// holdEntry is the builtin for what waits until it is let go.
func holdEntry(ld *loader) entry {
	return entry{
		Name: "hold", Phases: bind.AtLoad | bind.InBody, Pure: true, Acts: bind.OnMessages,
		Doc: "holds system calls, or as a rule for an interface requests and what comes behind them on their connections, until release() lets them go or the fault ends. " +
			"Behind a keyword it stands for the calls that this says.",
		Example: `h = fault_start(db, fsync = hold(nth = 2))`,
		Params:  delayParams(),
		Rest:    matchKeywords(ld, "path"),
		Do:      do(func(c *call) (starlark.Value, error) { return effectOf(c), nil }),
	}
}

// crashEntry is the builtin for a crash at a call.
func crashEntry() entry {
	return entry{
		Name: "crash", Phases: bind.AtLoad | bind.InBody, Pure: true,
		Doc: "ends the service's processes with SIGKILL when they make a call, which is not made; with bytes, so much of it is. What the files are like then is what a crash at this point leaves. " +
			"It stands behind the keyword that says which calls.",
		Example: `torn = fault_assumption("torn", target = db, write = crash(bytes = 512, nth = 3, path = "/data/**"))`,
		Params: append([]param{
			{Name: "bytes", Kind: bind.Int(1, maxPartial), Preset: "nothing", Doc: "how many bytes of the call are moved before; a call that would move no more is no match"},
		}, syscallParams()...),
		Do: do(func(c *call) (starlark.Value, error) { return effectOf(c), nil }),
	}
}

// releaseEntry is the builtin that lets go what is held.
func releaseEntry() entry {
	return entry{
		Name: "release", Phases: bind.InBody,
		Doc:     "lets go what the hold() rules of a fault hold, calls and requests, and returns how many that were. The rules stay in force: what comes next is held again.",
		Example: `release(h)`,
		Params:  []param{{Name: "fault", Kind: aStarted(), Required: true, Doc: "the result of fault_start"}},
		Do: do(func(c *call) (starlark.Value, error) {
			n, err := arg[*active](c, "fault").rules.LetGo()
			if err != nil {
				return nil, c.Worldly(err)
			}
			return starlark.MakeInt(n), nil
		}),
	}
}

// faultAllEntry is the builtin for the same faults on several services.
func faultAllEntry(ld *loader) entry {
	return entry{
		Name: "fault_all", Phases: bind.InBody, Reach: bind.InjectsEverywhere,
		Doc: "puts the same rules on calls in force on several services while a function runs, and lifts them even when it fails. It returns the function's result. " +
			"Each service counts for itself, and each has its own rule.",
		Example: `r = fault_all([api, db], write = deny("ENOSPC"), run = lambda: api.post(path = "/orders"))`,
		Params: []param{
			{Name: "services", Kind: bind.List(topology.ServiceKind()), Required: true, Doc: "the services"},
			{Name: "run", Kind: bind.Function(0), Required: true, Doc: "what to do meanwhile"},
		},
		Rest: callKeywords(ld),
		Do: do(func(c *call) (starlark.Value, error) {
			services := argList[string](c, "services")
			if !c.Bad && len(services) == 0 {
				c.Errorf(c.Where("services"), "", "names no service")
			}
			if !c.Bad && len(c.Rest) == 0 {
				c.Errorf(c.Site.Span(), "", "has no rule: name a call (write = deny(...))")
			}
			return c.during(c.rulesOfAll(c.bodyNames()))
		}),
	}
}

// rulesOfAll makes the rules of a fault_all call.
func (c *call) rulesOfAll(ids *namer) []fault.Rule {
	var rules []fault.Rule
	for _, s := range argList[string](c, "services") {
		rules = append(rules, c.syscallRules(&namer{ids.owner + "/" + s, ids.seen}, s, "")...)
	}
	return rules
}

func aStarted() kind {
	return bind.Scalar("a result of fault_start", func(v starlark.Value) (any, bool) {
		a, ok := v.(*active)
		return a, ok
	})
}

// canBePartial keeps of a rule's calls those that can come up short, and reports the keyword where there is none.
func (c *call) canBePartial(kw bind.Keyword, s *fault.Syscall) bool {
	var can []string
	for _, name := range s.Calls {
		if slices.Contains(fault.Partials(), name) {
			can = append(can, name)
		}
	}
	s.Calls = can
	if len(can) == 0 {
		c.Errorf(kw.At, "", "%s moves no bytes that partial() could cut short; it acts on %s", kw.Name, strings.Join(fault.Partials(), ", "))
	}
	return len(can) > 0
}

// callSet is what a keyword stands for.
type callSet struct {
	fault.Family
	// glob is the path of an op; "" for any.
	glob string
}

// callsNamed finds what a keyword stands for on a service: one of its ops, a family, or a call.
func (c *call) callsNamed(kw bind.Keyword, service string) (callSet, bool) {
	ld := c.env.loader
	own := opsOf(ld.topology, service)
	if o, ok := own[kw.Name]; ok {
		return opCalls(o), true
	}
	if f, ok := fault.FamilyOf(kw.Name); ok {
		return callSet{f, ""}, true
	}
	if c.Bad || service == "" {
		return callSet{}, false // reported already
	}
	if ld.topology.Service(service) == nil {
		// A service that is not declared, which is reported, or declared later.
		c.Errorf(kw.At, "", "%s= is an op of a service; declare %s before", kw.Name, service)
		return callSet{}, false
	}
	known := calls.Names()
	for name := range own {
		known = append(known, name)
	}
	c.Errorf(kw.At, source.Nearest(kw.Name, known), "%s has no op %q", service, kw.Name)
	return callSet{}, false
}

// onLink limits a rule to the sockets of a link, and reports where that can't be.
func (c *call) onLink(kw bind.Keyword, family callSet, s *fault.Syscall) {
	switch {
	case family.Descriptor < 0:
		c.Errorf(kw.At, "", "link= does not apply to %s, which has no socket", kw.Name)
	case s.Link.A != s.Service && s.Service != "":
		c.Errorf(kw.At, "", "link= names connections that %s makes, and this is a rule on %s: give it the calls of %s", s.Link.A, s.Service, s.Link.A)
	case kw.Value.(*syscallEffect).onSet && !slices.Contains(s.On, fault.Socket) && len(s.On) > 0:
		c.Errorf(kw.At, "", "link= is for sockets, and on= leaves them out")
	}
	s.On = []fault.Descriptor{fault.Socket}
}

// opCalls are the calls of an op, as one family.
func opCalls(o spec.Op) callSet {
	set := callSet{fault.Family{Descriptor: -1, Path: -1, PathAt: -1}, o.Path}
	every := false
	for _, name := range o.Calls {
		f, _ := fault.FamilyOf(name)
		set.Calls = append(set.Calls, f.Calls...)
		set.On = append(set.On, f.On...)
		set.Descriptor, set.Path = max(set.Descriptor, f.Descriptor), max(set.Path, f.Path)
		// A call without a file or descriptor is of no kind, so that the kinds must not be looked at.
		every = every || f.Descriptor < 0 && f.Path < 0 || f.Descriptor >= 0 && f.On == nil
	}
	slices.Sort(set.Calls)
	slices.Sort(set.On)
	set.Calls, set.On = slices.Compact(set.Calls), slices.Compact(set.On)
	if every {
		set.On = nil
	}
	return set
}

// opsOf returns a service's ops.
func opsOf(t *topology.Topology, service string) map[string]spec.Op {
	if s := t.Service(service); s != nil {
		return s.Decl.Ops
	}
	return nil
}

// opNames returns the names of all ops.
func opNames(t *topology.Topology) []string {
	var names []string
	for _, s := range t.Services() {
		names = slices.AppendSeq(names, maps.Keys(s.Decl.Ops))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// opCallsNamed returns the calls of ops of a name: those of one service, or of all where it is "".
func opCallsNamed(t *topology.Topology, service, name string) []string {
	var calls []string
	for _, s := range t.Services() {
		if o, ok := s.Decl.Ops[name]; ok && (service == "" || service == s.Decl.Name) {
			calls = append(calls, opCalls(o).Calls...)
		}
	}
	return calls
}
