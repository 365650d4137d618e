package check

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Input is everything that a leaf is judged by.
type Input struct {
	Ending Ending
	// Expected tells that an expectation ran that can fail; Expect is what it returned. It runs only on a
	// body that returned.
	Expected bool
	Expect   error
	// Asserted tells that the body made an assertion.
	Asserted bool
	// Reasons, Warnings and Records are those of Evaluator.Finish.
	Reasons, Warnings []verdict.Reason
	Records           []bundle.PropertyRecord
	// Rules are the faults that the leaf declared or installed.
	Rules []Rule
	// Events is the whole log. Its notes count, and its gaps.
	Events []event.Event
}

// Rule is a fault and what it did.
type Rule struct {
	bundle.RuleRecord
	// Why says why it never fired, where that is known: "no connection api -> db in this leaf".
	Why string
}

// Judge gives the verdict of one leaf. Whether the scenario works without any fault is added by
// WithBaseline.
func Judge(in Input) verdict.Verdict {
	reasons := slices.Clone(in.Reasons)
	warnings := slices.Clone(in.Warnings)
	if r := in.Ending.reason(); r != nil {
		reasons = append(reasons, witnessed(*r, in.Events))
	}
	if in.Ending.Kind == Decided && !slices.ContainsFunc(reasons, func(r verdict.Reason) bool { return fails(r.Code) }) {
		reasons = append(reasons, verdict.Reason{Code: verdict.SupervisionLost, Detail: "the body was ended for a violation that nothing shows"})
	}
	if in.Expect != nil {
		reasons = append(reasons, witnessed(expectation(in.Expect), in.Events))
	}
	for _, r := range in.Rules {
		if r.Fired == 0 && !r.Optional {
			reasons = append(reasons, neverFired(r))
		}
	}
	for _, r := range logged(in.Events) {
		if row, ok := verdict.Lookup(r.Code); ok && row.Outcome == verdict.Pass {
			warnings = append(warnings, r)
		} else {
			reasons = append(reasons, r)
		}
	}
	if !in.Expected && !in.Asserted && !judges(in.Records) && len(reasons) == 0 {
		row, _ := verdict.Lookup(verdict.NoAssertions)
		warnings = append(warnings, verdict.Reason{Code: row.Code, Detail: row.Sentence})
	}
	return assemble(reasons, warnings)
}

// judges reports whether there is a property that could have been violated.
func judges(records []bundle.PropertyRecord) bool {
	return slices.ContainsFunc(records, func(r bundle.PropertyRecord) bool { return r.Kind != string(property.Until) })
}

// WithBaseline adds to a leaf's verdict what became of the same scenario without any fault. A PASS
// needs a baseline that passes; a FAIL stays one, and says that the fault may have no part in it.
func WithBaseline(v verdict.Verdict, baseline verdict.Verdict, leaf string) verdict.Verdict {
	if baseline.Outcome == verdict.Pass {
		return v
	}
	detail := fmt.Sprintf("the baseline is %s", cmp.Or(baseline.Outcome, verdict.Inconclusive))
	if len(baseline.Reasons) > 0 {
		detail = fmt.Sprintf("%s (%s)", detail, baseline.Reasons[0])
	}
	r := verdict.Reason{Code: verdict.BaselineFailed, Detail: detail, Subject: leaf}
	return assemble(append(slices.Clone(v.Reasons), r), slices.Clone(v.Warnings))
}

// assemble orders reasons and takes the outcome from them. Anything that is not plainly a FAIL
// leaves the leaf open: no reason ever leads to a PASS.
func assemble(reasons, warnings []verdict.Reason) verdict.Verdict {
	v := verdict.Verdict{Outcome: verdict.Pass, Reasons: unique(reasons), Warnings: unique(warnings)}
	slices.SortStableFunc(v.Reasons, func(a, b verdict.Reason) int {
		return cmp.Or(cmp.Compare(rank(a.Code), rank(b.Code)), cmp.Compare(place(a), place(b)))
	})
	if len(v.Reasons) > 0 {
		v.Outcome = verdict.Inconclusive
		if fails(v.Reasons[0].Code) {
			v.Outcome = verdict.Fail
		}
	}
	return v
}

