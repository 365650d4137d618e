package inject

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squallhq/squall/fault"
)

func deny(id, errno string, edit ...func(*fault.Rule)) fault.Rule {
	s := Fill(fault.Syscall{Service: "db", Family: "write", Errno: errno})
	r := fault.Rule{ID: id, Syscall: &s}
	for _, f := range edit {
		f(&r)
	}
	return r
}

func when(w fault.When) func(*fault.Rule) { return func(r *fault.Rule) { r.When = w } }

func engine(t *testing.T, rules ...fault.Rule) *Engine {
	t.Helper()
	e := New(7)
	if err := e.Install(rules...); err != nil {
		t.Fatal(err)
	}
	return e
}

var write = Call{Service: "db", Name: "write", Descriptor: fault.File, Path: "/data/orders.wal", Thread: 10}

func TestMatch(t *testing.T) {
	path := func(p string) func(*fault.Rule) { return func(r *fault.Rule) { r.Syscall.Path = p } }
	on := func(d ...fault.Descriptor) func(*fault.Rule) { return func(r *fault.Rule) { r.Syscall.On = d } }
	family := func(name string) func(*fault.Rule) {
		return func(r *fault.Rule) { *r.Syscall = Fill(fault.Syscall{Service: "db", Family: name, Errno: "EIO"}) }
	}
	service := func(s string) func(*fault.Rule) { return func(r *fault.Rule) { r.Syscall.Service = s } }
	call := func(name string, d fault.Descriptor, path string) Call {
		return Call{Service: "db", Name: name, Descriptor: d, Path: path}
	}
	for _, tc := range []struct {
		name string
		edit []func(*fault.Rule)
		call Call
		want Verb
	}{
		{"a write to a file", nil, write, Deny},
		{"its other calls", nil, call("pwritev2", fault.File, ""), Deny},
		{"another call", nil, call("read", fault.File, ""), Allow},
		{"another service", nil, Call{Service: "api", Name: "write", Descriptor: fault.File}, Allow},
		{"any service", []func(*fault.Rule){service("")}, Call{Service: "api", Name: "write", Descriptor: fault.File}, Deny},
		{"a write to a socket is spared", nil, call("write", fault.Socket, ""), Allow},
		{"a write to a pipe is spared", nil, call("write", fault.Pipe, ""), Allow},
		{"a write to the terminal is spared", nil, call("write", fault.TTY, ""), Allow},
		{"an unknown descriptor is spared", nil, call("write", "", ""), Allow},
		{"a socket, by demand", []func(*fault.Rule){on(fault.Socket)}, call("write", fault.Socket, ""), Deny},
		{"any kind, by demand", []func(*fault.Rule){on()}, call("write", "", ""), Deny},
		{"a path that fits", []func(*fault.Rule){path("*.wal")}, write, Deny},
		{"a path that does not", []func(*fault.Rule){path("/other/**")}, write, Allow},
		{"no path, where one is asked for", []func(*fault.Rule){path("**")}, call("write", fault.File, ""), Allow},
		{"open has a path and no descriptor yet", []func(*fault.Rule){family("open")}, call("openat", "", "/x"), Deny},
		{"open of what is known not to be a file", []func(*fault.Rule){family("open")}, call("openat", fault.TTY, "/dev/tty"), Allow},
		{"one call of a family", []func(*fault.Rule){family("pwrite64")}, call("write", fault.File, ""), Allow},
		{"connect", []func(*fault.Rule){family("connect")}, call("connect", fault.Socket, ""), Deny},
		{"fork has neither", []func(*fault.Rule){family("fork")}, call("clone3", "", ""), Deny},
	} {
		e := engine(t, deny("r", "EIO", tc.edit...))
		if d := e.Decide(tc.call); d.Verb != tc.want {
			t.Errorf("%s: %+v, want %s", tc.name, d, tc.want)
		}
	}
}

