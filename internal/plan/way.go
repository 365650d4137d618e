package plan

import (
	"fmt"
	"slices"

	"github.com/squallhq/squall/internal/seed"
)

// Decided is a choice that a leaf is made for, with the option that it takes there.
type Decided struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Of is how many options there are, Option the one taken in words; for records only.
	Of     int    `json:"of,omitempty"`
	Option string `json:"option,omitempty"`
}

// Way tells the leaves of one cell apart: each takes other options at the choices that it meets. At a
// choice that the way does not name, a leaf takes option 0.
type Way struct {
	// Decided has the choices at which another option than 0 is taken, in the order in which they are met.
	Decided []Decided `json:"decided,omitempty"`
	// Waits says what became of the operations of parallel branches, see Observations.
	Waits string `json:"waits,omitempty"`
}

// option returns what the way takes at a choice; false where it says nothing.
func (w Way) option(name string) (index int, ok bool) {
	for _, d := range w.Decided {
		if d.Name == name {
			return d.Index, true
		}
	}
	return 0, false
}

// parts are what a leaf's ID is made of beside its cell: the order in which choices are met has no part in it.
func (w Way) parts() []string {
	out := make([]string, len(w.Decided))
	for i, d := range w.Decided {
		out[i] = fmt.Sprintf("%s=%d", d.Name, d.Index)
	}
	slices.Sort(out)
	return out
}

// Along returns the leaf of the same cell and run that takes a way.
func (l *Leaf) Along(w Way) *Leaf {
	other := *l
	other.Way = w
	other.Pivot, other.Guessed = "", false
	other.ID = l.idOf(w)
	return &other
}

// idOf names a leaf: the plain one by its cell, others by what tells them apart.
func (l *Leaf) idOf(w Way) string {
	parts := w.parts()
	if l.Run > 0 {
		parts = append(parts, fmt.Sprintf("run=%d", l.Run))
	}
	if len(parts) == 0 {
		return l.Cell
	}
	return seed.ID(12, append([]string{l.Cell}, parts...)...)
}

// repeat returns the leaf as it is in a later run, from 0; each has a seed of its own.
func (l *Leaf) repeat(run int, root seed.Seed) *Leaf {
	other := *l
	other.Run = run
	other.Seed = (root + seed.Seed(run)).Derive(l.Cell)
	other.ID = other.idOf(l.Way)
	return &other
}

// Met is a choice as a leaf met it.
type Met struct {
	Name   string `json:"name"`
	Index  int    `json:"index"`
	Of     int    `json:"of"`
	Option string `json:"option,omitempty"`
	// Lane groups choices that come in the same order whenever the same is decided. The scenario's own are
	// in ""; those of a rule on a service's calls, which go on beside the scenario, in one of theirs.
	Lane string `json:"lane,omitempty"`
	// Reduced has only the options in Try deserve leaves of their own; otherwise all do.
	Reduced bool  `json:"reduced,omitempty"`
	Try     []int `json:"try,omitempty"`
	// Waits is how many observations had been made when it was met.
	Waits int `json:"waits,omitempty"`
}

// Walk decides the choices that a leaf meets, and keeps them. It is not safe for concurrent use.
type Walk struct {
	way   Way
	seen  map[string]int
	met   []Met
	waits []byte
}

// NewWalk returns a walk at its start.
func NewWalk(w Way) *Walk { return &Walk{way: w, seen: map[string]int{}} }

// Name makes the name of a choice its own: "backend", then "backend#2".
func (w *Walk) Name(base string) string {
	w.seen[base]++
	if n := w.seen[base]; n > 1 {
		return fmt.Sprintf("%s#%d", base, n)
	}
	return base
}

// Decide takes an option at a choice. It is an error where the way wants one that does not exist: what
// the choice depends on is not as it was.
func (w *Walk) Decide(m Met, options []string) (int, error) {
	m.Of, m.Waits = len(options), len(w.waits)
	if index, ok := w.way.option(m.Name); ok {
		if index >= m.Of {
			return 0, &LeftWay{Name: m.Name, Want: index, Of: m.Of}
		}
		m.Index = index
	}
	m.Option = options[m.Index]
	w.met = append(w.met, m)
	return m.Index, nil
}

// Reduce sets what a reduction found out about a choice after it was met.
func (w *Walk) Reduce(name string, try []int) {
	for i := range w.met {
		if w.met[i].Name == name {
			w.met[i].Reduced, w.met[i].Try = true, try
		}
	}
}

// Known returns the next observation that the way has; false where it has none and one must look.
func (w *Walk) Known() (byte, bool) {
	if n := len(w.waits); n < len(w.way.Waits) {
		return w.way.Waits[n], true
	}
	return 0, false
}

// Observe keeps an observation.
func (w *Walk) Observe(b byte) { w.waits = append(w.waits, b) }

// Observations returns all of them: "." for an operation that came to its end, "w" for one that waited
// for another branch, a letter for the branch that went on where all had waited.
func (w *Walk) Observations() string { return string(w.waits) }

// Met returns the choices met so far, in order.
func (w *Walk) Met() []Met { return slices.Clone(w.met) }

// Unmet returns the names of choices that the way has and the leaf did not meet.
func (w *Walk) Unmet() []string {
	var out []string
	for _, d := range w.way.Decided {
		if !slices.ContainsFunc(w.met, func(m Met) bool { return m.Name == d.Name }) {
			out = append(out, d.Name)
		}
	}
	return out
}

// LeftWay is the error of a leaf that can't go the way it is made for.
type LeftWay struct {
	Name     string
	Want, Of int
}

// Error says which choice is not as it was.
func (e *LeftWay) Error() string {
	return fmt.Sprintf("plan: choice %s has %d options, and the leaf is made for the one numbered %d", e.Name, e.Of, e.Want)
}
