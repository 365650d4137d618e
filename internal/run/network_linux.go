package run

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/launch"
	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/link/dial"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// network joins the services' networks: the dialer carries out connects, the links move bytes under
// the rules in force.
type network struct {
	l      *leaf
	links  *link.Network
	dialer *dial.Dialer
	spaces map[string]*launch.Network
	// shared tells that the services are on the machine's own network, where no link can be mediated:
	// the filters and the addresses that it takes are not ours.
	shared bool
	// numbers replaces name:port by address:port; nil where the world has names of its own.
	numbers *strings.Replacer

	mu sync.Mutex
	// opened has the event of each connection's connect, the cause of what happens on it.
	opened map[link.Flow]int64
}

// newNetwork makes a network for each service.
func newNetwork(l *leaf, in *launch.Inside) (*network, error) {
	n := &network{l: l, spaces: map[string]*launch.Network{}, opened: map[link.Flow]int64{}}
	if in.Mode == launch.ModeShared {
		n.shared = true
		n.numbers = numbers(l.system.suite.Services)
	}
	n.links = link.New(link.Config{Seed: l.plan.Seed, Clock: l.clock, Record: n.record, Join: !n.shared, Messages: l.system.messages.Follow})
	spaces := map[string]dial.Namespace{}
	for _, s := range l.system.suite.Services {
		space, err := in.NewNetwork(s.Name)
		if err != nil {
			return nil, err
		}
		n.spaces[s.Name], spaces[s.Name] = space, space
	}
	var err error
	n.dialer, err = dial.New(dial.Config{
		Services: l.system.suite.Services, Namespaces: spaces, Links: n.links, Touched: n.touched,
		Clock: l.clock, Observe: n.observe,
	})
	if err != nil {
		return nil, fmt.Errorf("run: network: %w", err)
	}
	return n, nil
}

// observe writes down a connect once it is decided.
func (n *network) observe(a dial.Attempt) {
	if a.Code != "" || a.Flow.Server == "" {
		fields := map[string]any{"address": a.Address.String(), "errno": fault.ErrnoName(a.Errno)}
		if a.Code == verdict.AmbiguousLocalhost {
			fields["code"] = string(a.Code)
		} else {
			fields["code"] = string(verdict.UndeclaredIOWarning)
		}
		fields["message"] = fmt.Sprintf("%s tried to reach %s, which nothing declares; it was refused", a.Flow.Client, a.Address)
		if a.Code == verdict.AmbiguousLocalhost {
			n.l.log.Append(a.Flow.Client, event.Unmet, fields)
			return
		}
		n.l.undeclared(a.Flow.Client, a.Address.Port(), fields)
		return
	}
	name := a.Flow.String()
	fields := map[string]any{
		"op": "connect", "client": a.Flow.Client, "server": a.Flow.Server, "interface": a.Flow.Interface,
		"flow": name, "direct": a.Direct,
	}
	if a.Errno != 0 && a.Errno != int(unix.EINPROGRESS) {
		fields["errno"] = fault.ErrnoName(a.Errno)
	}
	e := n.l.log.Append(a.Flow.Client, event.Link, fields)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened[a.Flow] = e.Seq
}

// record writes down what happened on a link. It is called with the links' locks held.
func (n *network) record(r link.Record) {
	switch r.Op {
	case link.OpInstalled, link.OpLifted:
		return // faults says so, for rules of every sort
	case link.OpClose, link.OpReset, link.OpCut:
		n.l.system.messages.Over(r.Flow)
	}
	fields := map[string]any{
		"op": string(r.Op), "client": r.Flow.Client, "server": r.Flow.Server, "interface": r.Flow.Interface,
		"flow": r.Flow.String(),
	}
	add := func(name string, set bool, v any) {
		if set {
			fields[name] = v
		}
	}
	add("direction", r.Direction != "", string(r.Direction))
	add("bytes", r.Bytes > 0, r.Bytes)
	add("up", r.Up > 0, r.Up)
	add("down", r.Down > 0, r.Down)
	add("errno", r.Errno != "", r.Errno)
	add("rule", r.Rule != "", r.Rule)
	add("index", r.Index > 0, r.Index)
	add("fired", r.Op == link.OpFired, int64(r.Count))
	causes := []int64{}
	if seq := n.openedBy(r.Flow); seq > 0 {
		causes = append(causes, seq)
	}
	if r.Rule != "" {
		causes = append(causes, n.l.faults.Since(r.Rule))
	}
	n.l.log.Append(r.Flow.Client, event.Link, fields, causes...)
}

// openedBy returns the event of a connection's connect, 0 where it is not known.
func (n *network) openedBy(f link.Flow) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.opened[f]
}

// heal lifts what is in force still, so that services can end in an orderly way.
func (n *network) heal() {
	for _, r := range n.links.Matching("", "", "") {
		n.links.Lift(r.ID)
	}
}

func (n *network) decisions() []bundle.Decision { return n.links.Decisions() }

// touched reports whether connections may be acted on, and so are mediated.
func (n *network) touched(client, server, iface string) bool {
	return !n.shared && (n.l.reach.Touches(client, server, iface) || n.l.system.messages.Observed(server, iface))
}

// joins reports whether bytes that a service sends or receives may take a shortcut.
func (n *network) joins(service string) bool {
	if n.shared || !link.MayJoin() {
		return false
	}
	services := n.l.system.suite.Services
	for _, server := range services {
		for _, client := range services {
			if server.Name != service && client.Name != service {
				continue
			}
			if slices.ContainsFunc(server.Interfaces, func(i *spec.Interface) bool { return n.touched(client.Name, server.Name, i.Name) }) {
				return true
			}
		}
	}
	return false
}

// Install implements actor; it takes link rules only. On the machine's own network it refuses them: a
// rule that could not act must not look as if it had.
func (n *network) Install(rules ...fault.Rule) error {
	if n.shared {
		return link.ErrNeedsOwnedNetwork
	}
	return n.links.Install(rules...)
}

// Lift implements actor.
func (n *network) Lift(ids ...string) { n.links.Lift(ids...) }

// Fired implements actor.
func (n *network) Fired(id string) int { return n.links.Fired(id) }

// numeric makes the addresses of declared interfaces numeric where nothing resolves their names.
func (n *network) numeric(text string) string {
	if n.numbers == nil {
		return text
	}
	return n.numbers.Replace(text)
}

func numbers(services []*spec.Service) *strings.Replacer {
	var pairs []string
	for i, s := range services {
		for _, face := range s.Interfaces {
			if face.Path != "" {
				continue
			}
			port := strconv.Itoa(face.Port)
			pairs = append(pairs, s.Name+":"+port, dial.ServiceAddr(i+1).String()+":"+port)
		}
	}
	return strings.NewReplacer(pairs...)
}

// hosts are the names of the services in the world.
func hosts(names []string) []launch.HostEntry {
	out := make([]launch.HostEntry, len(names))
	for i, name := range names {
		out[i] = launch.HostEntry{Name: strings.ToLower(name), Addr: dial.ServiceAddr(i + 1)}
	}
	return out
}
