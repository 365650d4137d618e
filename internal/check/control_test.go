package check

import (
	"strings"
	"testing"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/verdict"
)

func controlEvents() []event.Event {
	return []event.Event{
		{Seq: 1, Service: "api", Kind: event.Stdout, Fields: map[string]any{"line": "x", "level": "info", "gone": nil}},
		{Seq: 2, Service: event.Driver, Kind: event.StepSend, Fields: map[string]any{"args": map[string]any{"path": "/o", "inner": map[string]any{"a": 1.0}}}},
		{Seq: 3, Service: "api", Kind: event.Stdout, Fields: map[string]any{"line": "y", "level": "warn"}},
	}
}

// TestControls: a monitor has its control once it was triggered, decided, or saw an event like those it looks for.
func TestControls(t *testing.T) {
	level := &property.Like{Kind: "std*", Service: "api", Fields: []string{"level"}}
	other := &property.Like{Kind: "std*", Service: "api", Fields: []string{"levle"}}
	quiet := func([]event.Event, any) (any, bool, error) { return nil, false, nil }
	never := func(event.Event) (bool, error) { return false, nil }
	v := New(Properties{
		Monitors: []*property.Monitor{
			{Name: "near", On: never, Like: level, Step: quiet},
			{Name: "far", On: never, Like: other, Step: quiet},
			{Name: "asleep", Step: quiet},
			{Name: "triggered", Step: func([]event.Event, any) (any, bool, error) { return nil, true, nil }},
			{Name: "violated", Step: func([]event.Event, any) (any, bool, error) { return nil, false, &property.Violation{} }},
		},
		Temporal: []*property.Temporal{{Name: "always", Kind: property.Always, Holds: func([]event.Event) (bool, error) { return true, nil }}},
	})
	v.Feed(controlEvents()...)
	got := ""
	for _, c := range v.Controls() {
		if c.Seen {
			got += c.Name + " "
		}
	}
	if got != "near triggered violated " {
		t.Errorf("seen: %s", got)
	}
	if n := len(v.Controls()); n != 5 {
		t.Errorf("%d controls", n)
	}
}

// TestWithControls says when a check of a leaf is warned of.
func TestWithControls(t *testing.T) {
	shapes := Shapes(controlEvents())
	if len(shapes) != 2 {
		t.Fatalf("shapes: %+v", shapes)
	}
	like := func(fields ...string) *bundle.Like { return &bundle.Like{Fields: fields} }
	for _, tc := range []struct {
		name     string
		own      bundle.Control
		baseline *bundle.Leaf
		want     string
	}{
		{"seen here", bundle.Control{Seen: true, Like: like("nothing")}, &bundle.Leaf{}, ""},
		{"seen nowhere", bundle.Control{Like: like("levle")}, &bundle.Leaf{Assurance: bundle.Assurance{Shapes: shapes}}, "no event of any service with levle came, here or without the fault"},
		{"seen in the baseline", bundle.Control{Like: like("level")}, &bundle.Leaf{Assurance: bundle.Assurance{Shapes: shapes}}, ""},
		{"a field in an object", bundle.Control{Like: like("args.inner.a")}, &bundle.Leaf{Assurance: bundle.Assurance{Shapes: shapes}}, ""},
		{"fields of two events", bundle.Control{Like: like("args", "level")}, &bundle.Leaf{Assurance: bundle.Assurance{Shapes: shapes}}, "with args, level came"},
		{"a field without a value", bundle.Control{Like: like("gone")}, &bundle.Leaf{Assurance: bundle.Assurance{Shapes: shapes}}, "with gone came"},
		{"any of two", bundle.Control{Like: &bundle.Like{Any: []bundle.Like{*like("levle"), *like("level")}}}, &bundle.Leaf{Assurance: bundle.Assurance{Shapes: shapes}}, ""},
		{"both of two", bundle.Control{Like: &bundle.Like{All: []bundle.Like{*like("levle"), {Kind: "stdout", Service: "a*"}}}}, &bundle.Leaf{Assurance: bundle.Assurance{Shapes: shapes}},
			"no event of any service with levle and of type stdout of a* came"},
		{"the baseline itself", bundle.Control{Like: like("levle")}, nil, "with levle came"},
		{"the baseline, for others", bundle.Control{Like: like("levle"), Elsewhere: true}, nil, ""},
		{"a function, asleep in both", bundle.Control{}, &bundle.Leaf{Assurance: bundle.Assurance{Controls: []bundle.Control{{Name: "m"}}}}, "nothing shows"},
		{"a function, awake in the baseline", bundle.Control{}, &bundle.Leaf{Assurance: bundle.Assurance{Controls: []bundle.Control{{Name: "m", Seen: true}}}}, ""},
		{"a function that the baseline does not know", bundle.Control{}, &bundle.Leaf{}, ""},
	} {
		tc.own.Name = "m"
		before := verdict.Verdict{Outcome: verdict.Pass, Warnings: []verdict.Reason{{Code: verdict.NeverTriggered, Subject: "m"}, {Code: verdict.NeverTriggered, Subject: "other"}}}
		v := WithControls(before, []bundle.Control{tc.own}, tc.baseline)
		last := v.Warnings[len(v.Warnings)-1]
		warned := last.Code == verdict.NoPositiveControl
		if warned != (tc.want != "") || !strings.Contains(last.Detail, tc.want) || v.Outcome != verdict.Pass || len(v.Warnings) != 2 || len(before.Warnings) != 2 {
			t.Errorf("%s: %+v", tc.name, v.Warnings)
		}
		if warned && (v.Warnings[0].Subject != "other" || last.Subject != "m") {
			t.Errorf("%s: never-triggered must give way: %+v", tc.name, v.Warnings)
		}
	}
}

// TestUntil: a body may end where its predicate is true; that it never was is no failure, and checks nothing.
func TestUntil(t *testing.T) {
	until := func(holds func(trace []event.Event) (bool, error)) *Evaluator {
		return New(Properties{Temporal: []*property.Temporal{{Name: "u", Kind: property.Until, Holds: holds}}})
	}
	begin := event.Event{Seq: 1, Kind: event.Body, Service: event.Driver, Fields: map[string]any{"phase": "begin"}}
	next := event.Event{Seq: 2, Kind: event.Note, Service: event.Driver}
	second := func(trace []event.Event) (bool, error) { return len(trace) == 2, nil }

	v := until(second)
	if v.Feed(begin); v.Terminated() {
		t.Error("too early")
	}
	if v.Feed(next); !v.Terminated() {
		t.Error("it must end here")
	}
	v = until(second)
	v.Feed(next, next)
	if v.Terminated() {
		t.Error("it looks at the body only")
	}
	v = until(func([]event.Event) (bool, error) { return false, nil })
	v.Feed(begin, next)
	reasons, warnings, records := v.Finish(Ending{Kind: Returned})
	if len(reasons) != 0 || len(warnings) != 1 || warnings[0].Code != verdict.NeverTriggered || records[0].Kind != "terminate_when" {
		t.Errorf("got %v, %v, %v", reasons, warnings, records)
	}
	if w := Judge(Input{Ending: Ending{Kind: Returned}, Records: records}).Warnings; len(w) != 1 || w[0].Code != verdict.NoAssertions {
		t.Errorf("it checks nothing: %v", w)
	}
	v = until(func([]event.Event) (bool, error) { return false, &property.Violation{Message: "no"} })
	if got := v.Feed(begin); len(got) != 1 || got[0].Code != verdict.AssertionFailed || got[0].Witness != 1 {
		t.Errorf("got %v", got)
	}
}
