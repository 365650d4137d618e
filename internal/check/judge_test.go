package check

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

func returned() Input { return Input{Ending: Ending{Kind: Returned}, Asserted: true} }

func ended(c verdict.Code) error { return &spec.Ended{Code: string(c), Detail: "so", Subject: "it"} }

func TestJudge(t *testing.T) {
	rule := func(fired int, optional bool) Rule {
		return Rule{RuleRecord: bundle.RuleRecord{ID: "disk_full/write", Target: "db", Effect: `write=deny("ENOSPC")`, Fired: fired, Optional: optional}, Why: "no write to a file"}
	}
	note := func(kind event.Kind, code verdict.Code) event.Event {
		return event.Event{Seq: 1, Service: "api", Kind: kind, Fields: map[string]any{"code": string(code), "address": "10.0.0.1:80"}}
	}
	violation := &property.Violation{Message: "2 != 3"}
	failed := func(err error) func(*Input) { return func(in *Input) { in.Ending = Ending{Failed, err} } }
	cut := func(err error) func(*Input) { return func(in *Input) { in.Ending = Ending{Cut, err} } }
	expect := func(err error) func(*Input) { return func(in *Input) { in.Expected, in.Expect = true, err } }
	rules := func(r ...Rule) func(*Input) { return func(in *Input) { in.Rules = r } }
	events := func(e ...event.Event) func(*Input) { return func(in *Input) { in.Events = e } }
	for _, tc := range []struct {
		name    string
		edit    func(*Input)
		outcome verdict.Outcome
		reasons string
		warns   string
	}{
		{"nothing amiss", func(*Input) {}, verdict.Pass, "[]", "[]"},
		{"nothing checked", func(in *Input) { in.Asserted = false }, verdict.Pass, "[]", "[no-assertions]"},
		{"an expectation checks", func(in *Input) { in.Asserted, in.Expected = false, true }, verdict.Pass, "[]", "[]"},
		{"a property checks", func(in *Input) { in.Asserted, in.Records = false, make([]bundle.PropertyRecord, 1) }, verdict.Pass, "[]", "[]"},
		{"a fault fired", rules(rule(1, false)), verdict.Pass, "[]", "[]"},
		{"a fault never fired", rules(rule(0, false)), verdict.Inconclusive, "[fault-never-fired]", "[]"},
		{"an optional fault never fired", rules(rule(0, true)), verdict.Pass, "[]", "[]"},
		{"one of two never fired", rules(rule(3, false), rule(0, false)), verdict.Inconclusive, "[fault-never-fired]", "[]"},
		{"the body's assertion", failed(violation), verdict.Fail, "[assertion-failed]", "[]"},
		{"a wrapped assertion", failed(fmt.Errorf("step 3: %w", violation)), verdict.Fail, "[assertion-failed]", "[]"},
		{"the body's error", failed(errors.New("boom")), verdict.Fail, "[body-failed]", "[]"},
		{"the body waited in vain", failed(ended(verdict.AwaitUnmet)), verdict.Inconclusive, "[await-unmet]", "[]"},
		{"the body's own time-out", failed(context.DeadlineExceeded), verdict.Inconclusive, "[timeout]", "[]"},
		{"not subscribed", func(in *Input) { in.Ending = Ending{Halted, ended(verdict.NotSubscribed)} }, verdict.Inconclusive, "[not-subscribed]", "[]"},
		{"halted without a word", func(in *Input) { in.Ending = Ending{Kind: Halted} }, verdict.Inconclusive, "[halted]", "[]"},
		{"cut by a service", cut(ended(verdict.ServiceNotReady)), verdict.Inconclusive, "[service-not-ready]", "[]"},
		{"cut", cut(errors.New("gone")), verdict.Inconclusive, "[supervision-lost]", "[]"},
		{"decided by a violation", func(in *Input) {
			in.Ending, in.Reasons = Ending{Kind: Decided}, []verdict.Reason{{Code: verdict.MonitorViolated, Detail: "x"}}
		}, verdict.Fail, "[monitor-violated]", "[]"},
		{"decided by nothing", func(in *Input) { in.Ending = Ending{Kind: Decided} }, verdict.Inconclusive, "[supervision-lost]", "[]"},
		{"an ending nobody knows", func(in *Input) { in.Ending = Ending{} }, verdict.Inconclusive, "[supervision-lost]", "[]"},
		{"a code nobody knows", cut(ended("no-such-code")), verdict.Inconclusive, "[no-such-code]", "[]"},
		{"a warning's code as an ending", cut(ended(verdict.NoAssertions)), verdict.Inconclusive, "[no-assertions]", "[]"},
		{"the expectation", expect(violation), verdict.Fail, "[expectation-failed]", "[]"},
		{"the expectation is broken", expect(errors.New("no such field")), verdict.Inconclusive, "[property-broken]", "[]"},
		{"the expectation waited in vain", expect(ended(verdict.AwaitUnmet)), verdict.Inconclusive, "[await-unmet]", "[]"},
		{"a note that opens", events(note(event.Note, verdict.FaultBypassed)), verdict.Inconclusive, "[fault-bypassed]", "[]"},
		{"a note that fails", events(note(event.Note, verdict.DeterminismLeak)), verdict.Fail, "[determinism-leak]", "[]"},
		{"a note that warns", events(note(event.Unmet, verdict.UndeclaredIOWarning)), verdict.Pass, "[]", "[undeclared-io]"},
		{"a note of the scenario's own", events(note(event.Note, "")), verdict.Pass, "[]", "[]"},
		{"a service's own code is not a note", events(note(event.Stdout, verdict.FaultBypassed)), verdict.Pass, "[]", "[]"},
		{"a gap in the log", events(event.Event{Seq: 1}, event.Event{Seq: 3}), verdict.Inconclusive, "[events-dropped]", "[]"},
		{"a log without its beginning", events(event.Event{Seq: 2}), verdict.Inconclusive, "[events-dropped]", "[]"},
		{"FAIL beats the rest", func(in *Input) {
			failed(violation)(in)
			rules(rule(0, false))(in)
		}, verdict.Fail, "[assertion-failed fault-never-fired]", "[]"},
		{"causes before consequences", func(in *Input) {
			in.Reasons = []verdict.Reason{{Code: verdict.PropertyUndecided}, {Code: verdict.WindowNeverOpened}, {Code: verdict.PropertyBroken}}
			in.Ending = Ending{Kind: Timeout}
			rules(rule(0, false))(in)
			events(note(event.Note, verdict.FaultBypassed))(in)
		}, verdict.Inconclusive, "[fault-bypassed timeout property-broken fault-never-fired window-never-opened property-undecided]", "[]"},
	} {
		in := returned()
		tc.edit(&in)
		v := Judge(in)
		if v.Outcome != tc.outcome || codesOf(v.Reasons) != tc.reasons || codesOf(v.Warnings) != tc.warns {
			t.Errorf("%s: %s %s %s, want %s %s %s", tc.name, v.Outcome, codesOf(v.Reasons), codesOf(v.Warnings), tc.outcome, tc.reasons, tc.warns)
		}
		for _, r := range append(v.Reasons, v.Warnings...) {
			if r.Detail == "" && r.Code != verdict.PropertyUndecided && r.Code != verdict.WindowNeverOpened && r.Code != verdict.PropertyBroken {
				t.Errorf("%s: %s has no detail", tc.name, r.Code)
			}
		}
	}
}

