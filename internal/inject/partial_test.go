package inject

import (
	"testing"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
)

func syscallRule(id string, s fault.Syscall, w fault.When) fault.Rule {
	s.Service, s.Calls = "db", []string{"write"}
	return fault.Rule{ID: id, Syscall: &s, When: w}
}

func sized(n int64) Call { return Call{Service: "db", Name: "write", Thread: 7, Size: n} }

func installed(t *testing.T, rules ...fault.Rule) *Engine {
	t.Helper()
	e := New(seed.Seed(1))
	if err := e.Install(rules...); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestPartialCountsOnlyWhatCanBeCut(t *testing.T) {
	e := installed(t, syscallRule("p", fault.Syscall{Partial: 4}, fault.When{Nth: 2}))
	for i, tc := range []struct {
		size int64
		want Verb
	}{{0, Allow}, {4, Allow}, {5, Allow}, {4, Allow}, {9, Partial}, {9, Allow}} {
		d := e.Decide(sized(tc.size))
		if d.Verb != tc.want || d.Verb == Partial && (d.Bytes != 4 || d.Index != 2) {
			t.Errorf("call %d of %d bytes: %+v, want %s", i, tc.size, d, tc.want)
		}
	}
	if n := e.Fired("p"); n != 1 {
		t.Errorf("fired %d times, want 1", n)
	}
}

// What was moved is never moved again: the call that comes again gets the answer, whatever became of the rule.
func TestMovedBytesAreOwed(t *testing.T) {
	e := installed(t, syscallRule("p", fault.Syscall{Partial: 4}, fault.When{}))
	c := sized(9)
	d := e.Decide(c)
	d.Moved = 4
	e.Undelivered(c, d, 0)
	if n := e.Fired("p"); n != 0 {
		t.Errorf("fired %d times before the program knew", n)
	}
	e.Lift("p")
	if e.Measures(c) {
		t.Error("a call that has its answer already must not be measured: it would wait")
	}
	if !e.Needs("db", "write").Decide {
		t.Error("with the rule lifted, the call would go on and move its bytes again")
	}
	if again := e.Decide(c); again.Moved != 4 || again.Verb != Partial {
		t.Errorf("the call, made again: %+v, want 4 bytes moved", again)
	}
	if e.Needs("db", "write").Decide {
		t.Error("nothing is owed any more")
	}
	if n := e.Fired("p"); n != 1 {
		t.Errorf("fired %d times, want 1", n)
	}
	other := e.Decide(c)
	if other.Verb != Allow {
		t.Errorf("the next call: %+v", other)
	}
}

func TestSparedCallsDoNotCount(t *testing.T) {
	e := installed(t, syscallRule("p", fault.Syscall{Partial: 4}, fault.When{MaxFires: 1}))
	c := sized(9)
	e.Spared(c, e.Decide(c))
	if n := e.Fired("p"); n != 0 {
		t.Errorf("fired %d times, want 0", n)
	}
	if d := e.Decide(c); d.Verb != Partial || d.Index != 2 {
		t.Errorf("the next: %+v, want the one hit that the rule has", d)
	}
	all := e.Decisions()
	if len(all) != 2 || all[0].Hit || !all[1].Hit {
		t.Errorf("decisions %+v, want a miss and a hit", all)
	}
}

// The first rule that concerns a call says whether its size matters.
func TestMeasures(t *testing.T) {
	deny := syscallRule("d", fault.Syscall{Errno: "EIO", On: []fault.Descriptor{fault.Socket}}, fault.When{})
	e := installed(t, deny, syscallRule("p", fault.Syscall{Partial: 4}, fault.When{MaxFires: 1}))
	socket, file := sized(0), sized(9)
	socket.Descriptor, file.Descriptor = fault.Socket, fault.File
	if e.Measures(socket) || !e.Measures(file) {
		t.Errorf("measures sockets %v, files %v; want files only", e.Measures(socket), e.Measures(file))
	}
	e.Decide(file)
	if e.Measures(file) {
		t.Error("a rule that is spent measures nothing")
	}
}

func TestHeldCallsAreLetGo(t *testing.T) {
	e := installed(t, syscallRule("h", fault.Syscall{Hold: true}, fault.When{}))
	c := sized(0)
	d := e.Decide(c)
	if d.Verb != Hold {
		t.Fatalf("%+v, want it held", d)
	}
	d.Told = true
	e.Undelivered(c, d, 0)
	e.LetGo("h")
	if again := e.Decide(c); again.Verb != Allow {
		t.Errorf("a call that was let go, made again: %+v", again)
	}
	if n := e.Fired("h"); n != 1 {
		t.Errorf("fired %d times, want 1", n)
	}
	if next := e.Decide(c); next.Verb != Hold {
		t.Errorf("the next call: %+v, want it held", next)
	}
}

func TestRulesMatchThePeer(t *testing.T) {
	pair := fault.Pair{A: "db", B: "api", Interface: "http", Directed: true}
	e := installed(t, syscallRule("l", fault.Syscall{Errno: "EPIPE", Link: &pair}, fault.When{}))
	if !e.Needs("db", "write").Peer {
		t.Error("the peer has to be known")
	}
	for _, tc := range []struct {
		peer *Peer
		want Verb
	}{{nil, Allow}, {&Peer{"db", "api", "http"}, Deny}, {&Peer{"db", "api", "other"}, Allow}, {&Peer{"api", "db", "http"}, Allow}} {
		c := sized(0)
		c.Peer = tc.peer
		if d := e.Decide(c); d.Verb != tc.want {
			t.Errorf("%+v: %s, want %s", tc.peer, d.Verb, tc.want)
		}
	}
}

func TestEitherPathMatches(t *testing.T) {
	e := installed(t, syscallRule("r", fault.Syscall{Errno: "EIO", Path: "/data/*"}, fault.When{}))
	c := sized(0)
	c.Path, c.Other = "/tmp/new", "/data/current"
	if d := e.Decide(c); d.Verb != Deny {
		t.Errorf("a rename into the place: %+v", d)
	}
	c.Other = "/tmp/other"
	if d := e.Decide(c); d.Verb != Allow {
		t.Errorf("a rename elsewhere: %+v", d)
	}
}
