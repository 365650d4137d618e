package fault

import "testing"

func TestPairMatchesBothWaysUnlessDirected(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		pair                  Pair
		client, server, iface string
		want                  bool
	}{
		{"forward", Pair{A: "api", B: "db"}, "api", "db", "pg", true},
		{"backward", Pair{A: "api", B: "db"}, "db", "api", "http", true},
		{"backward, directed", Pair{A: "api", B: "db", Directed: true}, "db", "api", "http", false},
		{"another pair", Pair{A: "api", B: "db"}, "api", "cache", "x", false},
		{"any client", Pair{B: "db", Directed: true}, "worker", "db", "pg", true},
		{"another interface", Pair{A: "api", B: "db", Interface: "admin"}, "api", "db", "pg", false},
	} {
		if got := tc.pair.Matches(tc.client, tc.server, tc.iface); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
}

func TestDirectionFollowsThePairWhoeverConnected(t *testing.T) {
	p := Pair{A: "n1", B: "n2"}
	for _, tc := range []struct {
		d      Direction
		client string
		way    Direction
		want   bool
	}{
		{Both, "n1", Up, true}, {Both, "n1", Down, true},
		{AToB, "n1", Up, true}, {AToB, "n1", Down, false},
		{AToB, "n2", Up, false}, {AToB, "n2", Down, true},
		{BToA, "n1", Up, false}, {BToA, "n1", Down, true},
		{BToA, "n2", Up, true}, {BToA, "n2", Down, false},
		{Up, "n2", Up, true}, {Up, "n2", Down, false},
	} {
		if got := tc.d.Covers(p, tc.client, tc.way); got != tc.want {
			t.Errorf("%s, connected by %s, %s: got %v", tc.d, tc.client, tc.way, got)
		}
	}
}

func TestTablesHaveNoRepeats(t *testing.T) {
	calls := map[string]bool{}
	for _, f := range Families() {
		if f.Name == Exhaustion {
			continue // the one family that goes across the others
		}
		for _, c := range f.Calls {
			if calls[c] {
				t.Errorf("call %s is in two families", c)
			}
			calls[c] = true
		}
	}
	names, numbers := map[string]bool{}, map[int]bool{}
	for _, e := range Errnos() {
		if names[e.Name] || numbers[e.Number] {
			t.Errorf("errno %s (%d) is repeated", e.Name, e.Number)
		}
		names[e.Name], numbers[e.Number] = true, true
	}
	if f, ok := FamilyOf("pwrite64"); !ok || len(f.Calls) != 1 || f.Descriptor != 0 {
		t.Errorf("FamilyOf(pwrite64) = %+v, %v", f, ok)
	}
}