func codesOf(reasons []verdict.Reason) string {
	out := []verdict.Code{}
	for _, r := range reasons {
		out = append(out, r.Code)
	}
	return fmt.Sprint(out)
}

// Every code of the table leads to its own outcome when it ends a body, and never to a PASS.
func TestEveryCodeAsAnEnding(t *testing.T) {
	for _, row := range verdict.Codes() {
		in := returned()
		in.Ending = Ending{Halted, ended(row.Code)}
		want := row.Outcome
		if want == verdict.Pass {
			want = verdict.Inconclusive
		}
		if v := Judge(in); v.Outcome != want || v.Reasons[0].Code != row.Code || v.Reasons[0].Subject != "it" {
			t.Errorf("%s: %+v", row.Code, v)
		}
	}
}

func TestNeverFiredSaysWhy(t *testing.T) {
	in := returned()
	in.Rules = []Rule{{RuleRecord: bundle.RuleRecord{ID: "r", Target: "api -> db", Effect: "latency(100ms)", Position: "x.star:4:1"}, Why: "no connection api -> db in this leaf"}}
	want := verdict.Reason{Code: verdict.FaultNeverFired, Detail: "latency(100ms) on api -> db: no connection api -> db in this leaf", Subject: "r", Position: "x.star:4:1"}
	if v := Judge(in); v.Reasons[0] != want {
		t.Errorf("%+v", v.Reasons[0])
	}
}

