package inject

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
)

// Engine holds the rules in force and what each has done. It is safe for concurrent use; one lock,
// held for the time of a decision only.
type Engine struct {
	seed  seed.Seed
	fires Fires
	needs atomic.Pointer[needsTable]
	// owed counts the pending decisions whose bytes were moved.
	owed atomic.Int64

	mu     sync.Mutex
	active []*rule
	// known has every rule that was ever installed, in the order of first installation.
	known []*rule
	byID  map[string]*rule
	// pending are decisions that could not be delivered, oldest first.
	pending []pending
}

// rule is an installed rule with its counters.
type rule struct {
	fault.Rule
	errno int
	glob  *Glob
	// files are those of its calls that name a file by path and have no descriptor yet.
	files []string
	// lanes are the counters of each service; a rule over any service counts for each on its own.
	lanes map[string]*lane
	// fired counts hits that reached the program.
	fired int
}

// lane counts what a rule saw of one service.
type lane struct {
	// index counts matches since the rule was first installed; draws are keyed by it.
	index int64
	// base is the index at the latest installation: Nth, After and Every count from there.
	base int64
	// hits counts hits since the latest installation, delivered or not, for MaxFires.
	hits int
	// asked counts the decisions of an exhaustive rule since the latest installation, decided all of them.
	asked   int
	decided int64
	history bits
}

type pending struct {
	call     Call
	decision Decision
}

// maxPending bounds the decisions kept for calls that may never be reissued.
const maxPending = 256

// Fires decides whether an exhaustive rule hits a service's call, of which it is the n-th that it could
// hit. It is called from any goroutine and must not wait.
type Fires func(rule, service string, n int64) bool

// New returns an engine without rules.
func New(s seed.Seed) *Engine {
	e := &Engine{seed: s, byID: map[string]*rule{}}
	e.needs.Store(&needsTable{})
	return e
}

// Exhaust has fires decide for exhaustive rules, which hit otherwise. It is called before any rule is
// installed.
func (e *Engine) Exhaust(fires Fires) { e.fires = fires }

// Install puts rules in force after those that are. Link rules are passed over: they belong to the
// relays. A rule that was lifted may come back: its When begins anew, its draws and its count of
// fires go on. On an error (an ID that is still in force, an unknown errno) none is installed.
func (e *Engine) Install(rules ...fault.Rule) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var add []*rule
	for _, r := range rules {
		if r.Syscall == nil {
			continue
		}
		known := e.byID[r.ID]
		same := func(a *rule) bool { return a.ID == r.ID }
		if (known != nil && slices.Contains(e.active, known)) || slices.ContainsFunc(add, same) {
			return fmt.Errorf("inject: install %s: a rule of that name is in force", r.ID)
		}
		made := &rule{Rule: r, lanes: map[string]*lane{}}
		if name := r.Syscall.Errno; name != "" {
			number, ok := fault.ErrnoNumber(name)
			if !ok {
				return fmt.Errorf("inject: install %s: unknown errno %q", r.ID, name)
			}
			made.errno = number
		}
		if r.Syscall.Path != "" {
			g := Compile(r.Syscall.Path)
			made.glob = &g
		}
		for _, c := range r.Syscall.Calls {
			if f, ok := fault.FamilyOf(c); ok && f.Descriptor < 0 && f.Path >= 0 {
				made.files = append(made.files, c)
			}
		}
		add = append(add, made)
	}
	for _, r := range add {
		e.admit(r)
	}
	e.publish()
	return nil
}

// admit puts one rule in force, with the counters of its former installation.
func (e *Engine) admit(r *rule) {
	old := e.byID[r.ID]
	if old == nil {
		e.byID[r.ID] = r
		e.known = append(e.known, r)
		e.active = append(e.active, r)
		return
	}
	old.Rule, old.errno, old.glob, old.files = r.Rule, r.errno, r.glob, r.files
	for _, l := range old.lanes {
		l.base, l.hits, l.asked = l.index, 0, 0
	}
	e.active = append(e.active, old)
}

// Lift takes rules out of force; a name that is not in force is passed over. A decision of theirs
// that was not delivered is forgotten: a call reissued after the fault's window is not hit by it, unless its bytes
// were moved.
func (e *Engine) Lift(ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active = slices.DeleteFunc(e.active, func(r *rule) bool { return slices.Contains(ids, r.ID) })
	e.pending = slices.DeleteFunc(e.pending, func(p pending) bool {
		return p.decision.Rule != "" && p.decision.Moved == 0 && slices.Contains(ids, p.decision.Rule)
	})
	e.publish()
}

