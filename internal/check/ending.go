// Package check turns a leaf's log into its verdict.
//
// An Evaluator is fed the events, live or from disk, and decides the monitors and temporal
// properties; Judge adds how the body ended, what the expectation said, which faults fired and what
// the log's notes say. NormalForm makes two runs comparable. All of it is pure: no clock, no file.
//
// # What is decided where
//
// Monitors see every event of the leaf, from the first service's start to the last event fed before
// Finish. Temporal properties see the events from the one that opens their window to the one that
// closes it, both included; without a window that is the body, from its begin event to its end
// event. So what an observer still has to deliver must be appended before the body's end. A window's
// closing event is looked for after its opening one. Only the first opening counts: what comes after
// the window has closed once is not looked at. A window still open when the body ends in the regular
// way counts up to there.
//
// While the leaf runs, a property is decided as soon as no continuation could change it: a monitor
// or always by its first violation, an eventually by the first time that it is true, both by the
// closing of a declared window. The rest is decided by Finish: on a body that returned, by the
// finished trace; on any other ending it stays undecided. A monitor's silence on a cut trace is
// undecided too: what it forbids might have come.
//
// Events of kind property are not shown to properties, so that what is decided does not depend on
// when an earlier decision was written down.
package check

import (
	"context"
	"errors"

	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// EndingKind is how a leaf's body came to its end.
type EndingKind string

// The endings. Only Returned is a regular end of the trace.
const (
	// Returned: the body gave back a result.
	Returned EndingKind = "returned"
	// Failed: the body gave back an error.
	Failed EndingKind = "failed"
	// Halted: the body ended itself on purpose.
	Halted EndingKind = "halted"
	// Timeout: the leaf's time was up.
	Timeout EndingKind = "timeout"
	// Interrupted: the run was stopped from outside.
	Interrupted EndingKind = "interrupted"
	// Cut: the leaf ended without its body having a say: a service that did not start, a supervisor lost.
	Cut EndingKind = "cut"
	// Decided: the body was ended because a property was violated. The violation is the reason; for
	// the other properties the trace is cut. It is not among Endings: there is no such leaf without
	// a violation.
	Decided EndingKind = "decided"
)

// Endings returns all endings.
func Endings() []EndingKind {
	return []EndingKind{Returned, Failed, Halted, Timeout, Interrupted, Cut}
}

// Ending is how a leaf's body ended.
type Ending struct {
	Kind EndingKind
	// Err is the body's error, or what cut the leaf.
	Err error
}

// Classify says how a body ended from what it returned. ctx is the body's own context.
func Classify(ctx context.Context, err error) Ending {
	var ended *spec.Ended
	var violated *property.Violation
	switch {
	case err == nil:
		return Ending{Kind: Returned}
	case errors.As(err, &violated):
		return Ending{Failed, err}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Ending{Timeout, err}
	case ctx.Err() != nil:
		return Ending{Interrupted, err}
	case errors.As(err, &ended):
		return Ending{Halted, err}
	}
	return Ending{Failed, err}
}

// reason says why an ending is not a PASS; nil for Returned and Decided.
func (e Ending) reason() *verdict.Reason {
	if e.Kind == Returned || e.Kind == Decided {
		return nil
	}
	// An assertion that was false stays false, however the leaf ended after it.
	var violated *property.Violation
	if errors.As(e.Err, &violated) {
		r := reasonOf(verdict.AssertionFailed, violated)
		return &r
	}
	fallback := map[EndingKind]verdict.Code{
		Failed: verdict.BodyFailed, Halted: verdict.Halted, Timeout: verdict.Timeout,
		Interrupted: verdict.Interrupted, Cut: verdict.SupervisionLost,
	}[e.Kind]
	if fallback == "" {
		fallback = verdict.SupervisionLost
	}
	r := reasonOf(fallback, e.Err)
	var ended *spec.Ended
	if (e.Kind == Timeout || e.Kind == Interrupted) && errors.As(e.Err, &ended) {
		// What the body waited for when its time was up is worth saying, but is not the cause.
		r = verdict.Reason{Code: fallback, Detail: ended.Error(), Subject: ended.Subject, Position: ended.Position}
	}
	if e.Err == nil {
		row, _ := verdict.Lookup(fallback)
		r.Detail = row.Sentence
	}
	return &r
}

// reasonOf turns an error into a reason: of its own code where it names one, of a cancelled context,
// else of fallback.
func reasonOf(fallback verdict.Code, err error) verdict.Reason {
	var ended *spec.Ended
	var violated *property.Violation
	switch {
	case err == nil:
		return verdict.Reason{Code: fallback}
	case errors.As(err, &violated):
		return verdict.Reason{Code: fallback, Detail: violated.Message, Witness: violated.Witness, Position: violated.Position}
	case errors.As(err, &ended):
		return verdict.Reason{Code: verdict.Code(ended.Code), Detail: ended.Detail, Subject: ended.Subject, Position: ended.Position}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict.Reason{Code: verdict.Timeout, Detail: err.Error()}
	case errors.Is(err, context.Canceled):
		return verdict.Reason{Code: verdict.Interrupted, Detail: err.Error()}
	}
	return verdict.Reason{Code: fallback, Detail: err.Error()}
}
