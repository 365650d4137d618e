package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/spec"
)

func frontierOf(bound int) (*Frontier, *Plan) {
	l := &Leaf{ID: "cell", Cell: "cell", Scenario: &spec.Scenario{Name: "s"}, Origin: Origin{Explores: true}}
	p := &Plan{Leaves: []*Leaf{l}}
	return NewFrontier(p, bound), p
}

// explore runs a program of choices to the end of its tree and returns what each leaf did.
func explore(t *testing.T, bound int, program func(choose func(lane, name string, n int) int)) (paths []string, f *Frontier) {
	t.Helper()
	f, _ = frontierOf(bound)
	for !f.Done() {
		l := f.Next()
		w := NewWalk(l.Way)
		program(func(lane, name string, n int) int {
			options := make([]string, n)
			i, err := w.Decide(Met{Name: w.Name(name), Lane: lane}, options)
			if err != nil {
				t.Fatal(err)
			}
			return i
		})
		if unmet := w.Unmet(); slices.Contains(unmet, l.Pivot) {
			t.Fatalf("leaf %s: the choice %s that makes it was not met", l.ID, l.Pivot)
		} else if len(unmet) == 0 {
			paths = append(paths, text(w.Met()))
		}
		f.Finish(l, w.Met(), w.Observations())
	}
	slices.Sort(paths)
	return paths, f
}

