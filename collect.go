package squall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/verdict"
)

// leafBound is how many leaves a run makes where no limit is given. A run that meets more says so and is
// INCONCLUSIVE.
const leafBound = 2000

// collector puts finished leaves into the bundle. A leaf waits for the baselines of its scenario: without a
// baseline that works there is no PASS.
type collector struct {
	r     *runner
	front *plan.Frontier
	// cells has the cell of each scenario's baseline.
	cells     map[string]string
	baselines map[plan.Row][]bundle.Leaf
	planned   map[string]bundle.PlanLeaf
	held      []finished
	// kept counts the leaves of a row that are not ruled out.
	kept    map[plan.Row]int
	decided int
	failed  bool
	err     error
}

func newCollector(r *runner) *collector {
	bound := cmp.Or(r.options.MaxLeaves, leafBound)
	c := &collector{
		r: r, front: plan.NewFrontier(r.plan, bound), cells: map[string]string{}, baselines: map[plan.Row][]bundle.Leaf{},
		planned: map[string]bundle.PlanLeaf{}, kept: map[plan.Row]int{},
	}
	for _, l := range r.plan.Leaves {
		c.planned[l.ID] = l.Record()
		if l.Assumption == nil {
			c.cells[l.Scenario.Name] = l.Cell
		}
	}
	return c
}

// dispatch hands out leaves, and takes them in, until there is none any more.
func (c *collector) dispatch(ctx context.Context, cancel func(), next chan<- *plan.Leaf, results <-chan finished, updates <-chan Progress) {
	var waiting *plan.Leaf
	for running := 0; ; {
		if waiting == nil && ctx.Err() == nil {
			waiting = c.front.Next()
		}
		if waiting == nil && running == 0 {
			return
		}
		out, stop := next, ctx.Done()
		if waiting == nil {
			out, stop = nil, nil
		}
		select {
		case out <- waiting:
			waiting = nil
			running++
		case u := <-updates:
			c.r.observe(u)
		case f := <-results:
			running--
			c.add(f)
			if c.err != nil || c.r.options.FailFast && c.failed {
				cancel()
			}
		case <-stop:
			waiting = nil
		}
	}
}

// add takes a leaf that has run, and what it brought to light.
func (c *collector) add(f finished) {
	l := f.leaf
	if f.err != nil {
		c.front.Finish(l, nil, "")
		f.writer.Abort()
		if !errors.Is(f.err, context.Canceled) && c.err == nil {
			c.err = fmt.Errorf("squall: leaf %s (%s): %w", l.ID, l.Name(), f.err)
		}
		return
	}
	c.grow(c.front.Finish(l, f.done.Met, f.done.Waits))
	if why := twin(f); why != "" {
		c.prune(f, why)
	} else {
		if ruledOut(f) == "" {
			c.kept[l.Row()]++
		}
		c.held = append(c.held, f)
	}
	c.settle()
}

// grow takes up leaves that came to light.
func (c *collector) grow(added []*plan.Leaf) {
	var records []bundle.PlanLeaf
	for _, l := range added {
		records = append(records, l.Record())
		c.planned[l.ID] = l.Record()
	}
	if len(records) > 0 {
		c.r.record.Leaves = append(c.r.record.Leaves, records...)
		c.r.observe(Progress{Added: records})
	}
}

