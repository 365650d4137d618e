package inject

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
	"github.com/squallhq/squall/protocol"
)

// Messages holds the rules on messages in force and what each has done. It is safe for concurrent use;
// its lock is held for the time of a decision only.
//
// Limits (nth, after, every, max_fires) count the matching requests of each client, over all its
// connections, as those of system calls count for each service: a program may use one connection for all or
// one for each. A draw is keyed by (rule, flow, index within the flow), so connections never disturb one another.
type Messages struct {
	seed seed.Seed
	find func(name string) (protocol.Protocol, bool)

	mu     sync.Mutex
	active []*messageRule
	known  []*messageRule
	byID   map[string]*messageRule
}

// Flow names a connection: the string is its own, the rest says between whom it is.
type Flow struct {
	Name, Client, Server, Interface string
}

// MessageDecision is what becomes of a request.
type MessageDecision struct {
	// Rule is who decided; nil lets the request pass.
	Rule *fault.Message
	// ID is the rule's.
	ID string
	// Index is how many requests of the flow the rule has matched, from 1.
	Index int64
}

// Seen is what a rule saw while it was in force.
type Seen struct {
	// Requests is how many passed, Matched how many fitted.
	Requests, Matched int
	// Examples are fields of requests that did not fit, by those that the rule looks at.
	Examples []string
}

// messageRule is an installed rule with its counters.
type messageRule struct {
	fault.Rule
	fields []protocol.Field
	globs  map[string]string
	// clients count for the limits, flows for the draws.
	clients map[string]*lane
	flows   map[string]*lane
	fired   int
	seen    Seen
	failed  string
}

const (
	maxExamples   = 3
	exampleLength = 80
)

// NewMessages returns an engine without rules. find knows the protocols.
func NewMessages(s seed.Seed, find func(name string) (protocol.Protocol, bool)) *Messages {
	return &Messages{seed: s, find: find, byID: map[string]*messageRule{}}
}

// Install puts rules in force after those that are. A rule that was lifted may come back: its When begins anew,
// its draws and its count of fires go on. On an error (an ID that is still in force, something that
// the protocol cannot do) none is installed.
func (e *Messages) Install(rules ...fault.Rule) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var add []*messageRule
	for _, r := range rules {
		same := func(a *messageRule) bool { return a.ID == r.ID }
		if slices.ContainsFunc(e.active, same) || slices.ContainsFunc(add, same) {
			return fmt.Errorf("inject: install %s: a rule of that name is in force", r.ID)
		}
		made, err := e.compile(r)
		if err != nil {
			return fmt.Errorf("inject: install %s: %w", r.ID, err)
		}
		add = append(add, made)
	}
	for _, r := range add {
		old := e.byID[r.ID]
		if old == nil {
			e.byID[r.ID] = r
			e.known = append(e.known, r)
			e.active = append(e.active, r)
			continue
		}
		old.Rule, old.fields, old.globs = r.Rule, r.fields, r.globs
		for _, l := range old.clients {
			l.base, l.hits = l.index, 0
		}
		e.active = append(e.active, old)
	}
	return nil
}

func (e *Messages) compile(r fault.Rule) (*messageRule, error) {
	if r.Message == nil {
		return nil, fmt.Errorf("not a rule on messages")
	}
	p, ok := e.find(r.Message.Protocol)
	if !ok {
		return nil, fmt.Errorf("no protocol %q", r.Message.Protocol)
	}
	s, ok := p.(protocol.Speaker)
	if !ok {
		return nil, fmt.Errorf("%s has no messages that can be told apart", r.Message.Protocol)
	}
	can := s.Messages()
	if !slices.Contains(can.Verbs, protocol.Verb(r.Message.Verb)) {
		return nil, fmt.Errorf("%s can't %s", r.Message.Protocol, r.Message.Verb)
	}
	made := &messageRule{Rule: r, fields: can.Match, globs: map[string]string{}, clients: map[string]*lane{}, flows: map[string]*lane{}}
	for name, glob := range r.Message.Match {
		i := slices.IndexFunc(can.Match, func(f protocol.Field) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s has no %s to match", r.Message.Protocol, name)
		}
		made.globs[name] = normal(can.Match[i], glob)
	}
	return made, nil
}

func normal(f protocol.Field, text string) string {
	if f.Normal == nil {
		return text
	}
	return f.Normal(text)
}

// Lift takes rules out of force; a name that is not in force is passed over.
func (e *Messages) Lift(ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active = slices.DeleteFunc(e.active, func(r *messageRule) bool { return slices.Contains(ids, r.ID) })
}

