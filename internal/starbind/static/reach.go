package static

import (
	"cmp"
	"maps"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/spec"
)

// reacher finds what code may inject, without running it.
//
// A function counts as reachable where reachable code mentions it, called or not: a value that is
// called under a name that can't be resolved has been mentioned somewhere before. So an unknown
// callee needs no further thought. What can't be resolved is a builtin that injects and is
// mentioned otherwise than by calling it, and **keywords or *arguments of unknown content; then
// everything is reachable.
type reacher struct {
	program    *Program
	functions  map[*starlark.Function]bool
	containers map[visit]bool
	calls      map[string]map[string]bool
	links      map[fault.Pair]bool
	messages   map[fault.Pair]bool
	everything bool
	// narrow says that what is walked is the on= of an effect on connections, so that its link is for such only.
	narrow bool
	// checks is set where a builtin is reachable that can keep a leaf from passing.
	checks bool
}

// visit is a container that was looked into.
type visit struct {
	value  starlark.Value
	narrow bool
}

// Reach returns what a scenario's functions may inject.
func (p *Program) Reach(fns ...starlark.Callable) []spec.Scope { return p.reach(fns...).scopes() }

// Checks reports whether a function can reach a builtin that keeps a leaf from passing; so it can, as far as
// is known, where its code can't be found.
func (p *Program) Checks(fn starlark.Callable) bool {
	r := p.reach(fn)
	return r.checks || r.everything
}

func (p *Program) reach(fns ...starlark.Callable) *reacher {
	r := &reacher{
		program: p, functions: map[*starlark.Function]bool{}, containers: map[visit]bool{},
		calls: map[string]map[string]bool{}, links: map[fault.Pair]bool{}, messages: map[fault.Pair]bool{},
	}
	for _, fn := range fns {
		if fn != nil {
			r.value(fn)
		}
	}
	return r
}

func (r *reacher) scopes() []spec.Scope {
	if r.everything {
		return []spec.Scope{{Everything: true}}
	}
	var out []spec.Scope
	for _, service := range slices.Sorted(maps.Keys(r.calls)) {
		out = append(out, spec.Scope{Service: service, Calls: slices.Sorted(maps.Keys(r.calls[service]))})
	}
	if len(r.links)+len(r.messages) > 0 {
		out = append(out, spec.Scope{Links: sorted(r.links), Messages: sorted(r.messages)})
	}
	return out
}

func sorted(pairs map[fault.Pair]bool) []fault.Pair {
	return slices.SortedFunc(maps.Keys(pairs), func(a, b fault.Pair) int {
		return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B), cmp.Compare(a.Interface, b.Interface))
	})
}

// value takes a value that reachable code may hold.
func (r *reacher) value(v starlark.Value) {
	switch v := v.(type) {
	case *starlark.Function:
		r.function(v)
	case *bind.Builtin:
		r.checks = r.checks || v.Entry.Checks
		if v.Entry.Reach != bind.InjectsNothing {
			r.everything = true
		}
	case Injector:
		rules, pairs := v.Injects()
		r.rules(rules)
		for _, p := range pairs {
			r.links[p] = true
		}
	case *starlark.List, *starlark.Dict, *starlark.Set:
		if at := (visit{v, r.narrow}); !r.containers[at] {
			r.containers[at] = true
			r.contents(v)
		}
	default:
		r.contents(v)
	}
}

func (r *reacher) contents(v starlark.Value) {
	list, _ := contents(v)
	for _, item := range list {
		r.value(item)
	}
}

func (r *reacher) rules(list []fault.Rule) {
	for _, rule := range list {
		if s := rule.Syscall; s != nil {
			r.call(s.Service, s.Calls)
		}
		if rule.Link != nil {
			r.links[rule.Link.Pair] = true
		}
		if rule.Message != nil && !r.narrow {
			r.messages[rule.Message.Pair] = true
		}
	}
}

func (r *reacher) call(service string, calls []string) {
	if r.calls[service] == nil {
		r.calls[service] = map[string]bool{}
	}
	for _, c := range calls {
		r.calls[service][c] = true
	}
}

func (r *reacher) function(fn *starlark.Function) {
	if r.functions[fn] {
		return
	}
	r.functions[fn] = true
	// A function is walked once, whoever mentions it.
	defer func(narrow bool) { r.narrow = narrow }(r.narrow)
	r.narrow = false
	for i := range fn.NumParams() {
		if v := fn.ParamDefault(i); v != nil {
			r.value(v)
		}
	}
	free := starlark.StringDict{}
	for i := range fn.NumFreeVars() {
		if b, v := fn.FreeVar(i); v != nil {
			free[b.Name] = v
		}
	}
	node := r.program.Index.Funcs[source.PlaceOf(fn.Position())]
	if node == nil {
		r.everything = true
		return
	}
	r.walk(node, r.program.namesIn(node, fn.Globals(), free))
}

