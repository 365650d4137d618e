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
	bug := verdict.Reason{Code: verdict.MonitorViolated, Subject: "persisted", Witness: 41}
	other := verdict.Reason{Code: verdict.ExpectationFailed, Witness: 41}
	open := verdict.Reason{Code: verdict.PropertyUndecided, Subject: "another"}
	blind := verdict.Reason{Code: verdict.MonitorViolated, Subject: "persisted"}
	want := findings{"create/full": "monitor-violated:persisted"}
	fine := leaf("list", "none", verdict.Pass)
	for name, c := range map[string]struct {
		want   findings
		leaves []bundle.Leaf
		ok     bool
	}{
		"the finding":            {want, []bundle.Leaf{fine, leaf("create", "full", verdict.Fail, bug)}, true},
		"with something open":    {want, []bundle.Leaf{fine, leaf("create", "full", verdict.Fail, bug, open)}, true},
		"nothing was found":      {want, []bundle.Leaf{fine, leaf("create", "full", verdict.Pass)}, false},
		"it was not run":         {want, []bundle.Leaf{fine}, false},
		"nothing was run":        {nil, nil, false},
		"another cell fails":     {want, []bundle.Leaf{leaf("create", "full", verdict.Fail, bug), leaf("x", "y", verdict.Fail, bug)}, false},
		"one is open":            {want, []bundle.Leaf{leaf("create", "full", verdict.Fail, bug), leaf("x", "y", verdict.Inconclusive)}, false},
		"for another reason":     {want, []bundle.Leaf{leaf("create", "full", verdict.Fail, other)}, false},
		"for one reason more":    {want, []bundle.Leaf{leaf("create", "full", verdict.Fail, bug, other)}, false},
		"without a witness":      {want, []bundle.Leaf{leaf("create", "full", verdict.Fail, blind)}, false},
		"all pass, as expected":  {nil, []bundle.Leaf{fine}, true},
		"unexpected finding":     {nil, []bundle.Leaf{fine, leaf("create", "full", verdict.Fail, bug)}, false},
		"unexpected open result": {nil, []bundle.Leaf{fine, leaf("create", "full", verdict.Inconclusive, open)}, false},
	} {
		text, err := json.Marshal(bundle.Verdicts{Leaves: c.leaves})
		if err != nil {
			t.Fatal(err)
		}
		if err := judge(text, c.want); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