// Decide answers a call. It counts a hit as fired: where the answer cannot be delivered, Undelivered
// takes that back.
func (e *Engine) Decide(c Call) Decision {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d, ok := e.reissued(c); ok {
		return d
	}
	d := Decision{Verb: Allow}
	for _, r := range e.active {
		l := r.match(c)
		if l == nil {
			continue
		}
		l.index++
		d.matched = true
		hit := !r.spares(l) && e.hits(r, l, c.Service)
		l.history.push(hit)
		if !hit {
			continue
		}
		l.hits++
		r.fired++
		d.Errno, d.Delay, d.Bytes, d.Rule, d.Index = r.errno, r.Syscall.Delay, r.Syscall.Partial, r.ID, l.index
		d.Verb, d.Size = r.verb(), c.Size
		return d
	}
	return d
}

// verb is what the rule does to a call.
func (r *rule) verb() Verb {
	switch {
	case r.errno != 0:
		return Deny
	case r.Syscall.Crash:
		return Crash
	case r.Syscall.Hold:
		return Hold
	case r.Syscall.Partial > 0:
		return Partial
	}
	return Delay
}

// Spared tells that a decision could not be carried out, and that the call went on untouched: it counts neither as
// fired nor for the limit of fires.
func (e *Engine) Spared(c Call, d Decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.byID[d.Rule]
	if r == nil {
		return
	}
	r.fired--
	l := r.lanes[c.Service]
	l.hits = max(l.hits-1, 0)
	l.history.clear(d.Index - 1)
}

// Undelivered tells that a decision did not reach the program: the call was withdrawn by a signal, or
// its thread died. The hit does not count as fired; the same call of the same thread, reissued, gets
// the same decision and draws nothing new, less the time held already, so that a program with a
// busy timer signal gets through.
func (e *Engine) Undelivered(c Call, d Decision, held time.Duration) {
	if !d.matched {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.byID[d.Rule]; r != nil {
		r.fired--
		if !slices.Contains(e.active, r) && d.Moved == 0 {
			return
		}
	}
	d.Delay = max(d.Delay-max(held, 0), 0)
	e.wait(c, d)
}

// Settled tells that a decision was carried out, but that its call was withdrawn just when it could have
// gone on. The hit counts. The same call of the same thread, reissued, goes on and draws nothing new.
func (e *Engine) Settled(c Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wait(c, Decision{Verb: Allow, matched: true})
}

// wait keeps a decision for the call when it is reissued.
func (e *Engine) wait(c Call, d Decision) {
	if len(e.pending) == maxPending {
		if e.pending[0].decision.Moved > 0 {
			e.owed.Add(-1)
		}
		e.pending = slices.Delete(e.pending, 0, 1)
	}
	if d.Moved > 0 {
		e.owed.Add(1)
	}
	e.pending = append(e.pending, pending{c, d})
}

// waits returns the number of the decision that waits for this call, or -1.
func (e *Engine) waits(c Call) int {
	return slices.IndexFunc(e.pending, func(p pending) bool {
		return p.call.Thread == c.Thread && p.call.Name == c.Name && p.call.Args == c.Args && p.call.Service == c.Service
	})
}

// reissued returns the decision that waits for this call, and takes it off the list.
func (e *Engine) reissued(c Call) (Decision, bool) {
	i := e.waits(c)
	if i < 0 {
		return Decision{}, false
	}
	d := e.pending[i].decision
	if d.Moved > 0 {
		e.owed.Add(-1)
	}
	e.pending = slices.Delete(e.pending, i, i+1)
	if r := e.byID[d.Rule]; r != nil {
		r.fired++
	}
	return d, true
}

// match returns the rule's counters for a call that it concerns, or nil.
func (r *rule) match(c Call) *lane {
	if s := r.Syscall; !r.concerns(c) || s.Partial > 0 && c.Size <= s.Partial {
		return nil
	}
	l := r.lanes[c.Service]
	if l == nil {
		l = &lane{}
		r.lanes[c.Service] = l
	}
	if r.spent(l) {
		return nil
	}
	return l
}

// concerns reports whether a call is of the sort that the rule is about, whatever its size.
func (r *rule) concerns(c Call) bool {
	s := r.Syscall
	return (s.Service == "" || s.Service == c.Service) && slices.Contains(s.Calls, c.Name) &&
		(len(s.On) == 0 || slices.Contains(s.On, r.kindOf(c))) &&
		(r.glob == nil || c.Path != "" && r.glob.Match(c.Path) || c.Other != "" && r.glob.Match(c.Other)) &&
		(s.Link == nil || connects(*s.Link, c.Peer))
}

// Measures reports whether it depends on a call's size what becomes of it: the first rule that concerns it looks at that.
func (e *Engine) Measures(c Call) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waits(c) >= 0 {
		return false
	}
	for _, r := range e.active {
		if r.concerns(c) && (r.lanes[c.Service] == nil || !r.spent(r.lanes[c.Service])) {
			return r.Syscall.Partial > 0
		}
	}
	return false
}

