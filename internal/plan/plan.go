// Package plan turns a suite into the leaves to be run.
//
// It is deterministic: the same suite, seed and options give the same leaves in
// the same order with the same IDs, in whatever process it is called. The
// process of a leaf relies on that to find the leaf that it was started for.
package plan

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// Options choose the leaves.
type Options struct {
	Seed seed.Seed
	// Tests are globs over "scenario" and "scenario/assumption"; none means all.
	Tests []string
	// Shard and Shards take each Shards-th chosen leaf, from 1; 0 of 0 means all.
	Shard, Shards int
	// MaxLeaves refuses a plan with more leaves; 0 means no limit.
	MaxLeaves int
	// Runs is how often each leaf is run, with seeds one apart; 0 means once.
	Runs int
	// Exact, where it is set, are the leaves to run and nothing beside them, whatever Tests say.
	Exact []bundle.PlanLeaf
}

// Plan is the leaves to be run.
type Plan struct {
	Suite  *spec.Suite
	Seed   seed.Seed
	Leaves []*Leaf
	// Untried names the assumptions that no leaf of the suite tries, chosen or not.
	Untried []string
	// elsewhere are the IDs of leaves that other shards run.
	elsewhere []string
}

// Leaf is one run: a scenario under an assumption, with the options that it takes at its choices.
type Leaf struct {
	// ID depends on the suite's file name, the scenario, the assumption, the options other than the first, and
	// the number of the repetition only. Cell is that of the leaf that takes the first option everywhere, the first time.
	ID, Cell string
	Run      int
	Way      Way
	Origin
	Scenario *spec.Scenario
	// Assumption is nil for a baseline.
	Assumption *spec.Assumption
	Expect     spec.Expect
	Properties
	Seed seed.Seed
	// Timeout replaces the scenario's where it is not 0.
	Timeout time.Duration
	// MayRest lets the assumption's rules never fire.
	MayRest bool
}

// Properties are what must hold in a leaf.
type Properties struct {
	Monitors []*property.Monitor
	Temporal []*property.Temporal
	// Elsewhere are, of a baseline, the monitors that hold in other leaves of the scenario only.
	Elsewhere []*property.Monitor
}

// AssumptionName returns the assumption's name, or bundle.Baseline.
func (l *Leaf) AssumptionName() string {
	if l.Assumption == nil {
		return bundle.Baseline
	}
	return l.Assumption.Name
}

// Name returns scenario/assumption.
func (l *Leaf) Name() string { return l.Scenario.Name + "/" + l.AssumptionName() }

// Rules returns the assumption's rules.
func (l *Leaf) Rules() []fault.Rule {
	if l.Assumption == nil {
		return nil
	}
	if !l.MayRest {
		return l.Assumption.Rules
	}
	rules := slices.Clone(l.Assumption.Rules)
	for i := range rules {
		rules[i].Optional = true
	}
	return rules
}

// TooMany is the error of a plan with more leaves than allowed.
type TooMany struct{ Leaves, Max int }

// Error says both numbers.
func (e *TooMany) Error() string {
	return fmt.Sprintf("plan: %d leaves, more than the %d allowed", e.Leaves, e.Max)
}

// Make returns the plan of a suite.
func Make(s *spec.Suite, o Options) (*Plan, error) {
	cells := all(s, o.Seed)
	p := &Plan{Suite: s, Seed: o.Seed, Untried: untried(s, cells)}
	if o.Exact != nil {
		var err error
		p.Leaves, err = exact(cells, o)
		return p, err
	}
	leaves := grown(cells, o)
	chosen, err := choose(leaves, o.Tests)
	if err != nil {
		return nil, err
	}
	mine := shard(chosen, o.Shard, o.Shards)
	p.Leaves = withBaselines(leaves, mine)
	for _, l := range chosen {
		if !slices.Contains(p.Leaves, l) {
			p.elsewhere = append(p.elsewhere, l.ID)
		}
	}
	if o.MaxLeaves > 0 && len(p.Leaves) > o.MaxLeaves {
		return nil, &TooMany{Leaves: len(p.Leaves), Max: o.MaxLeaves}
	}
	return p, nil
}

