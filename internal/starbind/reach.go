package starbind

import (
	"cmp"
	"maps"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/fault"
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
	ld         *loader
	functions  map[*starlark.Function]bool
	containers map[starlark.Value]bool
	calls      map[string]map[string]bool
	links      map[fault.Pair]bool
	everything bool
}

// reachOf returns what a scenario's functions may inject.
func (ld *loader) reachOf(fns ...starlark.Callable) []spec.Scope {
	r := &reacher{
		ld: ld, functions: map[*starlark.Function]bool{}, containers: map[starlark.Value]bool{},
		calls: map[string]map[string]bool{}, links: map[fault.Pair]bool{},
	}
	for _, fn := range fns {
		if fn != nil {
			r.value(fn)
		}
	}
	return r.scopes()
}

func (r *reacher) scopes() []spec.Scope {
	if r.everything {
		return []spec.Scope{{Everything: true}}
	}
	var out []spec.Scope
	for _, service := range slices.Sorted(maps.Keys(r.calls)) {
		out = append(out, spec.Scope{Service: service, Calls: slices.Sorted(maps.Keys(r.calls[service]))})
	}
	if len(r.links) > 0 {
		pairs := slices.SortedFunc(maps.Keys(r.links), func(a, b fault.Pair) int {
			return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B), cmp.Compare(a.Interface, b.Interface))
		})
		out = append(out, spec.Scope{Links: pairs})
	}
	return out
}

// value takes a value that reachable code may hold.
func (r *reacher) value(v starlark.Value) {
	switch v := v.(type) {
	case *starlark.Function:
		r.function(v)
	case *builtin:
		if v.entry.reach != injectsNothing {
			r.everything = true
		}
	case *assumption:
		r.rules(v.decl.Rules)
	case *linkRule:
		if v.pair != nil {
			r.links[*v.pair] = true
		}
	case *linkValue:
		r.links[v.pair] = true
	case *starlark.List, *starlark.Dict, *starlark.Set:
		if !r.containers[v] {
			r.containers[v] = true
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
	node := r.ld.index.funcs[placeOf(fn.Position())]
	if node == nil {
		r.everything = true
		return
	}
	r.walk(node, r.ld.namesIn(node, fn.Globals(), free))
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
func injectors(n *names, e syntax.Expr) []*builtin {
	var out []*builtin
	list, _ := n.values(e)
	for _, v := range list {
		if b, ok := v.(*builtin); ok && b.entry.reach != injectsNothing {
			out = append(out, b)
		}
	}
	return out
}

func (r *reacher) callExpr(e *syntax.CallExpr, n *names) {
	var found []*builtin
	if _, plain := e.Fn.(*syntax.Ident); plain {
		found = injectors(n, e.Fn)
	}
	if len(found) == 0 {
		r.walk(e.Fn, n)
	}
	for _, b := range found {
		switch b.entry.reach {
		case injectsRules:
			r.faultCall(e, n)
		case injectsPartition:
			r.pairCall(e, n, "a", "b", false)
		case injectsLink:
			r.pairCall(e, n, "client", "server", true)
		}
	}
	for _, a := range e.Args {
		if x, _, star := starred(a); star {
			r.walk(x, n)
			continue
		}
		_, value := keyword(a)
		r.walk(value, n)
	}
}

// faultCall takes a call of fault or fault_start.
func (r *reacher) faultCall(e *syntax.CallExpr, n *names) {
	var positional []syntax.Expr
	var keywords []string
	at := site{node: e}
	for _, a := range e.Args {
		x, op, star := starred(a)
		id, value := keyword(a)
		switch {
		case star && op == syntax.STAR:
			r.everything = true
		case star:
			keys, ok := dictKeys(n, x)
			r.everything = r.everything || !ok
			keywords = append(keywords, keys...)
		case id != nil:
			keywords = append(keywords, id.Name)
		default:
			positional = append(positional, value)
		}
	}
	tgt := at.valueExpr("target", 0)
	effects := positional
	if len(positional) > 0 && positional[0] == tgt {
		effects = positional[1:]
	}
	targets, all := r.targets(n, tgt)
	if len(targets) == 0 && !all {
		targets = []target{{}}
	}
	source := r.targetNames(n, at.valueExpr("source", -1))
	for _, name := range keywords {
		family, ok := fault.FamilyOf(name)
		if !ok {
			continue
		}
		for _, t := range targets {
			r.call(t.service, family.Calls)
		}
	}
	if len(effects) == 0 {
		return
	}
	for _, t := range targets {
		for _, s := range source {
			r.links[fault.Pair{A: s, B: t.service, Interface: t.iface, Directed: true}] = true
		}
	}
}

// targets returns the services and interfaces that an expression may stand for. An assumption or
// a rule is none of them: it is taken where it is mentioned.
func (r *reacher) targets(n *names, e syntax.Expr) ([]target, bool) {
	if e == nil {
		return nil, false
	}
	if c, ok := e.(*syntax.CallExpr); ok {
		if v, known := n.one(c.Fn); known {
			if b, ok := v.(*builtin); ok && makesRule(b.entry) {
				return nil, true // it says itself between whom
			}
		}
	}
	list, all := n.values(e)
	var out []target
	for _, v := range list {
		if t, ok := targetOf(v); ok {
			out = append(out, t)
		}
	}
	if !all {
		out = []target{{}}
	}
	return out, all
}

func makesRule(e *entry) bool {
	_, ok := fault.LinkKindOf(fault.LinkKind(e.name))
	return ok
}

// targetNames returns the services that an expression may stand for; "" is any.
func (r *reacher) targetNames(n *names, e syntax.Expr) []string {
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
	at := site{node: e}
	for _, arg := range e.Args {
		if _, _, star := starred(arg); star {
			r.links[fault.Pair{Directed: directed}] = true
			return
		}
	}
	ends, all := r.targets(n, at.valueExpr(b, 1))
	if !all || len(ends) == 0 {
		ends = []target{{}}
	}
	for _, from := range r.targetNames(n, at.valueExpr(a, 0)) {
		for _, to := range ends {
			r.links[fault.Pair{A: from, B: to.service, Interface: to.iface, Directed: directed}] = true
		}
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
