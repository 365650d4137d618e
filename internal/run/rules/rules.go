// Package rules keeps the rules that were ever in force in a leaf: it hands each to who carries it out, lifts
// it, and knows what waits for that.
package rules

import (
	"fmt"
	"sync"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/run/disturb"
	"github.com/squallhq/squall/spec"
)

// Actor carries out one sort of rule: system calls (inject.Engine), connections (link.Network) or messages.
type Actor interface {
	Install(rules ...fault.Rule) error
	Lift(ids ...string)
	Fired(id string) int
}

// Config is who carries the rules out, and where it is written down.
type Config struct {
	Log                    *event.Log
	Syscall, Link, Message Actor
	Process                *disturb.Processes
	// Spared reports whether a rule was kept from acting by the leaf's choices.
	Spared func(rule string) bool
}

// Set is the rules that were ever in force in a leaf.
type Set struct {
	cfg Config

	mu sync.Mutex
	// all keeps each rule once, in the order of first installation.
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
}

// New returns a set without rules.
func New(cfg Config) *Set {
	return &Set{cfg: cfg, active: map[string]bool{}, lifted: map[string]chan struct{}{}, gates: map[string]*gate{}, bypass: map[string]string{}}
}

func (f *Set) actor(r fault.Rule) Actor {
	switch {
	case r.Link != nil:
		return f.cfg.Link
	case r.Message != nil:
		return f.cfg.Message
	case r.Process != nil:
		return f.cfg.Process
	}
	return f.cfg.Syscall
}

// Install puts rules in force. A rule whose ID is in force already gets "#2", "#3", ... appended, so
// that ending one never touches another.
func (f *Set) Install(rules []fault.Rule) (spec.Active, error) {
	a, err := f.put(rules)
	if err != nil {
		return nil, err
	}
	for _, r := range a.rules {
		if r.Process != nil {
			f.cfg.Process.Begin(r.ID)
		}
	}
	return a, nil
}

func (f *Set) put(rules []fault.Rule) (*active, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &active{set: f}
	for _, r := range rules {
		r.ID = f.unique(r.ID)
		if err := f.actor(r).Install(r); err != nil {
			f.release(a.rules)
			return nil, &InstallError{r, err}
		}
		if _, known := f.installed.Load(r.ID); !known {
			f.all = append(f.all, r)
		}
		f.active[r.ID] = true
		f.lifted[r.ID] = make(chan struct{})
		f.installed.Store(r.ID, f.cfg.Log.Append(event.Driver, event.Fault, map[string]any{
			"op": "installed", "rule": r.ID, "assumption": r.Assumption, "target": r.Target(), "effect": r.Effect(),
		}).Seq)
		a.rules = append(a.rules, r)
	}
	return a, nil
}

func (f *Set) unique(id string) string {
	for name, n := id, 2; ; n++ {
		if !f.active[name] {
			return name
		}
		name = fmt.Sprintf("%s#%d", id, n)
	}
}

// release lifts rules, the last one first.
func (f *Set) release(rules []fault.Rule) {
	for i := len(rules) - 1; i >= 0; i-- {
		r := rules[i]
		if !f.active[r.ID] {
			continue
		}
		f.actor(r).Lift(r.ID)
		delete(f.active, r.ID)
		close(f.lifted[r.ID])
		f.letGo(r.ID)
		f.cfg.Log.Append(event.Driver, event.Fault, map[string]any{
			"op": "lifted", "rule": r.ID, "assumption": r.Assumption, "fired": int64(f.actor(r).Fired(r.ID)),
		})
	}
}

// Since returns the event that installed a rule, the cause of what the rule does.
func (f *Set) Since(id string) int64 {
	seq, _ := f.installed.Load(id)
	n, _ := seq.(int64)
	return n
}

// Ended returns a channel that is closed once the rule is lifted, so that what it holds goes on.
func (f *Set) Ended(id string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lifted[id]
}

// Records returns every rule and how often it acted.
func (f *Set) Records() []bundle.RuleRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]bundle.RuleRecord, len(f.all))
	for i, r := range f.all {
		out[i] = bundle.RuleRecord{
			ID: r.ID, Assumption: r.Assumption, Target: r.Target(), Effect: r.Effect(),
			Optional: r.Optional || r.When.Exhaustive && f.cfg.Spared(r.ID), Fired: f.actor(r).Fired(r.ID), Position: r.Position,
		}
	}
	return out
}

// Rule returns a rule that was in force at some time.
func (f *Set) Rule(id string) (fault.Rule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.all {
		if r.ID == id {
			return r, true
		}
	}
	return fault.Rule{}, false
}

// InstallError says which rule could not be put in force.
type InstallError struct {
	Rule fault.Rule
	err  error
}

// Error implements error.
func (e *InstallError) Error() string {
	return fmt.Sprintf("%s on %s (%s): %v", e.Rule.Effect(), e.Rule.Target(), e.Rule.ID, e.err)
}

// Unwrap returns why.
func (e *InstallError) Unwrap() error { return e.err }

// active is spec.Active.
type active struct {
	set   *Set
	rules []fault.Rule
}

func (a *active) Release() {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	a.set.release(a.rules)
}

func (a *active) Fired() []int {
	out := make([]int, len(a.rules))
	for i, r := range a.rules {
		out[i] = a.set.actor(r).Fired(r.ID)
	}
	return out
}

// Heal lifts the rules on messages that are in force still, so that services can end in an orderly way.
func (f *Set) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rest []fault.Rule
	for _, r := range f.all {
		if r.Message != nil && f.active[r.ID] {
			rest = append(rest, r)
		}
	}
	f.release(rest)
}

// All returns every rule that was in force at some time.
func (f *Set) All() []fault.Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]fault.Rule{}, f.all...)
}
