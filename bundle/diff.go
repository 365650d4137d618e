package bundle

import (
	"github.com/squallhq/squall/verdict"
)

// Difference is what two bundles do not have in common.
type Difference struct {
	// Verdicts are leaves in both whose outcome or first reason differs.
	Verdicts []VerdictChange `json:"verdicts,omitempty"`
	// OnlyA and OnlyB are leaves that one bundle has.
	OnlyA []Leaf `json:"only_a,omitempty"`
	OnlyB []Leaf `json:"only_b,omitempty"`
	// Traces are leaves with the same verdict, reached in another way.
	Traces []TraceChange `json:"traces,omitempty"`
	// Seed and Spec tell that the two runs were not of the same thing.
	Seed bool `json:"seed,omitempty"`
	// Spec lists files of the specification that differ or that only one has.
	Spec []string `json:"spec,omitempty"`
}

// VerdictChange is a leaf that was judged otherwise.
type VerdictChange struct {
	ID         string          `json:"id"`
	Scenario   string          `json:"scenario"`
	Assumption string          `json:"assumption"`
	A          verdict.Verdict `json:"a"`
	B          verdict.Verdict `json:"b"`
}

// TraceChange is a leaf that did something else.
type TraceChange struct {
	ID         string `json:"id"`
	Scenario   string `json:"scenario"`
	Assumption string `json:"assumption"`
	A          string `json:"a"`
	B          string `json:"b"`
	EventsA    int    `json:"events_a"`
	EventsB    int    `json:"events_b"`
}

// Equal reports whether there is no difference in leaves, verdicts and traces.
func (d Difference) Equal() bool {
	return len(d.Verdicts) == 0 && len(d.OnlyA) == 0 && len(d.OnlyB) == 0 && len(d.Traces) == 0
}

// Diff compares two bundles leaf by leaf. Leaves are paired by scenario and assumption where their
// ids differ, since another seed gives other ids.
func Diff(a, b *Reader) Difference {
	d := Difference{Seed: a.manifest.Seed != b.manifest.Seed, Spec: specChanges(a, b)}
	pairs, onlyB := pair(a.verdicts.Leaves, b.verdicts.Leaves)
	for i, x := range a.verdicts.Leaves {
		y, ok := pairs[i]
		switch {
		case !ok:
			d.OnlyA = append(d.OnlyA, x)
		case !sameVerdict(x.Verdict, y.Verdict):
			d.Verdicts = append(d.Verdicts, VerdictChange{x.ID, x.Scenario, x.Assumption, x.Verdict, y.Verdict})
		case x.Trace != y.Trace:
			d.Traces = append(d.Traces, TraceChange{x.ID, x.Scenario, x.Assumption, x.Trace, y.Trace, x.Events, y.Events})
		}
	}
	d.OnlyB = onlyB
	return d
}

// pair returns, for indexes of a, the leaf of b that it is compared with, and what is left of b.
func pair(a, b []Leaf) (map[int]Leaf, []Leaf) {
	byID := map[string]int{}
	for j, leaf := range b {
		byID[leaf.ID] = j
	}
	pairs, used := map[int]Leaf{}, map[int]bool{}
	for i, leaf := range a {
		if j, ok := byID[leaf.ID]; ok {
			pairs[i], used[j] = b[j], true
		}
	}
	type cell struct{ scenario, assumption string }
	byCell := map[cell][]int{}
	for j, leaf := range b {
		if !used[j] {
			key := cell{leaf.Scenario, leaf.Assumption}
			byCell[key] = append(byCell[key], j)
		}
	}
	for i, leaf := range a {
		key := cell{leaf.Scenario, leaf.Assumption}
		if _, ok := pairs[i]; ok || len(byCell[key]) == 0 {
			continue
		}
		j := byCell[key][0]
		byCell[key] = byCell[key][1:]
		pairs[i], used[j] = b[j], true
	}
	var rest []Leaf
	for j, leaf := range b {
		if !used[j] {
			rest = append(rest, leaf)
		}
	}
	return pairs, rest
}

func sameVerdict(a, b verdict.Verdict) bool {
	if a.Outcome != b.Outcome || len(a.Reasons) == 0 != (len(b.Reasons) == 0) {
		return false
	}
	return len(a.Reasons) == 0 || a.Reasons[0].Code == b.Reasons[0].Code && a.Reasons[0].Subject == b.Reasons[0].Subject
}

func specChanges(a, b *Reader) []string {
	hashes := func(r *Reader) map[string]string {
		m := map[string]string{}
		for _, member := range r.manifest.Members {
			if len(member.Path) > 5 && member.Path[:5] == "spec/" {
				m[member.Path] = member.SHA256
			}
		}
		return m
	}
	x, y := hashes(a), hashes(b)
	var changed []string
	for _, m := range append(a.manifest.Members, b.manifest.Members...) {
		if x[m.Path] == y[m.Path] {
			continue
		}
		x[m.Path], y[m.Path] = "", ""
		if path, err := specPath(m.Path); err == nil {
			changed = append(changed, path)
		}
	}
	return changed
}