// all returns every leaf: for each scenario its baseline, then its cells in the order of the
// matrices and of the assumptions in them.
func all(s *spec.Suite, root seed.Seed) []*Leaf {
	var leaves []*Leaf
	for _, sc := range s.Scenarios {
		base := newLeaf(s, sc, nil, root)
		byName := map[string]*Leaf{bundle.Baseline: base}
		row := []*Leaf{base}
		for _, m := range s.Matrices {
			if !slices.Contains(m.Scenarios, sc) {
				continue
			}
			if base.Expect == nil {
				base.Expect = m.Default
			}
			base.addProperties(m)
			for _, a := range m.Assumptions {
				key := spec.CellKey{Scenario: sc.Name, Assumption: a.Name}
				if m.Exclude[key] {
					continue
				}
				leaf := byName[a.Name]
				if leaf == nil {
					leaf = newLeaf(s, sc, a, root)
					byName[a.Name] = leaf
					row = append(row, leaf)
				}
				leaf.addProperties(m)
				leaf.Timeout, leaf.MayRest = max(leaf.Timeout, m.Timeout), leaf.MayRest || m.FaultsMayRest
				leaf.Expect = both(leaf.Expect, cellExpect(m, key, sc))
			}
		}
		base.Elsewhere = onlyElsewhere(row)
		leaves = append(leaves, row...)
	}
	return leaves
}

func newLeaf(s *spec.Suite, sc *spec.Scenario, a *spec.Assumption, root seed.Seed) *Leaf {
	l := &Leaf{
		Scenario: sc, Assumption: a,
		Properties: Properties{Monitors: slices.Concat(s.Monitors, sc.Monitors), Temporal: slices.Concat(s.Temporal, sc.Temporal)},
	}
	if a == nil {
		l.Expect = sc.Expect
	} else {
		l.Monitors = append(l.Monitors, a.Monitors...)
		l.Temporal = append(l.Temporal, a.Temporal...)
	}
	l.Cell = seed.ID(8, filepath.Base(s.Source), sc.Name, l.AssumptionName())
	l.ID, l.Seed = l.Cell, root.Derive(l.Cell)
	return l
}

// addProperties adds a matrix's properties; a property that is there already is not added again.
func (l *Leaf) addProperties(m *spec.Matrix) {
	for _, mon := range m.Monitors {
		if !slices.Contains(l.Monitors, mon) {
			l.Monitors = append(l.Monitors, mon)
		}
	}
	for _, t := range m.Temporal {
		if !slices.Contains(l.Temporal, t) {
			l.Temporal = append(l.Temporal, t)
		}
	}
}

func cellExpect(m *spec.Matrix, key spec.CellKey, sc *spec.Scenario) spec.Expect {
	if e, ok := m.Overrides[key]; ok {
		return e
	}
	if m.Default != nil {
		return m.Default
	}
	return sc.Expect
}

// both joins the expectations of a cell that stands in two matrices: each has to hold.
func both(a, b spec.Expect) spec.Expect {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(ctx context.Context, w spec.World, result any) error {
		if err := a(ctx, w, result); err != nil {
			return err
		}
		return b(ctx, w, result)
	}
}

func choose(leaves []*Leaf, globs []string) ([]*Leaf, error) {
	if len(globs) == 0 {
		return leaves, nil
	}
	used := map[string]bool{}
	var chosen []*Leaf
	for _, l := range leaves {
		taken := false
		for _, g := range globs {
			byScenario, err := path.Match(g, l.Scenario.Name)
			if err != nil {
				return nil, fmt.Errorf("plan: filter %q: %w", g, err)
			}
			byName, _ := path.Match(g, l.Name())
			byID := strings.HasPrefix(l.ID, g) && len(g) >= 4
			if byScenario || byName || byID {
				taken, used[g] = true, true
			}
		}
		if taken {
			chosen = append(chosen, l)
		}
	}
	// One misspelled filter among several would leave out what it was to choose, and nobody would know.
	if idle := slices.DeleteFunc(slices.Clone(globs), func(g string) bool { return used[g] }); len(idle) > 0 {
		return nil, &NoMatch{Globs: idle, Names: names(leaves)}
	}
	return chosen, nil
}

