package starbind

import (
	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/static"
	"github.com/squallhq/squall/spec"
)

// FixedAttrs says that the attributes are known before anything runs.
func (n *namespace) FixedAttrs() {}

// Injects returns the assumption's rules.
func (a *assumption) Injects() ([]fault.Rule, []fault.Pair) { return a.decl.Rules, nil }

// Injects returns the pair, where the rule itself says it.
func (r *linkRule) Injects() ([]fault.Rule, []fault.Pair) {
	if r.pair == nil {
		return nil, nil
	}
	return onMessages(*r.pair, r.message != nil), []fault.Pair{*r.pair}
}

// Acts tells on what the rule acts.
func (r *linkRule) Acts() (connections, messages bool) { return r.effect.Kind != "", r.message != nil }

// Acts tells on what a delay acts that stands among the rules on connections.
func (e *syscallEffect) Acts() (connections, messages bool) { return false, e.message != nil }

// Injects returns the pair: a rule of any sort may be put on it.
func (l *linkValue) Injects() ([]fault.Rule, []fault.Pair) {
	return onMessages(l.pair, true), []fault.Pair{l.pair}
}

// onMessages stands for a rule on the messages of a pair, where there may be one.
func onMessages(p fault.Pair, may bool) []fault.Rule {
	if !may {
		return nil
	}
	return []fault.Rule{{Message: &fault.Message{Pair: p}}}
}

// syscallEffect is what deny() and delay() return: the keyword that takes it says to which calls.
type syscallEffect struct {
	opaque
	rule fault.Syscall
	// message is what a delay does where it stands among the rules on connections.
	message *messageEffect
	ruleOptions
}

// linkRule is an effect on connections: latency(), partition() and the like.
type linkRule struct {
	opaque
	effect    fault.LinkEffect
	direction fault.Direction
	// pair is set where the rule itself says between whom.
	pair *fault.Pair
	// message is set where it acts on requests: alone, or where the target's messages can be told apart.
	message *messageEffect
	// process is set where it acts on the target's processes, and on nothing else.
	process *fault.Process
	// drawn is when for requests, where that differs.
	drawn fault.When
	ruleOptions
}

// ruleOptions is what every rule may say.
type ruleOptions struct {
	when     fault.When
	onSet    bool
	optional bool
	during   string
	label    string
	at       source.Span
}

// linkValue is what link() returns.
type linkValue struct {
	opaque
	pair fault.Pair
}

// assumption is a named fault as a value.
type assumption struct {
	opaque
	decl *spec.Assumption
	// hooks are the properties that it carries, settled when the load ends.
	hooks oracle.Hooks
	at    source.Span
}

// scenario is a declared scenario as a value.
type scenario struct {
	opaque
	decl *spec.Scenario
	fn   starlark.Callable
	// expects are the functions that judge its results, here and in matrices.
	expects []starlark.Callable
	// setup runs before fn; it may be nil.
	setup starlark.Callable
	hooks oracle.Hooks
	at    source.Span
}

// namespace is a module of builtins, such as match and observe.
type namespace struct {
	opaque
	members starlark.StringDict
}

// Attr returns a member.
func (n *namespace) Attr(name string) (starlark.Value, error) {
	if v := n.members[name]; v != nil {
		return v, nil
	}
	return nil, nil
}

// AttrNames lists the members.
func (n *namespace) AttrNames() []string { return n.members.Keys() }

var (
	_ static.Fixed    = (*namespace)(nil)
	_ static.Injector = (*assumption)(nil)
	_ static.Actor    = (*linkRule)(nil)
	_ static.Actor    = (*syscallEffect)(nil)
)