func text(met []Met) string {
	var parts []string
	for _, m := range met {
		parts = append(parts, fmt.Sprintf("%s=%d", m.Name, m.Index))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func TestFrontierFindsEachLeafOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		program func(choose func(lane, name string, n int) int)
		want    []string
	}{
		{"no choice", func(func(string, string, int) int) {}, []string{""}},
		{"one option", func(c func(string, string, int) int) { c("", "x", 1) }, []string{"x=0"}},
		{"two choices", func(c func(string, string, int) int) { c("", "x", 2); c("", "y", 2) },
			[]string{"x=0 y=0", "x=0 y=1", "x=1 y=0", "x=1 y=1"}},
		{"a choice behind a choice", func(c func(string, string, int) int) {
			if c("", "x", 3) == 1 {
				c("", "y", 2)
			}
		}, []string{"x=0", "x=1 y=0", "x=1 y=1", "x=2"}},
		{"the same name twice", func(c func(string, string, int) int) { c("", "x", 2); c("", "x", 2) },
			[]string{"x#2=0 x=0", "x#2=0 x=1", "x#2=1 x=0", "x#2=1 x=1"}},
		{"lanes side by side", func(c func(string, string, int) int) { c("a", "a", 2); c("b", "b", 2); c("", "x", 2) },
			[]string{"a=0 b=0 x=0", "a=0 b=0 x=1", "a=0 b=1 x=0", "a=0 b=1 x=1", "a=1 b=0 x=0", "a=1 b=0 x=1", "a=1 b=1 x=0", "a=1 b=1 x=1"}},
		{"a lane that ends another", func(c func(string, string, int) int) {
			if c("a", "a", 2) == 0 {
				c("", "x", 2)
			}
		}, []string{"a=0 x=0", "a=0 x=1", "a=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := explore(t, 0, c.program)
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestFrontierOfLanesInAnyOrder has two lanes of which now one comes first and now the other: no leaf may be lost.
func TestFrontierOfLanesInAnyOrder(t *testing.T) {
	for s := range uint64(50) {
		r := rand.New(rand.NewPCG(s, 1))
		got, _ := explore(t, 0, func(c func(string, string, int) int) {
			names := []string{"a", "b", "c"}
			r.Shuffle(3, func(i, j int) { names[i], names[j] = names[j], names[i] })
			for _, n := range names {
				c(n, n+"1", 2)
				c(n, n+"2", 2)
			}
		})
		if got = slices.Compact(got); len(got) != 64 {
			t.Fatalf("seed %d: %d of 64 leaves", s, len(got))
		}
	}
}

func TestFrontierAgainstRandomTrees(t *testing.T) {
	for s := range uint64(200) {
		// The tree is a function of what was decided: a draw keyed by the path so far.
		tree := func(c func(string, string, int) int, visit func(string)) {
			path := ""
			for depth := range 5 {
				r := rand.New(rand.NewPCG(s, uint64(len(path)*31+depth+sum(path))))
				n := r.IntN(4)
				if n == 0 {
					break
				}
				path += fmt.Sprint(c("", fmt.Sprintf("c%d", r.IntN(3)), n))
			}
			visit(path)
		}
		var want []string
		var all func(prefix []int)
		all = func(prefix []int) {
			i, last := 0, 0
			tree(func(_, _ string, n int) int {
				i++
				if i <= len(prefix) {
					return prefix[i-1]
				}
				if i == len(prefix)+1 {
					last = n
				}
				return 0
			}, func(path string) {
				if last == 0 {
					want = append(want, path)
				}
			})
			for k := range last {
				all(append(slices.Clone(prefix), k))
			}
		}
		all(nil)
		var got []string
		explore(t, 0, func(c func(string, string, int) int) { tree(c, func(p string) { got = append(got, p) }) })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d:\ngot  %v\nwant %v", s, got, want)
		}
	}
}

func sum(s string) (n int) {
	for _, c := range s {
		n = n*7 + int(c)
	}
	return n
}

func TestFrontierBound(t *testing.T) {
	got, f := explore(t, 3, func(c func(string, string, int) int) { c("", "x", 3); c("", "y", 3) })
	if len(got) != 3 || f.Beyond() == 0 {
		t.Errorf("%d leaves, %d beyond: want 3 and some", len(got), f.Beyond())
	}
}

func TestFrontierOrder(t *testing.T) {
	sc := &spec.Scenario{Name: "s"}
	base := &Leaf{ID: "b", Cell: "b", Scenario: sc, Origin: Origin{Explores: true}}
	cell := &Leaf{ID: "c", Cell: "c", Scenario: sc, Assumption: &spec.Assumption{Name: "a"}, Origin: Origin{Explores: true}}
	f := NewFrontier(&Plan{Leaves: []*Leaf{base, cell}}, 0)
	first := f.Next()
	if added := f.Finish(first, []Met{{Name: "x", Of: 2}}, ""); len(added) != 1 || !f.Open(base.Row()) {
		t.Fatalf("added %v", added)
	}
	if l := f.Next(); l.Cell != "b" || l.Pivot != "x" {
		t.Errorf("the next leaf is %s of %s: what its baseline still has comes first", l.ID, l.Cell)
	}
	plain := &Leaf{ID: "p", Cell: "p", Scenario: sc}
	f = NewFrontier(&Plan{Leaves: []*Leaf{plain}}, 0)
	if added := f.Finish(f.Next(), []Met{{Name: "x", Of: 2}}, ""); added != nil || !f.Done() {
		t.Errorf("a leaf that explores nothing has added %v", added)
	}
}

func TestWalkLeavesWay(t *testing.T) {
	w := NewWalk(Way{Decided: []Decided{{Name: "x", Index: 2}, {Name: "y", Index: 1}}})
	if _, err := w.Decide(Met{Name: "x"}, []string{"a", "b"}); err == nil {
		t.Error("option 2 of 2 was taken")
	}
	if got := w.Unmet(); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("unmet %v", got)
	}
}

func TestIDs(t *testing.T) {
	base := &Leaf{ID: "cell", Cell: "cell"}
	x, y := Decided{Name: "x", Index: 1}, Decided{Name: "y", Index: 1}
	one := base.Along(Way{Decided: []Decided{x, y}}).ID
	if two := base.Along(Way{Decided: []Decided{y, x}, Waits: "w"}).ID; one != two {
		t.Error("the order of meeting has a part in the ID")
	}
	if base.Along(Way{}).ID != "cell" || base.repeat(1, 0).ID == "cell" || base.Along(Way{Decided: []Decided{x}}).ID == one {
		t.Error("IDs do not tell leaves apart")
	}
	if base.repeat(1, 0).Along(Way{Decided: []Decided{x}}).ID != base.Along(Way{Decided: []Decided{x}}).repeat(1, 0).ID {
		t.Error("the ID depends on whether the run or the way came first")
	}
}
