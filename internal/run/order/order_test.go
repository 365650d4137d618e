package order

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// system is what the branches of a test work on: each service keeps who came in which order.
type system struct {
	mu   sync.Mutex
	seen map[string][]string
}

// program has the operations of each branch: the services that each touches.
type program [][][]string

// run carries a program out along a way and returns the walk and the end state.
func (p program) run(t *testing.T, how spec.Interleaving, way plan.Way) (*plan.Walk, string) {
	t.Helper()
	walk := plan.NewWalk(way)
	sys := &system{seen: map[string][]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &Schedule{How: how, Name: walk.Name("parallel"), Walk: walk, Decide: walk.Decide, Seed: 7, Clock: vtime.Wall()}
	var wg sync.WaitGroup
	for i, ops := range p {
		b := NewBranch(ctx, i)
		s.Branches = append(s.Branches, b)
		wg.Go(func() {
			defer b.Leave()
			for k, services := range ops {
				op := Operation{What: fmt.Sprintf("%d.%d", i, k), Service: services[0], Touches: map[string]bool{}}
				for _, name := range services {
					op.Touches[name] = true
				}
				if err := b.Begin(op); err != nil {
					t.Error(err)
					return
				}
				sys.mu.Lock()
				for _, name := range services {
					sys.seen[name] = append(sys.seen[name], op.What)
				}
				sys.mu.Unlock()
				b.End()
			}
		})
	}
	if err := s.Conduct(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if how.Order == spec.CriticalOrders {
		for name, try := range s.Backtracks() {
			walk.Reduce(name, try)
		}
	}
	var parts []string
	for _, name := range []string{"a", "b", "c"} {
		parts = append(parts, name+":"+strings.Join(sys.seen[name], ","))
	}
	return walk, strings.Join(parts, " ")
}

// ends explores a program and returns how often each end state came.
func (p program) ends(t *testing.T, how spec.Interleaving) map[string]int {
	t.Helper()
	leaf := &plan.Leaf{ID: "cell", Cell: "cell", Scenario: &spec.Scenario{Name: "s"}, Origin: plan.Origin{Explores: true}}
	f := plan.NewFrontier(&plan.Plan{Leaves: []*plan.Leaf{leaf}}, 0)
	out := map[string]int{}
	for !f.Done() {
		l := f.Next()
		walk, end := p.run(t, how, l.Way)
		if len(walk.Unmet()) > 0 {
			t.Fatalf("leaf %v did not meet %v", l.Way, walk.Unmet())
		}
		out[end]++
		f.Finish(l, walk.Met(), walk.Observations())
	}
	return out
}

func total(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

func TestAllOrders(t *testing.T) {
	for _, c := range []struct {
		p    program
		want int
	}{
		{program{{{"a"}}}, 1},
		{program{{{"a"}}, {{"a"}}}, 2},
		{program{{{"a"}, {"a"}}, {{"a"}, {"a"}}}, 6},
		{program{{{"a"}, {"b"}}, {{"a"}, {"b"}}}, 6},
		{program{{{"a"}}, {{"b"}}, {{"c"}}}, 6},
		{program{{{"a"}, {"a"}, {"a"}}, {{"a"}, {"a"}, {"a"}}}, 20},
	} {
		if got := total(c.p.ends(t, spec.Interleaving{Order: spec.AllOrders})); got != c.want {
			t.Errorf("%v: %d orders, want %d", c.p, got, c.want)
		}
	}
}

func TestCriticalOrders(t *testing.T) {
	for _, c := range []struct {
		p    program
		want int
	}{
		{program{{{"a"}}, {{"b"}}, {{"c"}}}, 1},
		{program{{{"a"}, {"a"}}, {{"b"}, {"b"}}}, 1},
		{program{{{"a"}, {"a"}}, {{"a"}, {"a"}}}, 6},
		{program{{{"a"}}, {{"a", "b"}}}, 2},
	} {
		if got := total(c.p.ends(t, spec.Interleaving{Order: spec.CriticalOrders})); got != c.want {
			t.Errorf("%v: %d orders, want %d", c.p, got, c.want)
		}
	}
}

// TestCriticalReachesEveryEnd compares the reduction with all orders: each end of the latter must come of the
// former, with not more leaves.
func TestCriticalReachesEveryEnd(t *testing.T) {
	saved := 0
	for s := range uint64(60) {
		r := rand.New(rand.NewPCG(s, 2))
		services := []string{"a", "b", "c"}
		var p program
		for range 2 + r.IntN(2) {
			var ops [][]string
			for range 1 + r.IntN(2) {
				op := []string{services[r.IntN(3)]}
				if other := services[r.IntN(3)]; r.IntN(4) == 0 && other != op[0] {
					op = append(op, other)
				}
				ops = append(ops, op)
			}
			p = append(p, ops)
		}
		all := p.ends(t, spec.Interleaving{Order: spec.AllOrders})
		critical := p.ends(t, spec.Interleaving{Order: spec.CriticalOrders})
		for end := range all {
			if critical[end] == 0 {
				t.Errorf("seed %d: %v: %s is not reached", s, p, end)
			}
		}
		if total(critical) > total(all) {
			t.Errorf("seed %d: %v: %d orders, all are %d", s, p, total(critical), total(all))
		}
		saved += total(all) - total(critical)
	}
	if saved == 0 {
		t.Error("nothing was saved")
	}
}

func TestSomeOrders(t *testing.T) {
	p := program{{{"a"}, {"a"}, {"a"}}, {{"a"}, {"a"}, {"a"}}}
	got := p.ends(t, spec.Interleaving{Order: spec.SomeOrders, Count: 5})
	if total(got) != 5 || len(got) < 2 {
		t.Errorf("5 orders: %v", got)
	}
	if again := p.ends(t, spec.Interleaving{Order: spec.SomeOrders, Count: 5}); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("the same seed drew %v, then %v", got, again)
	}
}

func TestExempt(t *testing.T) {
	p := program{{{"a"}, {"b"}}, {{"a"}, {"b"}}}
	if got := total(p.ends(t, spec.Interleaving{Order: spec.AllOrders, Exempt: []string{"b"}})); got != 2 {
		t.Errorf("%d orders, want 2: b has none", got)
	}
}

// TestWaiting has a branch wait for what another one does.
func TestWaiting(t *testing.T) {
	first := ""
	for _, way := range []plan.Way{{}, {Waits: ".w.."}} {
		synctest.Test(t, func(t *testing.T) {
			walk := plan.NewWalk(way)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			s := &Schedule{How: spec.Interleaving{Order: spec.AllOrders}, Name: "p", Walk: walk, Decide: walk.Decide, Clock: vtime.Wall()}
			a, b := NewBranch(ctx, 0), NewBranch(ctx, 1)
			s.Branches = []*Branch{a, b}
			opened := make(chan struct{})
			var did []string
			step := func(br *Branch, what string, do func()) {
				if err := br.Begin(Operation{What: what, All: true}); err != nil {
					t.Error(err)
				}
				do()
				br.End()
				did = append(did, what)
			}
			go func() {
				defer a.Leave()
				step(a, "a1", func() {})
				step(a, "a waits", func() { <-opened })
				step(a, "a3", func() {})
			}()
			go func() {
				defer b.Leave()
				step(b, "b opens", func() { close(opened) })
			}()
			if err := s.Conduct(ctx); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(did, ", ") + " " + walk.Observations()
			if first == "" {
				first = got
			}
			if got != first || !strings.Contains(got, "w") {
				t.Errorf("got %s, then %s", first, got)
			}
		})
	}
}

// TestAllWait has every branch wait for something from outside: the first that comes goes on.
func TestAllWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		walk := plan.NewWalk(plan.Way{})
		s := &Schedule{How: spec.Interleaving{Order: spec.AllOrders}, Name: "p", Walk: walk, Decide: walk.Decide, Clock: vtime.Wall()}
		var did []string
		for i, d := range []time.Duration{9 * time.Second, 5 * time.Second} {
			b := NewBranch(t.Context(), i)
			s.Branches = append(s.Branches, b)
			go func() {
				defer b.Leave()
				if err := b.Begin(Operation{What: "wait", All: true}); err != nil {
					t.Error(err)
				}
				time.Sleep(d)
				b.End()
				did = append(did, fmt.Sprint(i))
			}()
		}
		if err := s.Conduct(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(did, []string{"1", "0"}) || !strings.Contains(walk.Observations(), "B") {
			t.Errorf("%v %s", did, walk.Observations())
		}
	})
}

func TestBranchThatFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	walk := plan.NewWalk(plan.Way{})
	s := &Schedule{How: spec.Interleaving{Order: spec.CriticalOrders}, Name: "p", Walk: walk, Decide: walk.Decide, Clock: vtime.Wall()}
	a, b := NewBranch(ctx, 0), NewBranch(ctx, 1)
	s.Branches = []*Branch{a, b}
	done := make(chan error, 2)
	go func() {
		defer a.Leave()
		err := a.Begin(Operation{What: "a", Touches: map[string]bool{"x": true}})
		a.End()
		cancel()
		done <- err
	}()
	go func() {
		defer b.Leave()
		done <- b.Begin(Operation{What: "b", Touches: map[string]bool{"x": true}})
	}()
	_ = s.Conduct(ctx)
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	// b never had its turn, and an order in which it comes first would be another one.
	if got := s.Backtracks(); len(got) != 1 || len(got["p/order"]) != 1 {
		t.Errorf("backtracks %v", got)
	}
}