// NoMatch is the error of filters that choose nothing.
type NoMatch struct {
	Globs []string
	// Names are those that there are.
	Names []string
}

// Error names the filter.
func (e *NoMatch) Error() string {
	return fmt.Sprintf("plan: no leaf matches %s", strings.Join(e.Globs, ", "))
}

func names(leaves []*Leaf) []string {
	out := make([]string, len(leaves))
	for i, l := range leaves {
		out[i] = l.Name()
	}
	return out
}

// untried returns the assumptions that stand in no cell and whose rules no leaf can inject: whoever
// declared them and sees a PASS would take them for tested.
func untried(s *spec.Suite, leaves []*Leaf) []string {
	var out []string
	for _, a := range s.Assumptions {
		tried := func(l *Leaf) bool {
			reach := l.Reach()
			return l.Assumption == a || !slices.ContainsFunc(a.Rules, func(r fault.Rule) bool { return reach.Allows(r) != "" })
		}
		if !slices.ContainsFunc(leaves, tried) {
			out = append(out, a.Name)
		}
	}
	return out
}

// shard takes each n-th leaf. Leaves are dealt out after filtering, so shards are equally large.
func shard(leaves []*Leaf, i, n int) []*Leaf {
	if n <= 1 {
		return leaves
	}
	var mine []*Leaf
	for k, l := range leaves {
		if k%n == i-1 {
			mine = append(mine, l)
		}
	}
	return mine
}

// withBaselines adds the baselines of the chosen leaves: without them there is no PASS.
func withBaselines(leaves, chosen []*Leaf) []*Leaf {
	take := map[*Leaf]bool{}
	scenarios := map[*spec.Scenario]bool{}
	for _, l := range chosen {
		take[l] = true
		scenarios[l.Scenario] = true
	}
	var out []*Leaf
	for _, l := range leaves {
		if take[l] || l.Assumption == nil && scenarios[l.Scenario] {
			out = append(out, l)
		}
	}
	return out
}

// Record returns the plan as it stands in a bundle.
func (p *Plan) Record() bundle.Plan {
	r := bundle.Plan{Schema: bundle.PlanSchema, Source: filepath.Base(p.Suite.Source), Seed: uint64(p.Seed), Untried: p.Untried}
	for _, s := range p.Suite.Services {
		ps := bundle.PlanService{Name: s.Name, Binary: filepath.Base(s.Binary), DependsOn: s.DependsOn, Ref: s.Ref, Position: s.Position}
		for _, i := range s.Interfaces {
			ps.Interfaces = append(ps.Interfaces, bundle.PlanInterface{Name: i.Name, Protocol: i.Protocol, Port: i.Port, Path: i.Path})
		}
		r.Services = append(r.Services, ps)
	}
	for _, s := range p.Suite.Scenarios {
		r.Scenarios = append(r.Scenarios, bundle.PlanScenario{Name: s.Name, Doc: s.Doc, Position: s.Position, Ref: s.Ref, Choices: choicesOf(s)})
	}
	for _, a := range p.Suite.Assumptions {
		pa := bundle.PlanAssumption{Name: a.Name, Doc: a.Doc, Effects: []string{}, Position: a.Position}
		for _, rule := range a.Rules {
			pa.Effects = append(pa.Effects, rule.Target()+": "+rule.Effect())
		}
		r.Assumptions = append(r.Assumptions, pa)
	}
	for _, l := range p.Leaves {
		r.Leaves = append(r.Leaves, l.Record())
		r.Open = r.Open || l.Explores && l.open()
	}
	return r
}
