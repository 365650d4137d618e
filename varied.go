package squall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

// Variation says how the runs of one leaf differ.
type Variation struct {
	// Leaf is the leaf of the first run.
	Leaf bundle.PlanLeaf
	Runs int
	// Outcomes are the verdicts with their first reasons and the numbers of runs, the most frequent first. Traces is
	// how many different traces there were.
	Outcomes []string
	Traces   int
	// Chance tells that something of it is drawn or decided: otherwise all runs are the same one again.
	Chance bool
}

// Varied returns, for each leaf that was run several times, what was not the same each time.
func Varied(p bundle.Plan, v bundle.Verdicts, decisions map[string][]bundle.Decision) []Variation {
	key := func(l bundle.PlanLeaf) string {
		text := cmp.Or(l.Cell, l.ID)
		if l.Run == 0 && l.Cell == "" {
			text = l.ID
		}
		for _, c := range l.Choices {
			text += fmt.Sprintf(" %s=%d", c.Name, c.Index)
		}
		return text
	}
	groups := map[string][]bundle.PlanLeaf{}
	var order []string
	for _, l := range p.Leaves {
		k := key(l)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], l)
	}
	leaves := map[string]bundle.Leaf{}
	for _, l := range v.Leaves {
		leaves[l.ID] = l
	}
	var out []Variation
	for _, k := range order {
		if len(groups[k]) > 1 {
			out = append(out, variation(groups[k], leaves, decisions))
		}
	}
	return out
}

func variation(runs []bundle.PlanLeaf, leaves map[string]bundle.Leaf, decisions map[string][]bundle.Decision) Variation {
	out := Variation{Leaf: runs[0], Runs: len(runs)}
	counts, traces := map[string]int{}, map[string]bool{}
	for _, r := range runs {
		l := leaves[r.ID]
		text := string(l.Verdict.Outcome)
		if len(l.Verdict.Reasons) > 0 && l.Verdict.Outcome != verdict.Pass {
			text += " " + string(l.Verdict.Reasons[0].Code)
		}
		counts[text]++
		traces[l.Trace] = true
		out.Chance = out.Chance || len(l.Choices) > 0 || slices.ContainsFunc(l.Rules, drawn) || missed(decisions[l.ID])
	}
	out.Traces = len(traces)
	for text, n := range counts {
		out.Outcomes = append(out.Outcomes, fmt.Sprintf("%d x %s", n, text))
	}
	slices.SortFunc(out.Outcomes, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(strings.SplitN(b, " ", 2)[0]), len(strings.SplitN(a, " ", 2)[0])), cmp.Compare(b, a))
	})
	return out
}

// drawn reports whether a rule's effect says that chance has a part in it.
func drawn(r bundle.RuleRecord) bool {
	return strings.Contains(r.Effect, "probability=") || strings.Contains(r.Effect, "jitter=")
}

// missed reports whether a rule spared something: its counters or chance did.
func missed(list []bundle.Decision) bool {
	return slices.ContainsFunc(list, func(d bundle.Decision) bool { return !d.Hit })
}

// Same reports whether nothing varied.
func (v Variation) Same() bool { return len(v.Outcomes) == 1 && v.Traces == 1 }

// String says it in words.
func (v Variation) String() string {
	switch {
	case v.Same() && !v.Chance:
		return fmt.Sprintf("nothing varied in %d runs, and nothing could: the leaf has no draw or choice, so every seed is the same run", v.Runs)
	case v.Same():
		return fmt.Sprintf("nothing varied in %d runs", v.Runs)
	}
	traces := "the traces are the same"
	if v.Traces > 1 {
		traces = fmt.Sprintf("%d different traces", v.Traces)
	}
	return strings.Join(v.Outcomes, ", ") + "; " + traces
}
