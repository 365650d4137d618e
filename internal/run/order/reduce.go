package order

import "slices"

// Backtracks returns, for each choice that was met, the other options that deserve leaves of their own. It is
// asked once nobody conducts any more.
func (s *Schedule) Backtracks() map[string][]int {
	var pending []step
	for _, b := range s.Branches {
		if b.stood() {
			pending = append(pending, step{branch: b.index, op: b.op})
		}
	}
	found := backtracks(s.steps, pending)
	out := map[string][]int{}
	for _, st := range s.steps {
		if st.choice != "" {
			out[st.choice] = slices.Sorted(slices.Values(found[st.choice]))
		}
	}
	return out
}

// backtracks returns, for each choice of a schedule, the other options that deserve a leaf: those that turn
// round two operations whose order may matter. pending are the operations before which branches stood when the
// schedule ended early.
//
// This is the dynamic partial order reduction of Flanagan and Godefroid. Two orders that differ only in the
// order of operations without conflict lead to the same end, so one of each class is enough. For
// each operation the last earlier one of another branch is sought with which it conflicts, and which nothing
// orders before it: no chain of conflicts and of program order leads from that one to what the later
// branch has done before. At the choice that let the earlier one go first, the later branch is tried
// instead; where it could not go on there, all that could are. Further ones come to light as those
// leaves are run.
func backtracks(steps []step, pending []step) map[string][]int {
	out := map[string][]int{}
	before := happensBefore(steps)
	for j, later := range slices.Concat(steps, pending) {
		own := -1
		for i := min(j, len(steps)) - 1; i >= 0; i-- {
			if steps[i].branch == later.branch {
				own = i
				break
			}
		}
		for i := min(j, len(steps)) - 1; i >= 0; i-- {
			earlier := steps[i]
			if earlier.branch == later.branch || !earlier.op.conflicts(later.op) {
				continue
			}
			if own >= 0 && (own == i || before[i][own]) {
				continue
			}
			try(out, earlier, later.branch)
			break
		}
	}
	return out
}

// try notes that a branch is to go first at a choice.
func try(out map[string][]int, at step, branch int) {
	if at.choice == "" {
		return
	}
	add := func(i int) {
		if at.ready[i] != at.branch && !slices.Contains(out[at.choice], i) {
			out[at.choice] = append(out[at.choice], i)
		}
	}
	if i := slices.Index(at.ready, branch); i >= 0 {
		add(i)
		return
	}
	for i := range at.ready {
		add(i)
	}
}

// happensBefore tells, for steps i < j, whether a chain of program order and conflicts leads from i to j.
func happensBefore(steps []step) [][]bool {
	before := make([][]bool, len(steps))
	for i := range before {
		before[i] = make([]bool, len(steps))
	}
	for j := range steps {
		for k := j - 1; k >= 0; k-- {
			if steps[k].branch != steps[j].branch && !steps[k].op.conflicts(steps[j].op) {
				continue
			}
			before[k][j] = true
			for i := range k {
				before[i][j] = before[i][j] || before[i][k]
			}
		}
	}
	return before
}
