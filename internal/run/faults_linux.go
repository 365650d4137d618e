package run

import (
	"fmt"
	"sync"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/run/disturb"
	"github.com/squallhq/squall/spec"
)

// actor carries out one sort of rule: system calls (inject.Engine), connections (link.Network) or messages.
type actor interface {
	Install(rules ...fault.Rule) error
	Lift(ids ...string)
	Fired(id string) int
}

// faults keeps the rules that were ever in force in a leaf.
type faults struct {
	log                    *event.Log
	syscall, link, message actor
	process                *disturb.Processes

	mu sync.Mutex
	// all keeps each rule once, in the order of first installation; made counts the rules that a
	// body made, so that two with one name are told apart.
	all    []fault.Rule
	active map[string]bool
	// lifted is closed when the rule is lifted.
	lifted map[string]chan struct{}
	// gates are what held calls and requests wait behind, by rule.
	gates map[string]*gate
	// bypass has, for each rule that a program got past, the file by which it did.
	bypass map[string]string

	// installed has the Seq of the event that says so. The actors ask for it while mu is held by who
	// installs or lifts, so it stands apart.
	installed sync.Map
	// spared reports whether a rule was kept from acting by the leaf's choices.
	spared func(rule string) bool
}

func newFaults(log *event.Log, syscall, link, message actor) *faults {
	return &faults{log: log, syscall: syscall, link: link, message: message, active: map[string]bool{}, lifted: map[string]chan struct{}{}, gates: map[string]*gate{}, bypass: map[string]string{}}
}

func (f *faults) actor(r fault.Rule) actor {
	switch {
	case r.Link != nil:
		return f.link
	case r.Message != nil:
		return f.message
	case r.Process != nil:
		return f.process
	}
	return f.syscall
}

// install puts rules in force. A rule whose ID is in force already gets "#2", "#3", ... appended, so
// that ending one never touches another.
func (f *faults) install(rules []fault.Rule) (spec.Active, error) {
	a, err := f.put(rules)
	if err != nil {
		return nil, err
	}
	for _, r := range a.rules {
		if r.Process != nil {
			f.process.Begin(r.ID)
		}
	}
	return a, nil
}

func (f *faults) put(rules []fault.Rule) (*active, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &active{faults: f}
	for _, r := range rules {
		r.ID = f.unique(r.ID)
		if err := f.actor(r).Install(r); err != nil {
			f.release(a.rules)
			return nil, &installError{r, err}
		}
		if _, known := f.installed.Load(r.ID); !known {
			f.all = append(f.all, r)
		}
		f.active[r.ID] = true
		f.lifted[r.ID] = make(chan struct{})
		f.installed.Store(r.ID, f.log.Append(event.Driver, event.Fault, map[string]any{
			"op": "installed", "rule": r.ID, "assumption": r.Assumption, "target": r.Target(), "effect": r.Effect(),
		}).Seq)
		a.rules = append(a.rules, r)
	}
	return a, nil
}

func (f *faults) unique(id string) string {
	for name, n := id, 2; ; n++ {
		if !f.active[name] {
			return name
		}
		name = fmt.Sprintf("%s#%d", id, n)
	}
}

// release lifts rules, the last one first.
func (f *faults) release(rules []fault.Rule) {
	for i := len(rules) - 1; i >= 0; i-- {
		r := rules[i]
		if !f.active[r.ID] {
			continue
		}
		f.actor(r).Lift(r.ID)
		delete(f.active, r.ID)
		close(f.lifted[r.ID])
		f.letGo(r.ID)
		f.log.Append(event.Driver, event.Fault, map[string]any{
			"op": "lifted", "rule": r.ID, "assumption": r.Assumption, "fired": int64(f.actor(r).Fired(r.ID)),
		})
	}
}

// since returns the event that installed a rule, the cause of what the rule does.
func (f *faults) since(id string) int64 {
	seq, _ := f.installed.Load(id)
	n, _ := seq.(int64)
	return n
}

// ended returns a channel that is closed once the rule is lifted, so that what it holds goes on.
func (f *faults) ended(id string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lifted[id]
}

// records returns every rule and how often it acted.
func (f *faults) records() []bundle.RuleRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]bundle.RuleRecord, len(f.all))
	for i, r := range f.all {
		out[i] = bundle.RuleRecord{
			ID: r.ID, Assumption: r.Assumption, Target: r.Target(), Effect: r.Effect(),
			Optional: r.Optional || r.When.Exhaustive && f.spared(r.ID), Fired: f.actor(r).Fired(r.ID), Position: r.Position,
		}
	}
	return out
}

// rule returns a rule that was in force at some time.
func (f *faults) rule(id string) (fault.Rule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.all {
		if r.ID == id {
			return r, true
		}
	}
	return fault.Rule{}, false
}

// installError says which rule could not be put in force.
type installError struct {
	rule fault.Rule
	err  error
}

func (e *installError) Error() string {
	return fmt.Sprintf("%s on %s (%s): %v", e.rule.Effect(), e.rule.Target(), e.rule.ID, e.err)
}

func (e *installError) Unwrap() error { return e.err }

// active is spec.Active.
type active struct {
	faults *faults
	rules  []fault.Rule
}

func (a *active) Release() {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.release(a.rules)
}

func (a *active) Fired() []int {
	out := make([]int, len(a.rules))
	for i, r := range a.rules {
		out[i] = a.faults.actor(r).Fired(r.ID)
	}
	return out
}