func fails(c verdict.Code) bool {
	row, ok := verdict.Lookup(c)
	return ok && row.Outcome == verdict.Fail
}

// rank puts what fails first, then causes before their consequences: a leaf that ran out of time has
// faults that never fired and properties that stayed open because of it.
func rank(c verdict.Code) int {
	if fails(c) {
		return 0
	}
	switch c {
	case verdict.PropertyBroken:
		return 2
	case verdict.BaselineFailed:
		return 3
	case verdict.FaultNeverFired:
		return 4
	case verdict.WindowNeverOpened:
		return 5
	case verdict.PropertyUndecided:
		return 6
	}
	return 1
}

// place orders by the earliest witness; what has none comes last.
func place(r verdict.Reason) int64 {
	if r.Witness == 0 {
		return math.MaxInt64
	}
	return r.Witness
}

// unique keeps the first of reasons that say the same.
func unique(in []verdict.Reason) []verdict.Reason {
	type key struct {
		code            verdict.Code
		detail, subject string
	}
	var out []verdict.Reason
	seen := map[key]bool{}
	for _, r := range in {
		k := key{r.Code, r.Detail, r.Subject}
		if !seen[k] {
			seen[k] = true
			out = append(out, r)
		}
	}
	return out
}

// expectation says what an expectation's error means: a Violation fails the leaf, a reason of its
// own counts as such, and anything else means that the expectation itself is broken.
func expectation(err error) verdict.Reason {
	var violated *property.Violation
	var ended *spec.Ended
	code := verdict.PropertyBroken
	if errors.As(err, &violated) {
		code = verdict.ExpectationFailed
	}
	r := reasonOf(code, err)
	if !errors.As(err, &ended) {
		r.Subject = "expectation"
	}
	return r
}

// witnessed gives a failure of the scenario's own code a witness where it names none: the last answer
// that the scenario got, else the body's end.
func witnessed(r verdict.Reason, events []event.Event) verdict.Reason {
	if r.Witness != 0 || !fails(r.Code) {
		return r
	}
	for _, e := range events {
		switch {
		case e.Kind == event.StepRecv:
			r.Witness = e.Seq
		case isBody(e, "end") && r.Witness == 0:
			r.Witness = e.Seq
		}
	}
	return r
}

func neverFired(r Rule) verdict.Reason {
	why := r.Why
	if why == "" {
		why = "nothing it matches happened while it was in force"
	}
	return verdict.Reason{
		Code: verdict.FaultNeverFired, Detail: fmt.Sprintf("%s on %s: %s", r.Effect, r.Target, why),
		Subject: r.ID, Position: r.Position,
	}
}

// logged returns the reasons that the log itself holds: its notes, and the gaps in its numbering.
func logged(events []event.Event) []verdict.Reason {
	var out []verdict.Reason
	for i, e := range events {
		if want := int64(i) + 1; e.Seq != want {
			out = append(out, verdict.Reason{
				Code: verdict.EventsDropped, Detail: fmt.Sprintf("event %d stands where %d should", e.Seq, want), Witness: e.Seq,
			})
			break
		}
	}
	for _, e := range events {
		code := e.String("code")
		if code == "" || (e.Kind != event.Note && e.Kind != event.Unmet) {
			continue
		}
		r := verdict.Reason{Code: verdict.Code(code), Detail: e.String("message"), Witness: e.Seq}
		if e.Service != event.Driver {
			r.Subject = e.Service
		}
		row, _ := verdict.Lookup(r.Code)
		r.Detail = cmp.Or(r.Detail, e.String("address"), row.Sentence)
		out = append(out, r)
	}
	return out
}