func TestTheEarliestWitnessComesFirst(t *testing.T) {
	in := returned()
	in.Ending = Ending{Failed, &property.Violation{Message: "not 200"}}
	in.Events = []event.Event{
		{Seq: 1, Kind: event.Body, Fields: map[string]any{"phase": "begin"}},
		{Seq: 2, Kind: event.StepRecv}, {Seq: 3, Kind: event.Stdout}, {Seq: 4, Kind: event.StepRecv},
		{Seq: 5, Kind: event.Body, Fields: map[string]any{"phase": "end"}},
	}
	in.Reasons = []verdict.Reason{{Code: verdict.EventuallyViolated, Witness: 5}, {Code: verdict.MonitorViolated, Witness: 3}}
	v := Judge(in)
	if got := codesOf(v.Reasons); got != "[monitor-violated assertion-failed eventually-violated]" || v.Reasons[1].Witness != 4 {
		t.Errorf("%+v", v.Reasons)
	}
}

func TestBaseline(t *testing.T) {
	pass := verdict.Verdict{Outcome: verdict.Pass}
	fail := verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{Code: verdict.AssertionFailed, Detail: "500"}}}
	open := verdict.Verdict{Outcome: verdict.Inconclusive, Reasons: []verdict.Reason{{Code: verdict.FaultNeverFired, Detail: "x"}}}
	for _, tc := range []struct {
		name              string
		leaf, baseline    verdict.Verdict
		outcome           verdict.Outcome
		reasons, lastSays string
	}{
		{"both pass", pass, pass, verdict.Pass, "[]", ""},
		{"a PASS needs it", pass, fail, verdict.Inconclusive, "[baseline-failed]", "the baseline is FAIL (assertion-failed: 500)"},
		{"an open baseline is no baseline", pass, open, verdict.Inconclusive, "[baseline-failed]", "the baseline is INCONCLUSIVE (fault-never-fired: x)"},
		{"no baseline at all", pass, verdict.Verdict{}, verdict.Inconclusive, "[baseline-failed]", "the baseline is INCONCLUSIVE"},
		{"a FAIL stays one", fail, fail, verdict.Fail, "[assertion-failed baseline-failed]", "the baseline is FAIL (assertion-failed: 500)"},
		{"a FAIL with a good baseline", fail, pass, verdict.Fail, "[assertion-failed]", "500"},
		{"it explains a fault that never fired", open, fail, verdict.Inconclusive, "[baseline-failed fault-never-fired]", "x"},
	} {
		v := WithBaseline(tc.leaf, tc.baseline, "7c1e")
		if v.Outcome != tc.outcome || codesOf(v.Reasons) != tc.reasons {
			t.Errorf("%s: %+v", tc.name, v)
			continue
		}
		if n := len(v.Reasons); n > 0 && v.Reasons[n-1].Detail != tc.lastSays {
			t.Errorf("%s: %q", tc.name, v.Reasons[n-1].Detail)
		}
	}
	if !reflect.DeepEqual(fail.Reasons, []verdict.Reason{{Code: verdict.AssertionFailed, Detail: "500"}}) {
		t.Error("WithBaseline changed its argument")
	}
}

func TestClassify(t *testing.T) {
	live := context.Background()
	late, cancel := context.WithDeadline(live, time.Unix(0, 0))
	defer cancel()
	stopped, stop := context.WithCancel(live)
	stop()
	violation := &property.Violation{Message: "no"}
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want EndingKind
	}{
		{"a result", live, nil, Returned},
		{"a result, just in time", late, nil, Returned},
		{"an error", live, errors.New("boom"), Failed},
		{"an assertion", live, violation, Failed},
		{"an assertion, then the time was up", late, violation, Failed},
		{"its own end", live, fmt.Errorf("x: %w", ended(verdict.Halted)), Halted},
		{"waiting when the time was up", late, ended(verdict.AwaitUnmet), Timeout},
		{"stopped", stopped, errors.New("cancelled"), Interrupted},
	} {
		if got := Classify(tc.ctx, tc.err); got.Kind != tc.want || !errors.Is(got.Err, tc.err) {
			t.Errorf("%s: %+v, want %s", tc.name, got, tc.want)
		}
	}
	in := returned()
	in.Ending = Ending{Timeout, ended(verdict.AwaitUnmet)}
	if r := Judge(in).Reasons[0]; r.Code != verdict.Timeout || r.Detail != "await-unmet: so" {
		t.Errorf("a time-out in a wait: %+v", r)
	}
}
