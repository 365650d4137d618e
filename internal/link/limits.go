package link

import (
	"sync"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
)

// maxDecisions bounds what is kept of the decisions of one rule.
const maxDecisions = 1 << 16

// ruleState is a rule with its counts. Its lock is a leaf: nothing is called while it is held.
type ruleState struct {
	rule fault.Rule
	seed seed.Seed

	mu sync.Mutex
	// active and matched begin anew at each installation, the rest lasts.
	active    bool
	matched   int
	hits      int
	perFlow   map[Flow]bool
	acted     map[place]bool
	fired     int
	decisions []bundle.Decision
}

// place is where a rule acts; Way is "" where it acts on a connection as a whole.
type place struct {
	Flow
	Way fault.Direction
}

func (r *ruleState) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active, r.matched, r.hits = true, 0, 0
	r.perFlow, r.acted = map[Flow]bool{}, map[place]bool{}
}

func (r *ruleState) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = false
}

// row describes what the rule's effect can act on.
func (r *ruleState) row() fault.LinkRow {
	row, _ := fault.LinkKindOf(r.rule.Link.Effect.Kind)
	return row
}

func (r *ruleState) matches(f Flow) bool {
	return r.rule.Link.Pair.Matches(f.Client, f.Server, f.Interface)
}

// covers reports whether the rule acts on a way through a connection of client's.
func (r *ruleState) covers(client string, way fault.Direction) bool {
	if r.rule.Link.Effect.Kind == fault.HalfOpen {
		return true
	}
	return r.rule.Link.Direction.Covers(r.rule.Link.Pair, client, way)
}

// hitsFlow decides, once, whether the limits select a connection.
func (r *ruleState) hitsFlow(f Flow) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	hit, known := r.perFlow[f]
	if !known {
		key := f.String()
		hit = r.decide(func(use string) float64 { return r.seed.Float(0, "link", r.rule.ID, key, use) })
		r.perFlow[f] = hit
		r.keep(bundle.Decision{Rule: r.rule.ID, Key: key, Hit: hit})
	}
	return hit
}

// hitsDatagram decides whether the limits and the effect's own probability select a datagram.
func (r *ruleState) hitsDatagram(flow string, way fault.Direction, index int64) bool {
	draw := Draws(r.seed, r.rule.ID, flow, way)
	r.mu.Lock()
	defer r.mu.Unlock()
	hit := r.decide(func(use string) float64 { return draw(index, use) })
	r.keep(bundle.Decision{Rule: r.rule.ID, Key: flow + "/" + string(way), Index: index, Hit: hit})
	return hit
}

// decide counts a match and tells whether it is hit.
func (r *ruleState) decide(draw func(use string) float64) bool {
	r.matched++
	w, chance := r.rule.When, r.rule.Link.Effect.Probability
	switch {
	case w.MaxFires > 0 && r.hits >= w.MaxFires,
		w.Nth > 0 && r.matched != w.Nth,
		r.matched <= w.After,
		w.Every > 0 && (r.matched-w.After)%w.Every != 0,
		w.Probability > 0 && w.Probability < 1 && draw("when") >= w.Probability,
		chance > 0 && chance < 1 && draw("effect") >= chance:
		return false
	}
	r.hits++
	return true
}

func (r *ruleState) keep(d bundle.Decision) {
	if len(r.decisions) < maxDecisions {
		r.decisions = append(r.decisions, d)
	}
}

// fire counts that the rule acted, and returns how often it has.
func (r *ruleState) fire() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired++
	return r.fired
}

// fireOnce is fire for what counts once at a place; it reports whether this was the first time.
func (r *ruleState) fireOnce(at place) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acted[at] {
		return r.fired, false
	}
	r.acted[at] = true
	r.fired++
	return r.fired, true
}

// actedAt tells whether fireOnce was called for a place since the rule was installed.
func (r *ruleState) actedAt(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acted[at]
}
