// Package disturb carries out the rules on processes: what ends, pauses or restarts a service at a time of its own, while
// a scenario goes on.
package disturb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// Config is what rules on processes need.
type Config struct {
	Clock vtime.Clock
	// Act does something to a service. It is called from a goroutine of the rule's own.
	Act func(ctx context.Context, service string, a spec.Action) error
	// Fired writes down that a rule has acted, and how often it has.
	Fired func(r fault.Rule, n int)
	// Failed writes down that a rule could not act.
	Failed func(r fault.Rule, err error)
}

// Processes are the rules on processes of a leaf. It is safe for concurrent use; no lock is held while something
// is done to a service.
type Processes struct {
	cfg Config
	ctx context.Context
	end context.CancelFunc

	mu    sync.Mutex
	rules map[string]*state
	// paused counts the rules that pause a service.
	paused  map[string]int
	running sync.WaitGroup
	closed  bool
}

type state struct {
	fault.Rule
	fired  int
	failed error
	// lifted is closed when the rule is; one for each installation, nil between them.
	lifted chan struct{}
}

// New returns an actor without rules.
func New(cfg Config) *Processes {
	ctx, end := context.WithCancel(context.Background())
	return &Processes{cfg: cfg, ctx: ctx, end: end, rules: map[string]*state{}, paused: map[string]int{}}
}

// Install puts rules in force; Begin has each of them act when its time has come.
func (p *Processes) Install(rules ...fault.Rule) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rules {
		if r.Process == nil {
			return fmt.Errorf("disturb: install %s: not a rule on processes", r.ID)
		}
		st := p.rules[r.ID]
		if st == nil {
			st = &state{}
			p.rules[r.ID] = st
		}
		st.Rule, st.lifted, st.failed = r, make(chan struct{}), nil
	}
	return nil
}

// Begin starts the time of a rule. One whose time has come at once has acted when it returns.
func (p *Processes) Begin(id string) {
	p.mu.Lock()
	st := p.rules[id]
	if st == nil || p.closed {
		p.mu.Unlock()
		return
	}
	r, lifted := st.Rule, st.lifted
	acted := make(chan struct{})
	p.running.Go(func() { p.run(r, lifted, acted) })
	p.mu.Unlock()
	if r.Process.After == 0 {
		<-acted
	}
}

// run carries a rule out: what it does, and for a pause its end.
func (p *Processes) run(r fault.Rule, lifted <-chan struct{}, acted chan<- struct{}) {
	ok := p.wait(r.Process.After, lifted) && p.act(r)
	close(acted)
	if !ok || spec.Action(r.Process.Action) != spec.Pause {
		return
	}
	if r.Process.For > 0 {
		p.wait(r.Process.For, lifted)
	} else {
		<-lifted
	}
	p.resume(r)
}

// wait waits; false where the rule was lifted, or the leaf ended, meanwhile.
func (p *Processes) wait(d time.Duration, lifted <-chan struct{}) bool {
	done, stop := p.cfg.Clock.After(d)
	defer stop()
	select {
	case <-lifted:
	case <-p.ctx.Done():
	case <-done:
		return true
	}
	return false
}

// act does what a rule does, and reports whether it could.
func (p *Processes) act(r fault.Rule) bool {
	service := r.Process.Service
	pause := spec.Action(r.Process.Action) == spec.Pause
	if pause {
		p.mu.Lock()
		p.paused[service]++
		p.mu.Unlock()
	}
	err := p.cfg.Act(p.ctx, service, spec.Action(r.Process.Action))
	p.mu.Lock()
	st := p.rules[r.ID]
	if err != nil {
		st.failed = err
		if pause {
			p.paused[service]--
		}
	} else {
		st.fired++
	}
	n := st.fired
	p.mu.Unlock()
	if err != nil {
		p.cfg.Failed(r, err)
		return false
	}
	p.cfg.Fired(r, n)
	return true
}

// resume ends a rule's pause. A service that another rule pauses, too, stays so.
func (p *Processes) resume(r fault.Rule) {
	service := r.Process.Service
	p.mu.Lock()
	p.paused[service]--
	last := p.paused[service] == 0
	p.mu.Unlock()
	if !last {
		return
	}
	if err := p.cfg.Act(p.ctx, service, spec.Resume); err != nil {
		p.cfg.Failed(r, err)
	}
}

// Lift takes rules out of force: one that has not acted yet does not, and a pause ends.
func (p *Processes) Lift(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if st := p.rules[id]; st != nil && st.lifted != nil {
			close(st.lifted)
			st.lifted = nil
		}
	}
}

// Fired returns how often a rule has acted, in all its installations.
func (p *Processes) Fired(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st := p.rules[id]; st != nil {
		return st.fired
	}
	return 0
}

// Why says why a rule has not acted.
func (p *Processes) Why(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.rules[id]
	switch {
	case st == nil:
		return ""
	case st.failed != nil:
		return st.failed.Error()
	}
	return fmt.Sprintf("the fault was over before %s had passed", st.Process.After)
}

// Close ends all rules and returns when nothing is done any more to any service.
func (p *Processes) Close() {
	p.mu.Lock()
	p.closed = true
	for _, st := range p.rules {
		if st.lifted != nil {
			close(st.lifted)
			st.lifted = nil
		}
	}
	p.mu.Unlock()
	p.end()
	p.running.Wait()
}
