package starbind

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/static"
	"github.com/squallhq/squall/spec"
)

// service is a declared service as a value. Its attributes are its interfaces; those of its only
// interface may be used directly.
type service struct {
	opaque
	decl   *spec.Service
	ifaces []*iface
	// partial is set where an interface could not be made; a report says why.
	partial bool
}

// Attr returns the name, an interface, or an attribute of the only interface.
func (s *service) Attr(name string) (starlark.Value, error) {
	if name == "name" {
		return starlark.String(s.decl.Name), nil
	}
	for _, i := range s.ifaces {
		if i.decl.Name == name {
			return i, nil
		}
	}
	if len(s.ifaces) == 1 {
		if v, err := s.ifaces[0].Attr(name); v != nil || err != nil {
			return v, err
		}
	}
	if s.partial {
		return bind.Broken{}, nil
	}
	return nil, starlark.NoSuchAttrError(fmt.Sprintf("service %q has no interface or method %q", s.decl.Name, name))
}

// AttrNames lists what Attr knows.
func (s *service) AttrNames() []string {
	names := []string{"name"}
	if len(s.ifaces) == 1 {
		names = s.ifaces[0].AttrNames()
	}
	for _, i := range s.ifaces {
		names = append(names, i.decl.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// iface is an interface of a service as a value. Its attributes are its address and the methods of
// its protocol.
type iface struct {
	opaque
	decl    *spec.Interface
	methods []*entry
}

// Attr returns a part of the address or a method. All parts are strings: they are put together
// with others in environments and arguments.
func (i *iface) Attr(name string) (starlark.Value, error) {
	if v, ok := addressPart(name, i.decl); ok {
		return starlark.String(v), nil
	}
	if slices.Contains(addressParts(), name) && i.decl.Service != "" {
		return nil, starlark.NoSuchAttrError(noPart(i.decl, name))
	}
	switch name {
	case "name":
		return starlark.String(i.decl.Name), nil
	case "protocol":
		return starlark.String(i.decl.Protocol), nil
	}
	for _, m := range i.methods {
		if m.Name == i.decl.Service+"."+i.decl.Name+"."+name {
			return &bind.Builtin{Entry: m}, nil
		}
	}
	return nil, starlark.NoSuchAttrError(fmt.Sprintf("interface %s.%s (%s) has no method %q", i.decl.Service, i.decl.Name, i.decl.Protocol, name))
}

// AttrNames lists what Attr knows.
func (i *iface) AttrNames() []string {
	names := append(addressParts(), "name", "protocol")
	if i.decl.Path != "" {
		names = []string{"addr", "internal_addr", "path", "name", "protocol"}
	}
	for _, m := range i.methods {
		names = append(names, m.Name[strings.LastIndexByte(m.Name, '.')+1:])
	}
	slices.Sort(names)
	return names
}

func (i *iface) target() spec.Target {
	return spec.Target{Service: i.decl.Service, Interface: i.decl.Name, Protocol: i.decl.Protocol, Port: i.decl.Port, Path: i.decl.Path}
}

// FixedAttrs says that the attributes are known before anything runs.
func (s *service) FixedAttrs() {}

// FixedAttrs says that the attributes are known before anything runs.
func (i *iface) FixedAttrs() {}

// FixedAttrs says that the attributes are known before anything runs.
func (r *reference) FixedAttrs() {}

// FixedAttrs says that the attributes are known before anything runs.
func (n *namespace) FixedAttrs() {}

// Target returns the service.
func (s *service) Target() (service, iface string) { return s.decl.Name, "" }

// Target returns the interface.
func (i *iface) Target() (service, iface string) { return i.decl.Service, i.decl.Name }

// Target returns the service.
func (r *reference) Target() (service, iface string) { return r.name, "" }

// Target returns the interface.
func (r *interfaceReference) Target() (service, iface string) { return r.service.name, r.name }

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

func addressParts() []string { return []string{"addr", "internal_addr", "host", "port"} }

// addressPart is one part of an address. Services are reached by their names, from each other and
// from the scenario alike.
func addressPart(part string, i *spec.Interface) (string, bool) {
	port := strconv.Itoa(i.Port)
	if i.Path != "" {
		return i.Path, part == "path" || part == "addr" || part == "internal_addr"
	}
	switch part {
	case "addr", "internal_addr":
		return i.Service + ":" + port, true
	case "host":
		return i.Service, true
	case "port":
		return port, true
	}
	return "", false
}

// noPart says why an interface does not have a part of an address.
func noPart(i *spec.Interface, part string) string {
	if i.Path != "" {
		return fmt.Sprintf("%s.%s is the Unix socket %s, which has no %s; its addr is the path", i.Service, i.Name, i.Path, part)
	}
	return fmt.Sprintf("%s.%s is at port %d and has no %s", i.Service, i.Name, i.Port, part)
}

// reference is a service by name, perhaps declared later.
type reference struct {
	opaque
	ld   *loader
	name string
	at   source.Span
}

// Attr returns an interface by name or, for the only interface, a part of its address.
func (r *reference) Attr(name string) (starlark.Value, error) {
	if name == "name" {
		return starlark.String(r.name), nil
	}
	if slices.Contains(addressParts(), name) {
		return starlark.String(r.ld.decls.placeholder(r, "", name)), nil
	}
	return &interfaceReference{named("interface", "ref("+strconv.Quote(r.name)+")."+name), r, name}, nil
}

// AttrNames lists the parts that are known without the service.
func (r *reference) AttrNames() []string { return append(addressParts(), "name") }

// interfaceReference is an interface of a service that is perhaps declared later.
type interfaceReference struct {
	opaque
	service *reference
	name    string
}

// Attr returns a part of the address, to be filled in when all is declared.
func (r *interfaceReference) Attr(name string) (starlark.Value, error) {
	if name == "path" || slices.Contains(addressParts(), name) {
		return starlark.String(r.service.ld.decls.placeholder(r.service, r.name, name)), nil
	}
	return nil, nil
}

// AttrNames lists what Attr knows.
func (r *interfaceReference) AttrNames() []string { return append(addressParts(), "path") }

// health is a healthcheck as a value.
type health struct {
	opaque
	decl spec.Health
	at   source.Span
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
	hooks hooks
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
	hooks hooks
	at    source.Span
}

// hooks are the properties that something carries.
type hooks struct {
	monitors []*monitorValue
	temporal []*temporalValue
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
	_ static.Fixed      = (*service)(nil)
	_ static.Fixed      = (*iface)(nil)
	_ static.Fixed      = (*reference)(nil)
	_ static.Fixed      = (*namespace)(nil)
	_ starlark.HasAttrs = (*interfaceReference)(nil)
	_ static.Target     = (*interfaceReference)(nil)
	_ static.Injector   = (*assumption)(nil)
	_ static.Actor      = (*linkRule)(nil)
	_ static.Actor      = (*syscallEffect)(nil)
)