// LetGo has a call that a rule held, and that is made again, go on.
func (e *Engine) LetGo(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, p := range e.pending {
		if p.decision.Rule == id && p.decision.Told {
			e.pending[i].decision = Decision{Verb: Allow, matched: true}
			e.byID[id].fired++
		}
	}
}

func connects(p fault.Pair, with *Peer) bool {
	return with != nil && p.Matches(with.Client, with.Server, with.Interface)
}

// kindOf returns what the rule's On is compared with. A call that names a file by its path has no
// descriptor yet: it concerns a file, unless the caller knows better.
func (r *rule) kindOf(c Call) fault.Descriptor {
	switch {
	case c.Descriptor != "":
		return c.Descriptor
	case slices.Contains(r.files, c.Name):
		return fault.File
	}
	return fault.Other
}

// spent tells that the rule can hit nothing more in this installation, so it matches no more.
func (r *rule) spent(l *lane) bool { return spent(r.When, l) }

func spent(w fault.When, l *lane) bool {
	if w.Exhaustive && l.asked >= w.MaxFires {
		return true
	}
	return (w.MaxFires > 0 && l.hits >= w.MaxFires) ||
		(w.Nth > 0 && l.index-l.base >= int64(w.After+w.Nth))
}

// spares tells that the rule's counters leave out the match at l.index.
func (r *rule) spares(l *lane) bool { return spares(r.When, l) }

func spares(w fault.When, l *lane) bool {
	n := l.index - l.base - int64(w.After)
	return n <= 0 || (w.Nth > 0 && n != int64(w.Nth)) || (w.Every > 0 && n%int64(w.Every) != 0)
}

// hits decides over a match that the rule's counters do not leave out.
func (e *Engine) hits(r *rule, l *lane, service string) bool {
	if !r.When.Exhaustive {
		return e.draw(r, service, l.index)
	}
	l.asked++
	l.decided++
	return e.fires == nil || e.fires(r.ID, service, l.decided)
}

func (e *Engine) draw(r *rule, service string, index int64) bool {
	p := r.When.Probability
	return p == 0 || p >= 1 || e.seed.Float(index, "syscall", r.ID, service) < p
}

// Fired returns how often a rule has acted on a program, in all its installations.
func (e *Engine) Fired(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.byID[id]; r != nil {
		return r.fired
	}
	return 0
}

// Decisions returns every decision made, by rule in the order of first installation, then by
// service, then by index.
func (e *Engine) Decisions() []bundle.Decision {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []bundle.Decision
	for _, r := range e.known {
		services := make([]string, 0, len(r.lanes))
		for s := range r.lanes {
			services = append(services, s)
		}
		slices.Sort(services)
		for _, s := range services {
			for i := range r.lanes[s].index {
				out = append(out, bundle.Decision{Rule: r.ID, Key: s, Index: i + 1, Hit: r.lanes[s].history.at(i)})
			}
		}
	}
	return out
}

// bits is a compact list of booleans: a rule may match millions of calls.
type bits struct {
	words []uint64
	n     int64
}

func (b *bits) push(v bool) {
	if b.n%64 == 0 {
		b.words = append(b.words, 0)
	}
	if v {
		b.words[b.n/64] |= 1 << (b.n % 64)
	}
	b.n++
}

func (b *bits) clear(i int64) {
	if i >= 0 && i < b.n {
		b.words[i/64] &^= 1 << (i % 64)
	}
}

func (b *bits) at(i int64) bool { return b.words[i/64]>>(i%64)&1 == 1 }