func TestDecision(t *testing.T) {
	e := engine(t,
		deny("slow", "", func(r *fault.Rule) { r.Syscall.Delay = time.Second }, when(fault.When{Nth: 1})),
		deny("both", "ENOSPC", func(r *fault.Rule) { r.Syscall.Delay = time.Minute }),
		deny("late", "EIO"))
	want := []Decision{
		{Verb: Delay, Delay: time.Second, Rule: "slow", Index: 1, matched: true},
		{Verb: Deny, Errno: 28, Delay: time.Minute, Rule: "both", Index: 1, matched: true},
	}
	for i, w := range want {
		if d := e.Decide(write); d != w {
			t.Errorf("call %d: %+v, want %+v", i+1, d, w)
		}
	}
	if e.Fired("slow") != 1 || e.Fired("both") != 1 || e.Fired("late") != 0 || e.Fired("unknown") != 0 {
		t.Errorf("fired: %d %d %d", e.Fired("slow"), e.Fired("both"), e.Fired("late"))
	}
}

// hits runs n calls and returns one letter for each: x for a hit.
func hits(e *Engine, c Call, n int) string {
	var b strings.Builder
	for range n {
		if e.Decide(c).Verb == Allow {
			b.WriteByte('.')
		} else {
			b.WriteByte('x')
		}
	}
	return b.String()
}

func TestWhen(t *testing.T) {
	for _, tc := range []struct {
		name string
		when fault.When
		want string
	}{
		{"always", fault.When{}, "xxxxxxxx"},
		{"nth", fault.When{Nth: 3}, "..x....."},
		{"after", fault.When{After: 2}, "..xxxxxx"},
		{"every", fault.When{Every: 3}, "..x..x.."},
		{"max", fault.When{MaxFires: 2}, "xx......"},
		{"after and nth", fault.When{After: 2, Nth: 2}, "...x...."},
		{"after and every", fault.When{After: 1, Every: 2}, "..x.x.x."},
		{"every and max", fault.When{Every: 2, MaxFires: 2}, ".x.x...."},
		{"probability 1", fault.When{Probability: 1}, "xxxxxxxx"},
	} {
		e := engine(t, deny("r", "EIO", when(tc.when)))
		if got := hits(e, write, 8); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		if got, want := e.Fired("r"), strings.Count(tc.want, "x"); got != want {
			t.Errorf("%s: fired %d, want %d", tc.name, got, want)
		}
	}
}

