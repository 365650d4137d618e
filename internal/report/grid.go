package report

import (
	"slices"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

// grid is the matrix of a plan: scenarios by assumptions.
type grid struct {
	scenarios, assumptions []string
	// cells holds the leaves of each cell; several where choices made more than one.
	cells map[cellKey][]string
}

type cellKey struct{ scenario, assumption string }

// newGrid keeps the order of the plan, with the baseline first.
func newGrid(p bundle.Plan) grid {
	g := grid{cells: map[cellKey][]string{}}
	used := map[string]bool{}
	for _, leaf := range p.Leaves {
		key := cellKey{leaf.Scenario, leaf.Assumption}
		g.cells[key] = append(g.cells[key], leaf.ID)
		used[leaf.Scenario] = true
		if !slices.Contains(g.assumptions, leaf.Assumption) {
			g.assumptions = append(g.assumptions, leaf.Assumption)
		}
	}
	for _, s := range p.Scenarios {
		if used[s.Name] {
			g.scenarios = append(g.scenarios, s.Name)
			delete(used, s.Name)
		}
	}
	for _, leaf := range p.Leaves {
		if used[leaf.Scenario] {
			g.scenarios = append(g.scenarios, leaf.Scenario)
			delete(used, leaf.Scenario)
		}
	}
	rank := map[string]int{bundle.Baseline: -1}
	for i, a := range p.Assumptions {
		rank[a.Name] = i
	}
	slices.SortStableFunc(g.assumptions, func(a, b string) int {
		x, okx := rank[a]
		y, oky := rank[b]
		switch {
		case okx && oky:
			return x - y
		case okx:
			return -1
		case oky:
			return 1
		}
		return 0
	})
	return g
}

// outcome returns what a cell shows: the worst of its leaves, and false where there is no leaf or
// none of them is decided yet.
func (g grid) outcome(leaves map[string]bundle.Leaf, scenario, assumption string) (verdict.Outcome, bool) {
	var outcomes []verdict.Outcome
	for _, id := range g.cells[cellKey{scenario, assumption}] {
		if leaf, ok := leaves[id]; ok {
			outcomes = append(outcomes, leaf.Verdict.Outcome)
		}
	}
	if len(outcomes) == 0 {
		return "", false
	}
	return verdict.Worst(outcomes...), true
}

func byID(v bundle.Verdicts) map[string]bundle.Leaf {
	leaves := make(map[string]bundle.Leaf, len(v.Leaves))
	for _, leaf := range v.Leaves {
		leaves[leaf.ID] = leaf
	}
	return leaves
}