// walk goes through the text of a function. Nested functions are part of it.
func (r *reacher) walk(node syntax.Node, n *names) {
	syntax.Walk(node, func(s syntax.Node) bool {
		switch s := s.(type) {
		case *syntax.CallExpr:
			r.callExpr(s, n)
			return false
		case *syntax.DotExpr:
			r.walk(s.X, n)
			return false
		case *syntax.AssignStmt:
			r.assignment(s, n)
			return false
		case *syntax.Ident:
			list, _ := n.values(s)
			for _, v := range list {
				r.value(v)
			}
		}
		return true
	})
}

// assignment takes f = fault as another name for fault: what f is called with is seen where it is called.
func (r *reacher) assignment(s *syntax.AssignStmt, n *names) {
	if _, simple := s.LHS.(*syntax.Ident); simple && s.Op == syntax.EQ {
		if alias, ok := s.RHS.(*syntax.Ident); ok && len(injectors(n, alias)) > 0 {
			return
		}
	} else {
		r.walk(s.LHS, n)
	}
	r.walk(s.RHS, n)
}

// injectors returns the injecting builtins that an expression may stand for.
func injectors(n *names, e syntax.Expr) []*bind.Builtin {
	var out []*bind.Builtin
	list, _ := n.values(e)
	for _, v := range list {
		if b, ok := v.(*bind.Builtin); ok && b.Entry.Reach != bind.InjectsNothing {
			out = append(out, b)
		}
	}
	return out
}

func (r *reacher) callExpr(e *syntax.CallExpr, n *names) {
	var found []*bind.Builtin
	if _, plain := e.Fn.(*syntax.Ident); plain {
		found = injectors(n, e.Fn)
	}
	if len(found) == 0 {
		r.walk(e.Fn, n)
	}
	for _, b := range found {
		switch b.Entry.Reach {
		case bind.InjectsRules:
			r.faultCall(e, n)
		case bind.InjectsPartition:
			r.pairCall(e, n, "a", "b", false)
		case bind.InjectsEverywhere:
			r.everywhere(e, n)
		case bind.InjectsTrace:
			r.traceCall(e, n)
		case bind.InjectsLink:
			r.pairCall(e, n, "client", "server", true)
		}
	}
	for _, a := range e.Args {
		if x, _, star := source.Starred(a); star {
			r.walk(x, n)
			continue
		}
		id, value := source.Keyword(a)
		if id != nil && id.Name == "on" && r.connectionsOnly(e, n) {
			r.walkNarrow(value, n)
			continue
		}
		r.walk(value, n)
	}
}

// connectionsOnly reports whether a call makes an effect on connections, and on nothing else.
func (r *reacher) connectionsOnly(e *syntax.CallExpr, n *names) bool {
	v, _ := n.one(e.Fn)
	b, ok := v.(*bind.Builtin)
	return ok && b.Entry.Acts == bind.OnConnections
}

func (r *reacher) walkNarrow(e syntax.Expr, n *names) {
	r.narrow = true
	defer func() { r.narrow = false }()
	r.walk(e, n)
}

// traceCall takes a call of trace.
func (r *reacher) traceCall(e *syntax.CallExpr, n *names) {
	at := source.Site{Node: e}
	targets, known := r.targets(n, at.ValueExpr("service", 0))
	v, ok := n.one(at.ValueExpr("syscalls", 1))
	list, isList := at.ValueExpr("syscalls", 1).(*syntax.ListExpr)
	var calls []starlark.Value
	switch {
	case isList:
		for _, x := range list.List {
			one, fixed := n.one(x)
			calls, ok = append(calls, one), fixed
			if !fixed {
				break
			}
		}
		ok = ok || len(list.List) == 0
	case ok:
		calls, ok = contents(v)
	}
	if !known || !ok {
		r.everything = true
		return
	}
	for _, c := range calls {
		name, _ := starlark.AsString(c)
		if family, ok := fault.FamilyOf(name); ok {
			for _, t := range targets {
				r.call(t.service, family.Calls)
			}
		}
	}
}

// faultCall takes a call of fault or fault_start.
func (r *reacher) faultCall(e *syntax.CallExpr, n *names) {
	at := source.Site{Node: e}
	tgt := at.ValueExpr("target", 0)
	targets, _ := r.targets(n, tgt)
	keywords, acts := r.arguments(e, n, tgt)
	r.named(targets, keywords)
	for _, s := range r.services(n, at.ValueExpr("source", -1)) {
		for _, t := range targets {
			p := fault.Pair{A: s, B: t.service, Interface: t.iface, Directed: true}
			if acts&bind.OnConnections != 0 {
				r.links[p] = true
			}
			if acts&bind.OnMessages != 0 {
				r.messages[p] = true
			}
		}
	}
}

// named takes keywords that stand for calls of services.
func (r *reacher) named(targets []target, keywords []string) {
	for _, name := range keywords {
		family, ok := fault.FamilyOf(name)
		for _, t := range targets {
			if ok {
				r.call(t.service, family.Calls)
			} else if r.program.Op != nil {
				r.call(t.service, r.program.Op(t.service, name))
			}
		}
	}
}

