package link

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/link/message"
	"github.com/squallhq/squall/internal/seed"
	"github.com/squallhq/squall/internal/vtime"
)

// ErrNeedsOwnedNetwork is returned where a rule has to silence a socket and the kernel forbids that
// in a network namespace that is not ours.
var ErrNeedsOwnedNetwork = errors.New("link: needs a network namespace of its own")

// ErrClosed is returned by a Network that has been closed.
var ErrClosed = errors.New("link: network is closed")

// Config is what a Network is made from.
type Config struct {
	Seed  seed.Seed
	Clock vtime.Clock
	// Record receives what matters, in order. It is called with locks held: it must be quick and
	// must not call the Network. It may be nil.
	Record func(Record)
	// Messages returns how rules act on the messages of a flow; ok is false where nobody looks at them. It may be nil.
	Messages func(Flow) (cfg message.Config, ok bool)
	// Join has the kernel carry the bytes of stream flows past the relay while nothing is to happen to them, where it can.
	// Then Plain is to be called as it says.
	Join bool
}

// Network is the links of one leaf: its rules, and the flows that are relayed. It is safe for
// concurrent use.
//
// Lock order: Network.mu, then half.mu, then ruleState.mu, then Network.emitting.
type Network struct {
	cfg      Config
	emitting sync.Mutex

	mu      sync.Mutex
	closed  bool
	rules   map[string]*ruleState
	active  []*ruleState // in the order of installation
	changed chan struct{}
	opened  map[Flow]int // by Flow with N = 0
	serial  int64
	relays  map[relay]int64 // with their order of starting
	silent  bool            // the watch over silenced sockets runs
	running sync.WaitGroup
	joining joining
}

// relay is a flow being relayed, stream or datagram.
type relay interface {
	identity() Flow
	// install and lift are called with Network.mu held.
	install(r *ruleState) error
	lift(r *ruleState)
	// watch looks whether silenced sockets withheld something; it reports whether any is silenced.
	watch() bool
	// sever ends the flow without a word in the log.
	sever()
}

// New returns a network without rules.
func New(cfg Config) *Network {
	if cfg.Record == nil {
		cfg.Record = func(Record) {}
	}
	if cfg.Clock == nil {
		cfg.Clock = vtime.Wall()
	}
	return &Network{
		cfg: cfg, rules: map[string]*ruleState{}, changed: make(chan struct{}),
		opened: map[Flow]int{}, relays: map[relay]int64{}, joining: joining{after: joinAfter},
	}
}

// Install puts rules in force, on connections that stand as on later ones. Either all are in force
// when it returns or, with an error, none.
func (n *Network) Install(rules ...fault.Rule) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, r := range rules {
		if err := n.check(r, rules[:i]); err != nil {
			return err
		}
	}
	for i, r := range rules {
		if err := n.install(r); err != nil {
			for _, undo := range rules[:i+1] {
				n.lift(undo.ID)
			}
			return fmt.Errorf("link: rule %s: %w", r.ID, err)
		}
	}
	n.announce()
	return nil
}

func (n *Network) check(r fault.Rule, before []fault.Rule) error {
	if r.Link == nil {
		return fmt.Errorf("link: rule %s: not a rule on links", r.ID)
	}
	if _, ok := fault.LinkKindOf(r.Link.Effect.Kind); !ok {
		return fmt.Errorf("link: rule %s: unknown effect %q", r.ID, r.Link.Effect.Kind)
	}
	same := func(o fault.Rule) bool { return o.ID == r.ID }
	if st := n.rules[r.ID]; st != nil && slices.Contains(n.active, st) || slices.ContainsFunc(before, same) {
		return fmt.Errorf("link: rule %s: already in force", r.ID)
	}
	return nil
}

func (n *Network) install(r fault.Rule) error {
	st := n.rules[r.ID]
	if st == nil {
		st = &ruleState{seed: n.cfg.Seed}
		n.rules[r.ID] = st
	}
	st.rule = r
	st.begin()
	n.active = append(n.active, st)
	n.emit(Record{Op: OpInstalled, Rule: r.ID})
	for _, rel := range n.ordered() {
		if st.matches(rel.identity()) {
			if err := rel.install(st); err != nil {
				return err
			}
		}
	}
	n.guard()
	return nil
}

