package replay

import (
	"slices"
	"testing"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

func record(v verdict.Verdict, statuses ...int64) Record {
	r := Record{Leaf: bundle.Leaf{Verdict: v}}
	add := func(kind event.Kind, fields map[string]any) {
		r.Events = append(r.Events, event.Event{Seq: int64(len(r.Events)) + 1, Service: event.Driver, Kind: kind, Fields: fields})
	}
	add(event.Body, map[string]any{"phase": "begin"})
	for _, s := range statuses {
		add(event.StepRecv, map[string]any{"status": s, "body": "not compared"})
	}
	return r
}

func TestCompare(t *testing.T) {
	pass := verdict.Verdict{Outcome: verdict.Pass}
	fail := func(detail string) verdict.Verdict {
		return verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{Code: verdict.MonitorViolated, Subject: "m", Detail: detail}}}
	}
	decided := record(pass)
	decided.Decisions = []bundle.Decision{{Rule: "a/0", Key: "db", Index: 1, Hit: true}}
	for _, tc := range []struct {
		name          string
		recorded, got Record
		want          string
	}{
		{"the same", record(pass, 200), record(pass, 200), ""},
		{"the wording of a reason", record(fail("after 3 ms")), record(fail("after 4 ms")), ""},
		{"another verdict by the same way", record(pass), record(fail("")), "verdict: expected PASS, got FAIL monitor-violated(m)\n"},
		{"another answer", record(pass, 200), record(pass, 500), "first difference, at line 2 of the trace's normal form:\n" +
			"  expected driver#2 step_recv status=200\n  got      driver#2 step_recv status=500"},
		{"an answer less", record(pass, 200), record(pass), "first difference, at line 2 of the trace's normal form:\n" +
			"  expected driver#2 step_recv status=200\n  got      (nothing more)"},
		{"a decision more", record(pass), decided, "first difference, at line 2 of the trace's normal form:\n" +
			"  expected (nothing more)\n  got      decision \"a/0\" \"db\" 1 hit=true"},
	} {
		if got := Compare(tc.recorded, tc.got); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	was := bundle.Manifest{Tool: "squall 1", Environment: map[string]string{"kernel": "6.1", "cpus": "2", "binary:db": "aa", "binary:api": "bb", "spec_dir": "/x", "os": "linux"}}
	is := bundle.Manifest{Tool: "squall 2", Environment: map[string]string{"kernel": "6.2", "cpus": "8", "binary:db": "cc", "binary:api": "bb", "spec_dir": "/y", "os": "linux"}}
	want := []string{
		"the program of db is not the one that was recorded", "cpus was 2 and is 8", "kernel was 6.1 and is 6.2",
		"it was recorded by squall 1; this is squall 2",
	}
	if got := Warnings(was, is); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Warnings(was, was); len(got) != 0 {
		t.Errorf("nothing differs: %q", got)
	}
}
