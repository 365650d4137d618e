package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/spec"
)

// Origin says how a leaf came into the plan.
type Origin struct {
	// Pivot is the choice that this leaf decides otherwise than the one that brought it to light. Guessed is set
	// where none has: the text of the specification says that the choices are met.
	Pivot   string
	Guessed bool
	// Explores is set where choices that it meets make further leaves.
	Explores bool
}

// Find returns a leaf by its ID, its cell, its run and its way. It is an error where that makes another ID: the
// suite is not the one that the leaf is of.
func (p *Plan) Find(id, cell string, run int, way Way) (*Leaf, error) {
	if cell == "" {
		cell = id
	}
	for _, l := range p.Leaves {
		if l.Cell != cell {
			continue
		}
		if found := l.repeat(run, p.Seed).Along(way); found.ID == id {
			return found, nil
		}
	}
	return nil, fmt.Errorf("plan: leaf %q: there is none", id)
}

// exact returns leaves as a record has them.
func exact(cells []*Leaf, o Options) ([]*Leaf, error) {
	p := &Plan{Leaves: cells, Seed: o.Seed}
	var out []*Leaf
	for _, r := range o.Exact {
		way := Way{Waits: r.Waits}
		for _, c := range r.Choices {
			way.Decided = append(way.Decided, Decided{Name: c.Name, Index: c.Index, Of: c.Of, Option: c.Option})
		}
		l, err := p.Find(r.ID, r.Cell, r.Run, way)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// grown returns the leaves of all cells, as far as they are known before any has run, for each run.
func grown(cells []*Leaf, o Options) []*Leaf {
	var out []*Leaf
	for _, cell := range cells {
		ways := knownWays(cell.Scenario)
		for run := range max(o.Runs, 1) {
			base := cell.repeat(run, o.Seed)
			base.Explores = true
			out = append(out, base)
			for _, w := range ways {
				l := base.Along(w)
				l.Guessed = true
				out = append(out, l)
			}
		}
	}
	return out
}

// maxKnown bounds how many ways a plan lists ahead of their run; further ones come to light in the running.
const maxKnown = 4096

// knownWays returns the ways through the choices that a scenario is sure to meet, but the plain one. Ways that the
// specification rules out are left out.
func knownWays(sc *spec.Scenario) []Way {
	ways := []Way{{}}
	for _, c := range sc.Choices {
		if !c.Sure || c.Fans || len(c.Options) == 0 {
			break
		}
		if len(ways)*len(c.Options) > maxKnown {
			break
		}
		var next []Way
		for _, w := range ways {
			next = append(next, w)
			for i := 1; i < len(c.Options); i++ {
				decided := append(slices.Clone(w.Decided), Decided{Name: c.Name, Index: i, Of: len(c.Options), Option: c.Options[i]})
				next = append(next, Way{Decided: decided})
			}
		}
		ways = next
	}
	return slices.DeleteFunc(ways, func(w Way) bool { return len(w.Decided) == 0 || ruledOut(sc, w) != "" })
}

// ruledOut says why a scenario has no such leaf; "" where it may have.
func ruledOut(sc *spec.Scenario, w Way) string {
	if sc.RulesOut == nil {
		return ""
	}
	options := map[string]int{}
	for _, c := range sc.Choices {
		if c.Sure && !c.Fans && len(c.Options) > 0 {
			options[c.Name] = 0
		}
	}
	for _, d := range w.Decided {
		options[d.Name] = d.Index
	}
	return sc.RulesOut(options)
}

// open reports whether more leaves of the cell may come to light in the running.
func (l *Leaf) open() bool {
	for _, c := range l.Scenario.Choices {
		if !c.Sure || c.Fans || len(c.Options) == 0 {
			return true
		}
	}
	return slices.ContainsFunc(l.Rules(), func(r fault.Rule) bool { return r.When.Exhaustive })
}

// Record returns the leaf as it stands in a plan's record.
func (l *Leaf) Record() bundle.PlanLeaf {
	r := bundle.PlanLeaf{
		ID: l.ID, Scenario: l.Scenario.Name, Assumption: l.AssumptionName(), Seed: uint64(l.Seed), Run: l.Run, Waits: l.Way.Waits,
	}
	if l.ID != l.Cell {
		r.Cell = l.Cell
	}
	for _, d := range l.Way.Decided {
		r.Choices = append(r.Choices, bundle.ChoiceRecord{Name: d.Name, Index: d.Index, Of: d.Of, Option: d.Option})
	}
	return r
}

func choicesOf(s *spec.Scenario) []bundle.PlanChoice {
	var out []bundle.PlanChoice
	for _, c := range s.Choices {
		out = append(out, bundle.PlanChoice{Name: c.Name, Options: c.Options, Sure: c.Sure, Position: c.Position})
	}
	return out
}

// TalksTo returns the services that a service may connect to, as far as its declaration tells: those that it
// depends on, and those that its arguments or environment name.
func TalksTo(s *spec.Suite, from *spec.Service) []string {
	texts := slices.Clone(from.Args)
	for _, v := range from.Env {
		texts = append(texts, v)
	}
	var out []string
	for _, to := range s.Services {
		if to == from {
			continue
		}
		named := slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, to.Name) })
		if named || slices.Contains(from.DependsOn, to.Name) {
			out = append(out, to.Name)
		}
	}
	return out
}
