package starbind

import (
	"fmt"
	"strings"
	"testing"

	"github.com/squallhq/squall/internal/plan"
)

// TestKnownChoices says what of choices is known without running a body: "!" marks those that are sure to be met.
func TestKnownChoices(t *testing.T) {
	for _, c := range []struct{ name, code, want string }{
		{"none", "def f(): pass", ""},
		{"named", `def f(): choose("x", [1, 2])`, `!x=1|2`},
		{"unnamed, in the order of calls", "def f():\n    a = choose([1, 2])\n    b = nondet()", "!choose=1|2 !choose#2=True|False"},
		{"options by another name", "OPTIONS = [\"a\", \"b\"]\ndef f():\n    return choose(\"x\", OPTIONS)", `!x="a"|"b"`},
		{"options that are computed", "def f():\n    choose(\"x\", [1] * 2)", "!x=?"},
		{"a name that is computed", "def f():\n    choose(\"x\" + str(1), [1, 2])", "?=1|2"},
		{"behind a condition", "def f():\n    if db.name == \"x\":\n        choose(\"x\", [1, 2])\n    choose(\"y\", [1, 2])", "x=1|2 y=1|2"},
		{"behind a return", "def f():\n    if db.name == \"x\":\n        return 1\n    choose(\"y\", [1, 2])", "y=1|2"},
		{"behind a condition without either", "def f():\n    if db.name == \"x\":\n        print(1)\n    choose(\"y\", [1, 2])", "!y=1|2"},
		{"in a helper", "def g(): return choose(\"x\", [1, 2])\ndef f():\n    g()\n    choose(\"y\", [1, 2])", "x=1|2 y=1|2"},
		{"in one half of an expression", "def f():\n    db.name and choose(\"x\", [1, 2])", "x=1|2"},
		{"orders", "def f():\n    choose(\"x\", [1, 2])\n    parallel(lambda: 1, lambda: 2, interleavings = \"all\")\n    choose(\"y\", [1, 2])", "!x=1|2 !parallel=? !y=1|2"},
		{"one order", "def f():\n    parallel(lambda: 1, lambda: 2, interleavings = 1)\n    parallel(lambda: 1)", ""},
		{"services that are exempt", "def f(): nondet(db)", ""},
		{"the name twice", "def f():\n    choose(\"x\", [1, 2])\n    choose(\"x\", [3, 4])", "!x=1|2 !x#2=3|4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			suite := loadText(t, "db = service(\"db\", interface(\"pg\", \"postgres\", 5432), binary = \"prog\")\n"+c.code+"\nscenario(f)\n")
			var parts []string
			for _, k := range suite.Scenarios[0].Choices {
				text := k.Name + "=" + strings.Join(k.Options, "|")
				if len(k.Options) == 0 {
					text += "?"
				}
				if k.Sure {
					text = "!" + text
				}
				parts = append(parts, text)
			}
			if got := strings.Join(parts, " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestPlannedLeaves says which leaves a plan has before anything runs.
func TestPlannedLeaves(t *testing.T) {
	suite := loadText(t, `
db = service("db", interface("pg", "postgres", 5432), binary = "prog")
assume(lambda choices: not (choices["x"] == 2 and choices["y"] == "b"))
def f():
    choose("x", [1, 2])
    choose("y", ["a", "b"])
def g(): kill(db)
scenario(f)
scenario(g)
full = fault_assumption("full", target = db, write = deny("ENOSPC"))
slow = fault_assumption("slow", target = db, fsync = delay("1s"))
fault_scenario("both", scenario = f, faults = [full, slow], timeout = "3s")
fault_matrix(scenarios = [g], faults = [full, (full, slow)], exclude = [(g, full)], require_faults_fire = False)
`)
	p, err := plan.Make(suite, plan.Options{Runs: 2})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	ids := map[string]bool{}
	for _, l := range p.Leaves {
		count[l.Name()]++
		if ids[l.ID] {
			t.Errorf("two leaves are %s", l.ID)
		}
		ids[l.ID] = true
		if again, err := p.Find(l.ID, l.Cell, l.Run, l.Way); err != nil || again.ID != l.ID || again.Seed != l.Seed {
			t.Errorf("%s is not found again: %v", l.ID, err)
		}
	}
	if got, want := fmt.Sprint(count), "map[f/both:6 f/none:6 g/full+slow:2 g/none:2]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, l := range p.Leaves {
		if l.Name() == "f/both" && (l.Timeout.Seconds() != 3 || len(l.Rules()) != 2 || l.Rules()[0].Optional || l.Rules()[0].Assumption != "full") {
			t.Errorf("%s: timeout %s, rules %+v", l.Name(), l.Timeout, l.Rules())
		}
		if l.Name() == "g/full+slow" && !l.Rules()[0].Optional {
			t.Error("require_faults_fire = False leaves a rule that must fire")
		}
	}
	if got := suite.Scenarios[1]; fmt.Sprint(got.ActsOn) != "[db]" || got.Ref != "g" || suite.Services[0].Ref != "db" {
		t.Errorf("acts on %v, known as %q and %q", got.ActsOn, got.Ref, suite.Services[0].Ref)
	}
}

func TestNothingKnownIsOpen(t *testing.T) {
	for code, want := range map[string]bool{
		`def f(): pass`:                                            false,
		`def f(): choose("x", [1, 2])`:                             false,
		`def f(): choose("x", [1] * 2)`:                            true,
		"def f():\n    [nondet() for i in [1]]":                    true,
		`def f(): parallel(lambda: 1, interleavings = "critical")`: true,
	} {
		suite := loadText(t, "db = service(\"db\", interface(\"pg\", \"postgres\", 5432), binary = \"prog\")\n"+code+"\nscenario(f)\n")
		p, err := plan.Make(suite, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Record().Open; got != want {
			t.Errorf("%s: open %v", code, got)
		}
	}
}
