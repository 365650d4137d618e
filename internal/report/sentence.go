package report

import (
	"fmt"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

// Sentence says the verdict of a run in one sentence.
func Sentence(v bundle.Verdicts) string {
	n := len(v.Leaves)
	if n == 0 {
		return "Nothing was tested: no leaf was run."
	}
	var fails, open []bundle.Leaf
	undecided := 0
	for _, leaf := range v.Leaves {
		switch {
		case leaf.Verdict.Outcome == verdict.Fail:
			fails = append(fails, leaf)
		case interrupted(leaf):
			undecided++
		case leaf.Verdict.Outcome != verdict.Pass:
			open = append(open, leaf)
		}
	}
	tail := ""
	if undecided > 0 {
		tail = fmt.Sprintf(" The run was stopped with %s undecided.", plural(undecided, "leaf", "leaves"))
	}
	switch {
	case len(fails) > 0:
		return fmt.Sprintf("%s: %s.", share(len(fails), n, "fails", "fail"), why(fails)) + tail
	case len(open) > 0:
		return fmt.Sprintf("%s: %s.", share(len(open), n, "is inconclusive", "are inconclusive"), why(open)) + tail
	case undecided > 0:
		return fmt.Sprintf("The run was stopped: %s not decided.", share(undecided, n, "is", "are"))
	case n == 1:
		return "The one leaf passes."
	}
	return fmt.Sprintf("All %d leaves pass.", n)
}

func share(k, n int, one, many string) string {
	switch {
	case n == 1:
		return "The one leaf " + one
	case k == n:
		return fmt.Sprintf("All %d leaves %s", n, many)
	case k == 1:
		return fmt.Sprintf("1 of %d leaves %s", n, one)
	}
	return fmt.Sprintf("%d of %d leaves %s", k, n, many)
}

// headline is the most that a sentence says of a reason; the leaf's own entry has all of it.
const headline = 120

func why(leaves []bundle.Leaf) string {
	leaf := leaves[0]
	r := leaf.Verdict.Reasons[0]
	detail := strings.TrimRight(printable(r.Detail), ". ")
	if detail == "" {
		row, _ := verdict.Lookup(r.Code)
		detail = row.Sentence
	}
	detail = cut(detail, headline)
	where := leaf.Scenario
	if leaf.Assumption != bundle.Baseline {
		where += " under " + leaf.Assumption
	}
	if len(leaves) > 1 {
		where = "first in " + where
	} else {
		where = "in " + where
	}
	return detail + ", " + where
}