// settle puts away the leaves of which all is known that their verdict needs.
func (c *collector) settle() {
	held := c.held
	c.held = nil
	first := func(f finished) int {
		if f.leaf.Assumption == nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(held, func(a, b finished) int { return cmp.Compare(first(a), first(b)) })
	for _, f := range held {
		row, why := f.leaf.Row(), ruledOut(f)
		base := plan.Row{Cell: c.cells[f.leaf.Scenario.Name], Run: f.leaf.Run}
		switch {
		case why != "" && c.front.Open(row), f.leaf.Assumption != nil && c.front.Open(base):
			c.held = append(c.held, f)
		case why != "" && c.kept[row] > 0:
			c.prune(f, why)
		default:
			c.put(f)
		}
	}
}

// twin says why a leaf is the same as another one that is run too; "" where it is not. Who chose a leaf by its
// ID wants to see it in any case.
func twin(f finished) string {
	l := f.leaf
	if !l.Explores || len(f.done.Unmet) == 0 || slices.Contains(f.done.Unmet, l.Pivot) {
		return ""
	}
	return fmt.Sprintf("it never comes to the choice %s, so it is the same as the leaf without it", f.done.Unmet[0])
}

// ruledOut says why a leaf is no combination of choices that the specification means; "" where it is one. A body
// that ends itself before it has had to do with the system does so because of its choices only.
func ruledOut(f finished) string {
	reasons := f.done.Leaf.Verdict.Reasons
	if !f.leaf.Explores || !f.done.Idle || len(f.done.Met) == 0 || len(reasons) == 0 {
		return ""
	}
	for _, r := range reasons {
		if r.Code == verdict.Halted {
			return r.Detail
		}
		if row, _ := verdict.Lookup(r.Code); row.Outcome == verdict.Fail {
			return ""
		}
	}
	return ""
}

// prune takes a leaf out of the plan.
func (c *collector) prune(f finished, why string) {
	f.writer.Abort()
	record := &c.r.record
	record.Leaves = slices.DeleteFunc(record.Leaves, func(l bundle.PlanLeaf) bool { return l.ID == f.leaf.ID })
	record.Pruned = append(record.Pruned, bundle.PrunedLeaf{PlanLeaf: c.planned[f.leaf.ID], Why: why})
	c.r.observe(Progress{Leaf: c.planned[f.leaf.ID], Phase: "pruned"})
}

func (c *collector) put(f finished) {
	leaf := f.done.Leaf
	row := plan.Row{Cell: c.cells[f.leaf.Scenario.Name], Run: f.leaf.Run}
	if leaf.Assumption == bundle.Baseline {
		c.baselines[row] = append(c.baselines[row], leaf)
		leaf.Verdict = check.WithControls(leaf.Verdict, leaf.Controls, nil)
	} else {
		baseline := c.baseline(row, leaf)
		leaf.Verdict = check.WithBaseline(leaf.Verdict, baseline.Verdict, leaf.Scenario)
		leaf.Verdict = check.WithControls(leaf.Verdict, leaf.Controls, &baseline)
	}
	planned := c.planned[leaf.ID]
	planned.Waits = f.done.Waits
	c.planned[leaf.ID] = planned
	if err := f.writer.Close(leaf, f.done.Decisions); err != nil {
		if c.err == nil {
			c.err = err
		}
		return
	}
	c.failed = c.failed || leaf.Verdict.Outcome == verdict.Fail
	c.decided++
	c.r.observe(Progress{Leaf: planned, Phase: "done", Done: &leaf})
}

// baseline returns the baseline that a leaf is judged by.
func (c *collector) baseline(row plan.Row, leaf bundle.Leaf) bundle.Leaf {
	var candidates []bundle.PlanLeaf
	for _, b := range c.baselines[row] {
		candidates = append(candidates, c.planned[b.ID])
	}
	i := nearestBaseline(candidates, c.planned[leaf.ID])
	if i < 0 {
		return bundle.Leaf{}
	}
	return c.baselines[row][i]
}

// nearestBaseline returns the index of the baseline that is most like a leaf: it takes no option that the leaf does
// not take, and of those it shares the most. A fault may lead the scenario to choices that it does not meet
// without it.
func nearestBaseline(baselines []bundle.PlanLeaf, leaf bundle.PlanLeaf) int {
	best := -1
	for i, b := range baselines {
		fits := b.Assumption == bundle.Baseline && b.Scenario == leaf.Scenario && b.Run == leaf.Run
		for _, choice := range b.Choices {
			fits = fits && slices.ContainsFunc(leaf.Choices, func(o bundle.ChoiceRecord) bool {
				return o.Name == choice.Name && o.Index == choice.Index
			})
		}
		if fits && (best < 0 || len(b.Choices) > len(baselines[best].Choices)) {
			best = i
		}
	}
	return best
}

// finish reports whether every leaf was decided. Leaves whose baseline never ended cannot be judged
// and count as not run.
func (c *collector) finish() bool {
	for _, f := range c.held {
		f.writer.Abort()
	}
	record := &c.r.record
	order := map[string]int{}
	for i, l := range record.Leaves {
		record.Leaves[i] = c.planned[l.ID]
		if cell := cmp.Or(l.Cell, l.ID); order[cell] == 0 {
			order[cell] = len(order) + 1
		}
	}
	// As leaves come to light in whatever order, they are put into one that does not depend on it.
	slices.SortStableFunc(record.Leaves, func(a, b bundle.PlanLeaf) int {
		return cmp.Or(cmp.Compare(order[cmp.Or(a.Cell, a.ID)], order[cmp.Or(b.Cell, b.ID)]), cmp.Compare(a.Run, b.Run),
			slices.CompareFunc(a.Choices, b.Choices, func(a, b bundle.ChoiceRecord) int {
				return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Index, b.Index))
			}))
	})
	slices.SortFunc(record.Pruned, func(a, b bundle.PrunedLeaf) int { return cmp.Compare(a.ID, b.ID) })
	record.Open, record.Unexplored = false, c.front.Beyond()
	return c.decided == len(record.Leaves) && record.Unexplored == 0
}