// Lift ends rules; those that are not in force are ignored. What they withheld goes on at once.
func (n *Network) Lift(ruleIDs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ruleIDs {
		n.lift(id)
	}
	n.announce()
}

func (n *Network) lift(id string) {
	i := slices.IndexFunc(n.active, func(s *ruleState) bool { return s.rule.ID == id })
	if i < 0 {
		return
	}
	st := n.active[i]
	n.active = slices.Delete(n.active, i, i+1)
	for _, rel := range n.ordered() {
		rel.watch()
		rel.lift(st)
	}
	st.end()
	st.mu.Lock()
	fired := st.fired
	st.mu.Unlock()
	n.emit(Record{Op: OpLifted, Rule: id, Count: fired})
}

// announce wakes those who wait for a change of the rules.
func (n *Network) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// ordered returns the relays in the order of their starting.
func (n *Network) ordered() []relay {
	out := make([]relay, 0, len(n.relays))
	for r := range n.relays {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b relay) int { return cmp.Compare(n.relays[a], n.relays[b]) })
	return out
}

// Fired returns how often a rule has acted.
func (n *Network) Fired(ruleID string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.rules[ruleID]
	if st == nil {
		return 0
	}
	for rel := range n.relays {
		rel.watch()
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.fired
}

// Matching returns the rules in force on connections from client to an interface of server.
func (n *Network) Matching(client, server, iface string) []fault.Rule {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []fault.Rule
	for _, st := range n.active {
		if st.matches(Flow{Client: client, Server: server, Interface: iface}) {
			out = append(out, st.rule)
		}
	}
	return out
}

// Decisions returns what the limits of rules decided, ordered by rule, key and index.
func (n *Network) Decisions() []bundle.Decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []bundle.Decision
	for _, st := range n.rules {
		st.mu.Lock()
		out = append(out, st.decisions...)
		st.mu.Unlock()
	}
	slices.SortStableFunc(out, func(a, b bundle.Decision) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Key, b.Key), cmp.Compare(a.Index, b.Index))
	})
	return out
}

// Emit passes a record on as one of the network's own, for what happens before a flow is relayed.
func (n *Network) Emit(r Record) { n.emit(r) }

func (n *Network) emit(r Record) {
	n.emitting.Lock()
	defer n.emitting.Unlock()
	n.cfg.Record(r)
}

// Close ends all flows and waits until nothing of them is left. Both ends of a connection see RST.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	live := n.ordered()
	n.announce()
	n.mu.Unlock()
	for _, r := range live {
		r.sever()
	}
	n.running.Wait()
	n.joining.close()
}

// start registers a relay, with the rules in force on it, and counts the goroutines that will serve it.
func (n *Network) start(r relay, goroutines int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	n.emit(Record{Op: OpEstablished, Flow: r.identity()})
	for _, st := range n.active {
		if st.matches(r.identity()) {
			if err := r.install(st); err != nil {
				return fmt.Errorf("link: rule %s: %w", st.rule.ID, err)
			}
		}
	}
	n.serial++
	n.relays[r] = n.serial
	n.running.Add(goroutines)
	n.guard()
	return nil
}

func (n *Network) forget(r relay) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.relays, r)
}

// watchInterval is how often silenced sockets are asked whether they withheld something.
const watchInterval = 10 * time.Millisecond

// guard starts the watch where a socket is silenced. The kernel tells nobody when a filter drops a
// segment, so it has to be asked.
func (n *Network) guard() {
	if n.silent || n.closed || !n.look() {
		return
	}
	n.silent = true
	n.running.Go(func() {
		for {
			tick, stop := n.cfg.Clock.After(watchInterval)
			<-tick
			stop()
			n.mu.Lock()
			if n.closed || !n.look() {
				n.silent = false
				n.mu.Unlock()
				return
			}
			n.mu.Unlock()
		}
	})
}

func (n *Network) look() bool {
	any := false
	for rel := range n.relays {
		any = rel.watch() || any
	}
	return any
}