func TestASparedCallGoesToTheNextRule(t *testing.T) {
	e := engine(t, deny("a", "EIO", when(fault.When{Every: 2})), deny("b", "ENOSPC"))
	var got []string
	for range 4 {
		got = append(got, e.Decide(write).Rule)
	}
	if want := []string{"b", "a", "b", "a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReinstallBeginsWhenAnew(t *testing.T) {
	r := deny("r", "EIO", when(fault.When{Nth: 2}))
	e := engine(t, r)
	first := hits(e, write, 3)
	e.Lift("r")
	lifted := hits(e, write, 2)
	if err := e.Install(r); err != nil {
		t.Fatal(err)
	}
	if got := first + lifted + hits(e, write, 3); got != ".x....x." {
		t.Errorf("got %s", got)
	}
	if e.Fired("r") != 2 {
		t.Errorf("fired %d over both installations, want 2", e.Fired("r"))
	}
}

func TestInstallRefuses(t *testing.T) {
	e := engine(t, deny("r", "EIO"))
	for _, tc := range []struct {
		name  string
		rules []fault.Rule
		want  string
	}{
		{"a name in force", []fault.Rule{deny("ok", "EIO"), deny("r", "EIO")}, "inject: install r: a rule of that name is in force"},
		{"a name twice", []fault.Rule{deny("s", "EIO"), deny("s", "EIO")}, "inject: install s: a rule of that name is in force"},
		{"an unknown errno", []fault.Rule{deny("t", "ENOSPACE")}, `inject: install t: unknown errno "ENOSPACE"`},
	} {
		if err := e.Install(tc.rules...); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
	e.Lift("r")
	if d := e.Decide(write); d.Verb != Allow {
		t.Errorf("a refused Install left %s in force", d.Rule)
	}
}

func TestChanceFollowsTheSeedAndTheKeyOnly(t *testing.T) {
	run := func(e *Engine, rules ...fault.Rule) string {
		if err := e.Install(rules...); err != nil {
			t.Fatal(err)
		}
		return hits(e, write, 200)
	}
	half := when(fault.When{Probability: 0.5})
	base := run(New(7), deny("r", "EIO", half))
	if n := strings.Count(base, "x"); n < 70 || n > 130 {
		t.Errorf("%d of 200 at probability 0.5", n)
	}
	if got := run(New(7), deny("r", "EIO", half)); got != base {
		t.Error("the same seed gave other decisions")
	}
	if got := run(New(8), deny("r", "EIO", half)); got == base {
		t.Error("another seed gave the same decisions")
	}
	if got := run(New(7), deny("s", "EIO", half)); got == base {
		t.Error("another rule gave the same decisions")
	}
	// Calls of other services and rules in between change nothing.
	e := New(7)
	any := deny("r", "EIO", half, func(r *fault.Rule) { r.Syscall.Service = "" })
	if err := e.Install(any); err != nil {
		t.Fatal(err)
	}
	other := write
	other.Service = "api"
	var b, c strings.Builder
	for range 200 {
		b.WriteString(hits(e, write, 1))
		c.WriteString(hits(e, other, 1))
	}
	if c.String() == base {
		t.Error("two services have the same luck")
	}
	if b.String() != base {
		t.Error("another service's calls changed the decisions")
	}
}

func TestDecisionsAreOrderedAndComplete(t *testing.T) {
	e := engine(t, deny("r", "EIO", when(fault.When{Every: 2}), func(r *fault.Rule) { r.Syscall.Service = "" }))
	for _, s := range []string{"b", "a", "b"} {
		c := write
		c.Service = s
		e.Decide(c)
	}
	var got []string
	for _, d := range e.Decisions() {
		got = append(got, fmt.Sprintf("%s %s %d %v", d.Rule, d.Key, d.Index, d.Hit))
	}
	if want := []string{"r a 1 false", "r b 1 false", "r b 2 true"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	many := engine(t, deny("r", "EIO", when(fault.When{Every: 3})))
	hits(many, write, 200)
	for i, d := range many.Decisions() {
		if d.Index != int64(i+1) || d.Hit != ((i+1)%3 == 0) {
			t.Fatalf("decision %d: %+v", i, d)
		}
	}
}

func TestReissuedCallDrawsNothingNew(t *testing.T) {
	r := deny("r", "EIO", when(fault.When{Probability: 0.5}))
	plain := engine(t, r)
	want := hits(plain, write, 100)

	e := engine(t, r)
	var b strings.Builder
	for i := range 100 {
		d := e.Decide(write)
		for range i % 4 {
			// The signal's handler makes a call of its own before the first one comes back.
			e.Undelivered(write, d, 0)
			other := write
			other.Name = "close"
			e.Decide(other)
			again := e.Decide(write)
			if again != d {
				t.Fatalf("call %d reissued: %+v, was %+v", i, again, d)
			}
		}
		if d.Verb == Allow {
			b.WriteByte('.')
		} else {
			b.WriteByte('x')
		}
	}
	if b.String() != want {
		t.Error("reissued calls changed the decisions")
	}
	if !reflect.DeepEqual(e.Decisions(), plain.Decisions()) || e.Fired("r") != plain.Fired("r") {
		t.Error("reissued calls changed the record")
	}
}

func TestUndeliveredHitHasNotFired(t *testing.T) {
	e := engine(t, deny("r", "EIO", when(fault.When{MaxFires: 1})))
	d := e.Decide(write)
	e.Undelivered(write, d, 0)
	if e.Fired("r") != 0 {
		t.Errorf("fired %d, want 0: nothing reached the program", e.Fired("r"))
	}
	other := write
	other.Thread = 11
	if got := e.Decide(other); got.Verb != Allow {
		t.Errorf("another thread got the hit that is kept: %+v", got)
	}
	if got := e.Decide(write); got.Verb != Deny || e.Fired("r") != 1 {
		t.Errorf("reissued: %+v, fired %d", got, e.Fired("r"))
	}
	if got := e.Decide(write); got.Verb != Allow {
		t.Errorf("after max_fires: %+v", got)
	}
}

func TestHeldTimeIsNotHeldAgain(t *testing.T) {
	e := engine(t, deny("r", "", func(r *fault.Rule) { r.Syscall.Delay = time.Second }))
	d := e.Decide(write)
	e.Undelivered(write, d, 300*time.Millisecond)
	d = e.Decide(write)
	if d.Delay != 700*time.Millisecond {
		t.Errorf("delay %s, want what is left of it", d.Delay)
	}
	e.Undelivered(write, d, 2*time.Second)
	if d = e.Decide(write); d.Verb != Delay || d.Delay != 0 || d.Index != 1 {
		t.Errorf("%+v", d)
	}
}

func TestLiftForgetsWhatWasNotDelivered(t *testing.T) {
	for _, liftFirst := range []bool{true, false} {
		e := engine(t, deny("r", "EIO"))
		d := e.Decide(write)
		if liftFirst {
			e.Lift("r")
			e.Undelivered(write, d, 0)
		} else {
			e.Undelivered(write, d, 0)
			e.Lift("r")
		}
		if got := e.Decide(write); got.Verb != Allow || e.Fired("r") != 0 {
			t.Errorf("lift first %v: %+v, fired %d", liftFirst, got, e.Fired("r"))
		}
	}
}

func TestPendingIsBounded(t *testing.T) {
	e := engine(t, deny("r", "EIO"))
	for i := range 3 * maxPending {
		c := write
		c.Thread = i
		e.Undelivered(c, e.Decide(c), 0)
	}
	if len(e.pending) != maxPending || e.Fired("r") != 0 {
		t.Errorf("%d pending, fired %d", len(e.pending), e.Fired("r"))
	}
}

func TestNeeds(t *testing.T) {
	open := Fill(fault.Syscall{Service: "db", Family: "open", Errno: "EMFILE"})
	any := fault.Syscall{Family: "write", Calls: []string{"write"}, Path: "/x"}
	e := engine(t, deny("w", "EIO"), fault.Rule{ID: "o", Syscall: &open})
	for _, tc := range []struct {
		service, call string
		want          Needs
	}{
		{"db", "write", Needs{Decide: true, Descriptor: true}},
		{"db", "openat", Needs{Decide: true}},
		{"db", "read", Needs{}},
		{"api", "write", Needs{}},
	} {
		if got := e.Needs(tc.service, tc.call); got != tc.want {
			t.Errorf("%s %s: %+v, want %+v", tc.service, tc.call, got, tc.want)
		}
	}
	if err := e.Install(fault.Rule{ID: "any", Syscall: &any}); err != nil {
		t.Fatal(err)
	}
	if got := e.Needs("db", "write"); got != (Needs{Decide: true, Descriptor: true, Path: true}) {
		t.Errorf("db: %+v", got)
	}
	if got := e.Needs("api", "write"); got != (Needs{Decide: true, Path: true}) {
		t.Errorf("api: %+v", got)
	}
	e.Lift("w", "any", "o")
	if got := e.Needs("db", "write"); got != (Needs{}) {
		t.Errorf("after all are lifted: %+v", got)
	}
}

func TestConcurrentUseKeepsCount(t *testing.T) {
	e := engine(t, deny("r", "EIO", when(fault.When{Every: 2})))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := write
			c.Thread = i
			for range 500 {
				if d := e.Decide(c); d.Verb == Deny && d.Index%20 == 0 {
					e.Undelivered(c, d, 0)
					e.Decide(c)
				}
				e.Needs("db", "write")
			}
		})
	}
	e.Lift("none")
	wg.Wait()
	if e.Fired("r") != 2000 || len(e.Decisions()) != 4000 {
		t.Errorf("fired %d of %d", e.Fired("r"), len(e.Decisions()))
	}
}
