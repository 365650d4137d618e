package plan

import (
	"errors"
	"slices"
	"testing"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/spec"
)

func suite() *spec.Suite {
	a := &spec.Scenario{Name: "create"}
	b := &spec.Scenario{Name: "list"}
	down := &spec.Assumption{Name: "db_down", Rules: []fault.Rule{{ID: "db_down/connect", Syscall: &fault.Syscall{Service: "api", Calls: []string{"connect"}}}}}
	cut := &spec.Assumption{Name: "cut", Rules: []fault.Rule{{ID: "cut/0", Link: &fault.Link{Pair: fault.Pair{A: "api", B: "db"}}}}}
	return &spec.Suite{
		Source: "/x/shop.star", Scenarios: []*spec.Scenario{a, b}, Assumptions: []*spec.Assumption{down, cut},
		Matrices: []*spec.Matrix{{
			Scenarios: []*spec.Scenario{a, b}, Assumptions: []*spec.Assumption{down, cut},
			Exclude: map[spec.CellKey]bool{{Scenario: "list", Assumption: "cut"}: true},
		}},
	}
}

func leafNames(p *Plan) []string { return names(p.Leaves) }

func TestMakeChoosesLeaves(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
		want []string
	}{
		{"all", Options{}, []string{"create/none", "create/db_down", "create/cut", "list/none", "list/db_down"}},
		{"a cell brings its baseline", Options{Tests: []string{"create/cut"}}, []string{"create/none", "create/cut"}},
		{"a scenario", Options{Tests: []string{"li*"}}, []string{"list/none", "list/db_down"}},
		{"a shard", Options{Shard: 2, Shards: 2}, []string{"create/none", "create/db_down", "list/none"}},
	} {
		p, err := Make(suite(), tc.o)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got := leafNames(p); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestMakeRefuses(t *testing.T) {
	var none *NoMatch
	if _, err := Make(suite(), Options{Tests: []string{"nothing"}}); !errors.As(err, &none) || len(none.Names) != 5 {
		t.Errorf("a filter without a match: %v", err)
	}
	var many *TooMany
	if _, err := Make(suite(), Options{Tests: []string{"list", "creat"}}); !errors.As(err, &none) || !slices.Equal(none.Globs, []string{"creat"}) {
		t.Errorf("one filter of two without a match: %v", err)
	}
	if _, err := Make(suite(), Options{MaxLeaves: 4}); !errors.As(err, &many) || many.Leaves != 5 {
		t.Errorf("too many leaves: %v", err)
	}
}

func TestIDsAreStableAndSeedsAreNot(t *testing.T) {
	p, _ := Make(suite(), Options{Seed: 1})
	q, _ := Make(suite(), Options{Seed: 2})
	seen := map[string]bool{}
	for i, l := range p.Leaves {
		if l.ID != q.Leaves[i].ID {
			t.Errorf("%s: the ID must not depend on the seed", l.Name())
		}
		if l.Seed == q.Leaves[i].Seed || seen[l.ID] {
			t.Errorf("%s: the seed must depend on the run's, and the ID must be its own", l.Name())
		}
		seen[l.ID] = true
	}
}

func TestReach(t *testing.T) {
	p, _ := Make(suite(), Options{})
	down, cut := p.Leaves[1].Reach(), p.Leaves[2].Reach()
	if got := down.Calls("api"); !slices.Equal(got, []string{"connect"}) {
		t.Errorf("calls of api: %v", got)
	}
	if len(down.Calls("db")) != 0 || down.Touches("api", "db", "main") {
		t.Error("what no rule names must not be subscribed to")
	}
	if !cut.Touches("api", "db", "main") || !cut.Touches("db", "api", "http") || cut.Touches("api", "cache", "main") {
		t.Error("a pair is touched both ways, and no other")
	}
	inject := fault.Rule{Link: &fault.Link{Pair: fault.Pair{A: "api", B: "db", Interface: "main", Directed: true}}}
	if why := cut.Allows(inject); why != "" {
		t.Errorf("a part of a subscribed pair: %s", why)
	}
	if why := down.Allows(inject); why == "" {
		t.Error("a link rule must be refused where no link is mediated")
	}
	write := fault.Rule{Syscall: &fault.Syscall{Service: "db", Calls: []string{"write"}}}
	if why := cut.Allows(write); why == "" {
		t.Error("a call that was not subscribed to must be refused")
	}
}

func TestUntried(t *testing.T) {
	s := suite()
	s.Matrices[0].Assumptions = s.Matrices[0].Assumptions[:1]
	for name, tc := range map[string]struct {
		scope spec.Scope
		want  []string
	}{
		"in no matrix":    {spec.Scope{}, []string{"cut"}},
		"in a body":       {spec.Scope{Links: []fault.Pair{{A: "api", B: "db"}}}, nil},
		"in a body, once": {spec.Scope{Links: []fault.Pair{{A: "api", B: "db", Directed: true}}}, []string{"cut"}},
	} {
		s.Scenarios[1].MayInject = []spec.Scope{tc.scope}
		// A filter chooses, and says nothing of what is declared.
		for _, tests := range [][]string{nil, {"list/none"}} {
			p, err := Make(s, Options{Tests: tests})
			if err != nil || !slices.Equal(p.Untried, tc.want) || !slices.Equal(p.Record().Untried, tc.want) {
				t.Errorf("%s, %v: %v, %v; want %v", name, tests, p.Untried, err, tc.want)
			}
		}
	}
}

func TestMessagesAreSubscribed(t *testing.T) {
	pair := fault.Pair{A: "web", B: "api", Interface: "http", Directed: true}
	rule := func(a, iface string) fault.Rule {
		return fault.Rule{Message: &fault.Message{Pair: fault.Pair{A: a, B: "api", Interface: iface, Directed: true}}}
	}
	for _, tc := range []struct {
		name   string
		reach  Reach
		speaks bool
		// web and any say whether a rule for web only, and one for all clients, is allowed.
		web, any bool
	}{
		{"nothing", Reach{}, false, false, false},
		{"a link", Reach{scopes: []spec.Scope{{Links: []fault.Pair{pair}}}}, false, false, false},
		{"its messages", Reach{scopes: []spec.Scope{{Messages: []fault.Pair{pair}}}}, true, true, false},
		{"messages of all", Reach{scopes: []spec.Scope{{Messages: []fault.Pair{{B: "api", Directed: true}}}}}, true, true, true},
		{"messages to another interface", Reach{scopes: []spec.Scope{{Messages: []fault.Pair{{B: "api", Interface: "admin", Directed: true}}}}}, false, false, false},
		{"an assumption's rule", Reach{rules: []fault.Rule{rule("web", "http")}}, true, true, false},
		{"everything", Reach{scopes: []spec.Scope{{Everything: true}}}, true, true, true},
	} {
		if got := tc.reach.Speaks("web", "api", "http"); got != tc.speaks {
			t.Errorf("%s: speaks %v", tc.name, got)
		}
		if tc.speaks && !tc.reach.Touches("web", "api", "http") {
			t.Errorf("%s: no relay stands there", tc.name)
		}
		if got := tc.reach.Allows(rule("web", "http")); (got == "") != tc.web {
			t.Errorf("%s: a rule for web: %q", tc.name, got)
		}
		if got := tc.reach.Allows(rule("", "http")); (got == "") != tc.any {
			t.Errorf("%s: a rule for all: %q", tc.name, got)
		}
	}
}
