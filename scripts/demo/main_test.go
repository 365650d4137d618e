package main

import (
	"encoding/json"
	"testing"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

func TestJudge(t *testing.T) {
	leaf := func(scenario, assumption string, o verdict.Outcome, reasons ...verdict.Reason) bundle.Leaf {
		return bundle.Leaf{Scenario: scenario, Assumption: assumption, Verdict: verdict.Verdict{Outcome: o, Reasons: reasons}}
	}
	bug := verdict.Reason{Code: verdict.MonitorViolated, Subject: monitor, Witness: 41}
	other := verdict.Reason{Code: verdict.ExpectationFailed, Witness: 41}
	fine := leaf("list_orders", "none", verdict.Pass)
	for name, c := range map[string]struct {
		leaves []bundle.Leaf
		ok     bool
	}{
		"the finding":         {[]bundle.Leaf{fine, leaf(scenario, assumption, verdict.Fail, bug)}, true},
		"nothing was found":   {[]bundle.Leaf{fine, leaf(scenario, assumption, verdict.Pass)}, false},
		"nothing was run":     {nil, false},
		"another cell fails":  {[]bundle.Leaf{leaf(scenario, assumption, verdict.Fail, bug), leaf("x", "y", verdict.Fail, bug)}, false},
		"one is open":         {[]bundle.Leaf{leaf(scenario, assumption, verdict.Fail, bug), leaf("x", "y", verdict.Inconclusive)}, false},
		"for another reason":  {[]bundle.Leaf{leaf(scenario, assumption, verdict.Fail, other)}, false},
		"for one reason more": {[]bundle.Leaf{leaf(scenario, assumption, verdict.Fail, bug, other)}, false},
	} {
		text, err := json.Marshal(bundle.Verdicts{Leaves: c.leaves})
		if err != nil {
			t.Fatal(err)
		}
		if err := judge(text); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
