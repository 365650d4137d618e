package rules

import (
	"errors"
	"slices"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
)

// gate is what calls and requests wait behind that a rule holds.
type gate struct {
	open chan struct{}
	held int
}

// Gate returns a channel that is closed once the rule lets go what it holds, or is lifted.
func (f *Set) Gate(id string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.gates[id]
	if g == nil {
		g = &gate{open: make(chan struct{})}
		f.gates[id] = g
	}
	if !f.active[id] {
		return f.lifted[id]
	}
	g.held++
	return g.open
}

// Ungate tells that a call is not held any more that was.
func (f *Set) Ungate(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.gates[id]; g != nil {
		g.held = max(g.held-1, 0)
	}
}

// letGo opens the gates of rules and returns how much was held. It is called with mu held.
func (f *Set) letGo(id string) int {
	g := f.gates[id]
	if g == nil {
		return 0
	}
	close(g.open)
	delete(f.gates, id)
	return g.held
}

// holds reports whether a rule holds what it hits until it is let go.
func holds(r fault.Rule) bool {
	return r.Syscall != nil && r.Syscall.Hold || r.Message != nil && r.Message.Verb == "hold"
}

// LetGo implements spec.Active.
func (a *active) LetGo() (int, error) {
	if !slices.ContainsFunc(a.rules, holds) {
		return 0, errors.New("run: none of these rules holds anything")
	}
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	n := 0
	for _, r := range a.rules {
		n += a.set.letGo(r.ID)
		a.set.forgive(r.ID)
		if holds(r) {
			a.set.cfg.Log.Append(event.Driver, event.Fault, map[string]any{"op": "released", "rule": r.ID, "count": int64(n)})
		}
	}
	return n, nil
}

// forgive lets a call go that was held, and is made again.
func (f *Set) forgive(id string) {
	if e, ok := f.cfg.Syscall.(interface{ LetGo(id string) }); ok {
		e.LetGo(id)
	}
}
