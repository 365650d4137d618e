package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// one is the text of a run with one leaf.
func one(leaf bundle.Leaf, events ...event.Event) Text {
	leaf.ID = "aaaa1111"
	return Text{
		Plan:     bundle.Plan{Leaves: []bundle.PlanLeaf{{ID: leaf.ID, Scenario: leaf.Scenario, Assumption: leaf.Assumption}}},
		Verdicts: bundle.Verdicts{Leaves: []bundle.Leaf{leaf}}, Complete: true, Events: fixed(events), Bundle: "r.squall",
	}
}

func written(t *testing.T, text Text) string {
	t.Helper()
	var b bytes.Buffer
	if err := text.Write(&b, Plain()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func failed(detail string) verdict.Verdict {
	return verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{Code: verdict.AssertionFailed, Detail: detail, Witness: 1}}}
}

func TestColumns(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "größe": 5, "gro\u0308ße": 5, "日本": 4, "🎉": 2, "a\u200bb": 2, "→…": 2} {
		if got := columns(s); got != want {
			t.Errorf("%q: %d columns, want %d", s, got, want)
		}
	}
	for width, want := range map[int]string{4: "日本", 3: "日…", 2: "…"} {
		if got := cut("日本", width); got != want {
			t.Errorf("cut to %d: %q, want %q", width, got, want)
		}
	}
}

// What is wide or long must not run over the terminal's edge, and must leave room for what happened.
func TestNothingRunsOverTheEdge(t *testing.T) {
	long := strings.Repeat("a_service_with_a_name", 3)
	leaf := bundle.Leaf{Scenario: "s", Assumption: "none", Verdict: failed(strings.Repeat("日本語の説明 ", 20))}
	got := written(t, one(leaf,
		event.Event{Seq: 1, Service: long, Kind: event.Stdout, Fields: map[string]any{"line": "order 17 confirmed" + strings.Repeat("見", 50)}}))
	for line := range strings.Lines(got) {
		if n := columns(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(got, "order 17 confirmed") {
		t.Errorf("a long name crowds out what happened:\n%s", got)
	}
}

func TestNamesCannotMoveTheCursorEither(t *testing.T) {
	bad := "a\x1b[2J\u202eb"
	leaf := bundle.Leaf{Scenario: bad, Assumption: bad, Verdict: failed("x")}
	leaf.Verdict.Reasons[0].Position = bad
	leaf.Verdict.Warnings = []verdict.Reason{{Code: verdict.NeverTriggered, Subject: bad}}
	text := one(leaf, event.Event{Seq: 1, Service: bad, Kind: event.Kind(bad)})
	text.Plan.Untried = []string{bad}
	if got := written(t, text); strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("%q", got)
	}
}

func TestNothingTestedIsSaid(t *testing.T) {
	if got := written(t, Text{Complete: true}); !strings.Contains(got, "INCONCLUSIVE nothing-tested: no leaf was run") {
		t.Error(got)
	}
}

func TestUntriedIsSaid(t *testing.T) {
	text := one(bundle.Leaf{Scenario: "s", Assumption: "none", Verdict: verdict.Verdict{Outcome: verdict.Pass}})
	if got := written(t, text); strings.Contains(got, "note:") {
		t.Error(got)
	}
	text.Plan.Untried = []string{"disk_full", "cut"}
	if got := written(t, text); !strings.Contains(got, "note: nothing is tried under disk_full, cut: declared") {
		t.Error(got)
	}
}

// The log of a program that ended too early is the next thing to read.
func TestALogIsPointedTo(t *testing.T) {
	why := verdict.Reason{Code: verdict.ServiceCrashed, Subject: "web", Detail: "web ended"}
	leaf := bundle.Leaf{Scenario: "s", Assumption: "none", Verdict: verdict.Verdict{Outcome: verdict.Inconclusive, Reasons: []verdict.Reason{why}}}
	if got := written(t, one(leaf)); !strings.Contains(got, "log:    squall inspect r.squall --leaf aaaa --log web\n") {
		t.Error(got)
	}
}

// A baseline that fails is told once in full, not again in each of its cells.
func TestABaselineIsToldOnce(t *testing.T) {
	leaf := bundle.Leaf{Scenario: "s", Assumption: "disk_full", Verdict: failed("x")}
	leaf.Verdict.Reasons = append(leaf.Verdict.Reasons, verdict.Reason{Code: verdict.BaselineFailed, Detail: strings.Repeat("the baseline is FAIL ", 20)})
	got := written(t, one(leaf))
	if strings.Count(got, "the baseline is FAIL") > 3 || !strings.Contains(got, "baseline-failed") {
		t.Error(got)
	}
}
