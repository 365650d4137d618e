// Package verdict holds the three outcomes and the one table of reasons for them.
//
// PASS is earned, never assumed: what is not proven true or false is
// INCONCLUSIVE, with a reason from the table.
package verdict

import "fmt"

// Outcome is one of three values.
type Outcome string

// The outcomes, and the exit codes that they lead to: 0, 1, 2.
const (
	Pass         Outcome = "PASS"
	Fail         Outcome = "FAIL"
	Inconclusive Outcome = "INCONCLUSIVE"
)

// ExitCode returns what a process that reports o exits with.
func (o Outcome) ExitCode() int {
	switch o {
	case Pass:
		return 0
	case Fail:
		return 1
	}
	return 2
}

// Verdict is the judgement of one leaf.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	// Reasons says why; the first is the one to show. A PASS has none.
	Reasons []Reason `json:"reasons,omitempty"`
	// Warnings do not change the outcome.
	Warnings []Reason `json:"warnings,omitempty"`
}

// Reason is a row of the table, applied to one leaf.
type Reason struct {
	Code Code `json:"code"`
	// Detail says what it was here: "no connection api -> db in this leaf".
	Detail string `json:"detail"`
	// Subject is the rule, property or service concerned.
	Subject string `json:"subject,omitempty"`
	// Witness is the Seq of the earliest event that shows it; 0 where there is none.
	Witness int64 `json:"witness,omitempty"`
	// Position is where the spec says so, as file:line:column.
	Position string `json:"position,omitempty"`
}

// String returns the code and the detail on one line.
func (r Reason) String() string { return fmt.Sprintf("%s: %s", r.Code, r.Detail) }

// Worst returns the outcome of several: any FAIL, else any INCONCLUSIVE, else PASS. Nothing at
// all is INCONCLUSIVE: nothing was tested.
func Worst(outcomes ...Outcome) Outcome {
	if len(outcomes) == 0 {
		return Inconclusive
	}
	worst := Pass
	for _, o := range outcomes {
		if o == Fail {
			return Fail
		}
		if o != Pass {
			worst = Inconclusive
		}
	}
	return worst
}
