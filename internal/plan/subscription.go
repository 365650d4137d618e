package plan

import (
	"slices"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/spec"
)

// Reach is everything that a leaf may do to a system: the rules of its assumption and what its
// scenario's code can inject. It is fixed before any program starts.
type Reach struct {
	rules  []fault.Rule
	scopes []spec.Scope
}

// Reach returns what a leaf may do.
func (l *Leaf) Reach() Reach { return Reach{rules: l.Rules(), scopes: l.Scenario.MayInject} }

// Calls returns the system calls of a service that a rule may select, sorted.
func (r Reach) Calls(service string) []string {
	set := map[string]bool{}
	for _, rule := range r.rules {
		if s := rule.Syscall; s != nil && s.Service == service {
			for _, c := range s.Calls {
				set[c] = true
			}
		}
	}
	for _, sc := range r.scopes {
		if sc.Service != "" && sc.Service != service {
			continue
		}
		for _, c := range sc.Calls {
			set[c] = true
		}
		if sc.Everything {
			for _, f := range fault.Families() {
				for _, c := range f.Calls {
					set[c] = true
				}
			}
		}
	}
	calls := make([]string, 0, len(set))
	for c := range set {
		calls = append(calls, c)
	}
	slices.Sort(calls)
	return calls
}

// Relays reports whether rules may act on connections from client to an interface of server as such.
func (r Reach) Relays(client, server, iface string) bool {
	matches := func(p fault.Pair) bool { return p.Matches(client, server, iface) }
	return slices.ContainsFunc(r.rules, func(rule fault.Rule) bool { return rule.Link != nil && matches(rule.Link.Pair) }) ||
		slices.ContainsFunc(r.scopes, func(sc spec.Scope) bool { return sc.Everything || slices.ContainsFunc(sc.Links, matches) })
}

// Touches reports whether connections from client to an interface of server may be acted on.
// Those that may not are direct: no relay stands in them.
func (r Reach) Touches(client, server, iface string) bool {
	for _, rule := range r.rules {
		if rule.Link != nil && rule.Link.Pair.Matches(client, server, iface) {
			return true
		}
	}
	for _, sc := range r.scopes {
		if sc.Everything {
			return true
		}
		for _, p := range sc.Links {
			if p.Matches(client, server, iface) {
				return true
			}
		}
	}
	return r.Speaks(client, server, iface)
}

// Speaks reports whether rules may act on the messages of connections from client to an interface of
// server, so that these have to be told apart from the first byte.
func (r Reach) Speaks(client, server, iface string) bool {
	for _, rule := range r.rules {
		if rule.Message != nil && rule.Message.Pair.Matches(client, server, iface) {
			return true
		}
	}
	for _, sc := range r.scopes {
		if sc.Everything {
			return true
		}
		for _, p := range sc.Messages {
			if p.Matches(client, server, iface) {
				return true
			}
		}
	}
	return false
}

// Allows returns why a rule may not be injected by the leaf's code, or "" where it may.
func (r Reach) Allows(rule fault.Rule) string {
	if s := rule.Syscall; s != nil {
		calls := r.Calls(s.Service)
		for _, c := range s.Calls {
			if !slices.Contains(calls, c) {
				return "calls of " + s.Service + " to " + c + " were not subscribed to when it started"
			}
		}
		return ""
	}
	if m := rule.Message; m != nil {
		if r.allowsMessages(m.Pair) {
			return ""
		}
		return "the messages " + rule.Target() + " were not told apart when the services started"
	}
	if rule.Process != nil {
		return ""
	}
	if rule.Link == nil {
		return "the rule has no effect"
	}
	if r.allowsPair(rule.Link.Pair) {
		return ""
	}
	return "the connections " + rule.Target() + " were not mediated when the services started"
}

// covers returns a test whether a subscribed pair covers p wholly.
func covers(p fault.Pair) func(have fault.Pair) bool {
	return func(have fault.Pair) bool {
		fits := func(h, w string) bool { return h == "" || h == w }
		if !fits(have.Interface, p.Interface) || have.Directed && !p.Directed {
			return false
		}
		return fits(have.A, p.A) && fits(have.B, p.B) ||
			!have.Directed && fits(have.A, p.B) && fits(have.B, p.A)
	}
}

func (r Reach) allowsMessages(p fault.Pair) bool {
	covers := covers(p)
	for _, rule := range r.rules {
		if rule.Message != nil && covers(rule.Message.Pair) {
			return true
		}
	}
	return slices.ContainsFunc(r.scopes, func(sc spec.Scope) bool {
		return sc.Everything || slices.ContainsFunc(sc.Messages, covers)
	})
}

// allowsPair reports whether some subscribed pair covers p wholly.
func (r Reach) allowsPair(p fault.Pair) bool {
	covers := covers(p)
	for _, rule := range r.rules {
		if rule.Link != nil && covers(rule.Link.Pair) {
			return true
		}
	}
	for _, sc := range r.scopes {
		if sc.Everything || slices.ContainsFunc(sc.Links, covers) {
			return true
		}
	}
	return false
}