// everywhere takes a call of fault_all: a list of services, and keywords.
func (r *reacher) everywhere(e *syntax.CallExpr, n *names) {
	list := source.Site{Node: e}.ValueExpr("services", 0)
	var targets []target
	known := list != nil
	if known {
		var services []starlark.Value
		services, known = n.elements(list, 0)
		for _, v := range services {
			if t, ok := v.(Target); ok {
				service, iface := t.Target()
				targets = append(targets, target{service, iface})
			}
		}
	}
	if !known {
		targets = []target{{}}
	}
	keywords, _ := r.arguments(e, n, list)
	r.named(targets, keywords)
}

// acts tells on what the rules act that an expression may stand for.
func acts(n *names, e syntax.Expr) bind.Acts {
	const either = bind.OnConnections | bind.OnMessages
	if c, ok := e.(*syntax.CallExpr); ok {
		v, _ := n.one(c.Fn)
		if b, ok := v.(*bind.Builtin); ok && b.Entry.Acts != 0 {
			return b.Entry.Acts
		}
		return either
	}
	list, all := n.values(e)
	if !all {
		return either
	}
	var out bind.Acts
	for _, v := range list {
		a, ok := v.(Actor)
		if !ok {
			return either
		}
		connections, messages := a.Acts()
		if connections {
			out |= bind.OnConnections
		}
		if messages {
			out |= bind.OnMessages
		}
	}
	return out
}

// arguments returns the keywords of a call, and on what its positional arguments beyond its target act.
func (r *reacher) arguments(e *syntax.CallExpr, n *names, tgt syntax.Expr) (keywords []string, effects bind.Acts) {
	for _, a := range e.Args {
		x, op, star := source.Starred(a)
		id, value := source.Keyword(a)
		switch {
		case star && op == syntax.STAR:
			r.everything = true
		case star:
			keys, ok := dictKeys(n, x)
			r.everything = r.everything || !ok
			keywords = append(keywords, keys...)
		case id != nil:
			keywords = append(keywords, id.Name)
		case value != tgt:
			effects |= acts(n, value)
		}
	}
	return keywords, effects
}

// target is a service or one of its interfaces; "" is any.
type target struct{ service, iface string }

// targets returns the services and interfaces that an expression may stand for. An assumption or
// a rule is none of them: it is taken where it is mentioned.
func (r *reacher) targets(n *names, e syntax.Expr) ([]target, bool) {
	if e == nil {
		return []target{{}}, false
	}
	if c, ok := e.(*syntax.CallExpr); ok {
		if v, known := n.one(c.Fn); known {
			if b, ok := v.(*bind.Builtin); ok && (makesRule(b.Entry) || b.Entry.Reach == bind.InjectsLink) {
				return nil, true // it says itself between whom
			}
		}
	}
	list, all := n.values(e)
	var out []target
	for _, v := range list {
		if t, ok := v.(Target); ok {
			service, iface := t.Target()
			out = append(out, target{service, iface})
		}
	}
	if !all {
		out = []target{{}}
	}
	return out, all
}

func makesRule(e *bind.Entry) bool { return e.Acts != 0 }

// services returns the services that an expression may stand for; "" is any.
func (r *reacher) services(n *names, e syntax.Expr) []string {
	if e == nil {
		return []string{""}
	}
	list, all := r.targets(n, e)
	if !all || len(list) == 0 {
		return []string{""}
	}
	var out []string
	for _, t := range list {
		out = append(out, t.service)
	}
	return out
}

// pairCall takes a call whose two arguments are the ends of a link.
func (r *reacher) pairCall(e *syntax.CallExpr, n *names, a, b string, directed bool) {
	at := source.Site{Node: e}
	for _, arg := range e.Args {
		if _, _, star := source.Starred(arg); star {
			r.pair(fault.Pair{Directed: directed})
			return
		}
	}
	ends, all := r.targets(n, at.ValueExpr(b, 1))
	if !all || len(ends) == 0 {
		ends = []target{{}}
	}
	for _, from := range r.services(n, at.ValueExpr(a, 0)) {
		for _, to := range ends {
			r.pair(fault.Pair{A: from, B: to.service, Interface: to.iface, Directed: directed})
		}
	}
}

// pair takes a pair that rules of any sort may be put on; what is not directed is for connections only.
func (r *reacher) pair(p fault.Pair) {
	r.links[p] = true
	if p.Directed && !r.narrow {
		r.messages[p] = true
	}
}

// dictKeys returns the keys of a dict whose content is known: a global one, which is frozen.
func dictKeys(n *names, e syntax.Expr) ([]string, bool) {
	v, ok := n.one(e)
	d, isDict := v.(*starlark.Dict)
	if !ok || !isDict {
		return nil, false
	}
	var keys []string
	for _, k := range d.Keys() {
		s, ok := starlark.AsString(k)
		if !ok {
			return nil, false
		}
		keys = append(keys, s)
	}
	return keys, true
}