// Decide says what becomes of a request of a flow. Rules are asked in the order of their installation; the first that
// hits decides. A hit counts as fired once Acted says that it was carried out.
func (e *Messages) Decide(f Flow, m *protocol.Message) MessageDecision {
	e.mu.Lock()
	defer e.mu.Unlock()
	var d MessageDecision
	for _, r := range e.active {
		if !r.Message.Pair.Matches(f.Client, f.Server, f.Interface) {
			continue
		}
		r.seen.Requests++
		if !r.matches(m) {
			r.example(m)
			continue
		}
		r.seen.Matched++
		if d.Rule != nil {
			continue // counted as seen, decided already
		}
		counts, flow := laneOf(r.clients, f.Client), laneOf(r.flows, f.Name)
		if r.spent(counts) {
			continue
		}
		counts.index++
		flow.index++
		hit := !r.spares(counts) && e.draw(r, f.Name, flow.index)
		flow.history.push(hit)
		if !hit {
			continue
		}
		counts.hits++
		rule := *r.Message
		d = MessageDecision{Rule: &rule, ID: r.ID, Index: flow.index}
	}
	return d
}

func laneOf(lanes map[string]*lane, key string) *lane {
	l := lanes[key]
	if l == nil {
		l = &lane{}
		lanes[key] = l
	}
	return l
}

func (r *messageRule) matches(m *protocol.Message) bool {
	for _, f := range r.fields {
		if glob, ok := r.globs[f.Name]; ok && !MatchText(glob, normal(f, m.Fields[f.Name])) {
			return false
		}
	}
	return true
}

// example keeps what a request that does not fit has where the rule looks.
func (r *messageRule) example(m *protocol.Message) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.globs)) {
		v := m.Fields[name]
		if len(v) > exampleLength {
			v = v[:exampleLength] + "..."
		}
		parts = append(parts, fmt.Sprintf("%s=%q", name, v))
	}
	text := strings.Join(parts, ", ")
	if text != "" && len(r.seen.Examples) < maxExamples && !slices.Contains(r.seen.Examples, text) {
		r.seen.Examples = append(r.seen.Examples, text)
	}
}

func (r *messageRule) spent(l *lane) bool  { return spent(r.When, l) }
func (r *messageRule) spares(l *lane) bool { return spares(r.When, l) }

func (e *Messages) draw(r *messageRule, flow string, index int64) bool {
	p := r.When.Probability
	return p == 0 || p >= 1 || e.seed.Float(index, "message", r.ID, flow) < p
}

// Acted counts that a rule's verb was carried out, and returns how often that was so far.
func (e *Messages) Acted(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.byID[id]
	if r == nil {
		return 0
	}
	r.fired++
	return r.fired
}

// Failed notes why a rule's verb could not be carried out.
func (e *Messages) Failed(id string, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.byID[id]; r != nil {
		r.failed = why.Error()
	}
}

// Fired returns how often a rule has acted, in all its installations.
func (e *Messages) Fired(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.byID[id]; r != nil {
		return r.fired
	}
	return 0
}

// Seen returns what a rule saw while it was in force, and why it could not do what it was to do, where that happened.
func (e *Messages) Seen(id string) (seen Seen, failed string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.byID[id]; r != nil {
		return r.seen, r.failed
	}
	return Seen{}, ""
}

// InForce returns the IDs of the rules in force on a flow.
func (e *Messages) InForce(f Flow) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, r := range e.active {
		if r.Message.Pair.Matches(f.Client, f.Server, f.Interface) {
			out = append(out, r.ID)
		}
	}
	return out
}

// Decisions returns every decision made, by rule in the order of first installation, then by flow, then by index.
func (e *Messages) Decisions() []bundle.Decision {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []bundle.Decision
	for _, r := range e.known {
		for _, f := range slices.Sorted(maps.Keys(r.flows)) {
			l := r.flows[f]
			for i := range l.index {
				out = append(out, bundle.Decision{Rule: r.ID, Key: f, Index: i + 1, Hit: l.history.at(i)})
			}
		}
	}
	return out
}

// MatchText reports whether the whole of a text fits a glob in which * stands for anything and \ takes the next byte as it stands.
// It takes time proportional to the product of the lengths, whatever the glob.
func MatchText(glob, text string) bool {
	// mark is where to go on when what follows the last * does not fit: one byte later.
	g, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		escaped := g+1 < len(glob) && glob[g] == '\\'
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, t
			g++
		case escaped && glob[g+1] == text[t]:
			g, t = g+2, t+1
		case !escaped && g < len(glob) && glob[g] == text[t]:
			g, t = g+1, t+1
		case star >= 0:
			mark++
			g, t = star+1, mark
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == '*' {
		g++
	}
	return g == len(glob)
}
