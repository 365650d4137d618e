package plan

import (
	"cmp"
	"slices"
)

// Frontier is the edge of what is known of the leaves: those that wait to be run, and those that come
// to light as others are run. It starts nothing and reads no clock: leaves go out of Next, what they met comes
// in by Finish.
//
// The tree it walks is that of stateless search. A leaf follows its way and takes option 0 beyond it; each
// choice met beyond it gives one more leaf for each other option. A choice of one lane before the last
// one that the way decides has been given its leaves by whoever came before, so no way is made twice, and with
// programs that repeat what they do none is left out.
type Frontier struct {
	// bound is how many leaves there may be; 0 means no bound.
	bound   int
	waiting []*Leaf
	// running counts leaves under way, by their row and run.
	running map[Row]int
	known   map[string]bool
	order   map[string]int
	// count is how many leaves were taken up, beyond how many were not.
	count, beyond int
}

// Row is the leaves of a cell in one run.
type Row struct {
	Cell string
	Run  int
}

// Row returns what the leaf belongs to.
func (l *Leaf) Row() Row { return Row{l.Cell, l.Run} }

// NewFrontier returns the frontier of a plan. Leaves beyond the bound are counted, not run.
func NewFrontier(p *Plan, bound int) *Frontier {
	f := &Frontier{bound: bound, running: map[Row]int{}, known: map[string]bool{}, order: map[string]int{}, count: len(p.Leaves)}
	for _, id := range p.elsewhere {
		f.known[id] = true
	}
	for _, l := range p.Leaves {
		if _, ok := f.order[l.Cell]; !ok {
			f.order[l.Cell] = len(f.order)
		}
		f.known[l.ID] = true
		f.waiting = append(f.waiting, l)
	}
	return f
}

// Next takes a leaf out, of the first cell that has one: baselines come to their end before what needs them
// is judged. It returns nil where none waits at the moment.
func (f *Frontier) Next() *Leaf {
	if len(f.waiting) == 0 {
		return nil
	}
	l := f.waiting[0]
	f.waiting = f.waiting[1:]
	f.running[l.Row()]++
	return l
}

// Finish takes a leaf in with what it met, and returns the leaves that this has brought to light.
func (f *Frontier) Finish(l *Leaf, met []Met, waits string) []*Leaf {
	f.running[l.Row()]--
	if !l.Explores {
		return nil
	}
	var added []*Leaf
	for _, child := range children(l, met, waits) {
		switch {
		case f.known[child.ID]:
		case f.bound > 0 && f.count >= f.bound:
			f.known[child.ID] = true
			f.beyond++
		default:
			f.known[child.ID] = true
			f.count++
			added = append(added, child)
		}
	}
	f.waiting = append(f.waiting, added...)
	slices.SortStableFunc(f.waiting, func(a, b *Leaf) int {
		return cmp.Or(cmp.Compare(f.order[a.Cell], f.order[b.Cell]), cmp.Compare(a.Run, b.Run))
	})
	return added
}

// Open reports whether leaves of a row wait or run.
func (f *Frontier) Open(r Row) bool {
	return f.running[r] > 0 || slices.ContainsFunc(f.waiting, func(l *Leaf) bool { return l.Row() == r })
}

// Done reports whether nothing waits and nothing runs.
func (f *Frontier) Done() bool {
	for _, n := range f.running {
		if n > 0 {
			return false
		}
	}
	return len(f.waiting) == 0
}

// Waiting returns how many leaves wait.
func (f *Frontier) Waiting() int { return len(f.waiting) }

// Beyond returns how many leaves came to light that the bound left out. What those would have met is
// not known.
func (f *Frontier) Beyond() int { return f.beyond }

// children returns the leaves that a leaf's choices make beside it.
func children(l *Leaf, met []Met, waits string) []*Leaf {
	last := map[string]int{}
	for i, m := range met {
		if m.Index != 0 {
			last[m.Lane] = i
		}
	}
	var out []*Leaf
	for i, m := range met {
		if m.Reduced {
			for _, j := range m.Try {
				out = append(out, branch(l, met[:i], m, j, waits))
			}
			continue
		}
		if at, decided := last[m.Lane]; decided && i <= at {
			continue
		}
		for j := 1; j < m.Of; j++ {
			out = append(out, branch(l, met, m, j, waits))
		}
	}
	return out
}

// branch returns the leaf that takes another option at a choice.
func branch(l *Leaf, met []Met, at Met, option int, waits string) *Leaf {
	var w Way
	for _, m := range met {
		if m.Index != 0 && m.Name != at.Name {
			w.Decided = append(w.Decided, Decided{Name: m.Name, Index: m.Index, Of: m.Of, Option: m.Option})
		}
	}
	if option != 0 {
		w.Decided = append(w.Decided, Decided{Name: at.Name, Index: option, Of: at.Of})
	}
	w.Waits = waits[:min(at.Waits, len(waits))]
	child := l.Along(w)
	child.Pivot = at.Name
	return child
}
