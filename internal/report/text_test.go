package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/bundle/bundletest"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func shop(t testing.TB, o bundletest.Options) *bundle.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.squall")
	if err := bundletest.Shop(path, o); err != nil {
		t.Fatal(err)
	}
	r, err := bundle.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func text(r *bundle.Reader) Text {
	return Text{
		Plan: r.Plan(), Verdicts: r.Verdicts(), Summary: r.Manifest().Summary, Events: r, Complete: r.Manifest().Complete,
		Bundle: ".squall/runs/0007/run.squall", Report: ".squall/runs/0007/report.html",
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", name, got)
	}
}

func TestTextIsAsPromised(t *testing.T) {
	var out bytes.Buffer
	if err := text(shop(t, bundletest.Options{})).Write(&out, Plain()); err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.txt", out.Bytes())
}

func TestJUnitIsAsPromised(t *testing.T) {
	r := shop(t, bundletest.Options{})
	var out bytes.Buffer
	if err := JUnit(&out, r.Manifest(), r.Verdicts()); err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.junit.xml", out.Bytes())
	var back junitSuites
	if err := xml.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	failures, errors := 0, 0
	for _, c := range back.Suites[0].Cases {
		if c.Failure != nil {
			failures++
		}
		if c.Error != nil {
			errors++
		}
	}
	if back.Tests != 12 || failures != back.Failures || errors != back.Errors || failures != 1 || errors != 1 {
		t.Errorf("%d cases, %d failures, %d errors", back.Tests, failures, errors)
	}
}

func TestJUnitOfNothingIsAnError(t *testing.T) {
	var out bytes.Buffer
	if err := JUnit(&out, bundle.Manifest{Source: "x.star"}, bundle.Verdicts{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `errors="1"`) || !strings.Contains(out.String(), "<error ") {
		t.Errorf("no error in\n%s", out.String())
	}
}

func TestJSONIsTheBundlesMember(t *testing.T) {
	r := shop(t, bundletest.Options{})
	var out bytes.Buffer
	if err := JSON(&out, r.Verdicts()); err != nil {
		t.Fatal(err)
	}
	var back bundle.Verdicts
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, r.Verdicts()) {
		t.Errorf("another value came back: %+v", back)
	}
}

func wide(n int) (bundle.Plan, bundle.Verdicts) {
	var p bundle.Plan
	var v bundle.Verdicts
	for i := range n {
		a := fmt.Sprintf("assumption_%d", i)
		p.Assumptions = append(p.Assumptions, bundle.PlanAssumption{Name: a})
		id := fmt.Sprintf("%08x", i)
		p.Leaves = append(p.Leaves, bundle.PlanLeaf{ID: id, Scenario: "s", Assumption: a})
		if i%3 != 0 {
			v.Leaves = append(v.Leaves, bundle.Leaf{ID: id, Scenario: "s", Assumption: a, Verdict: verdict.Verdict{Outcome: verdict.Pass}})
		}
	}
	p.Leaves = append(p.Leaves, bundle.PlanLeaf{ID: "ff", Scenario: "only_baseline", Assumption: bundle.Baseline})
	return p, v
}

func TestWideMatricesAreSplit(t *testing.T) {
	p, v := wide(20)
	var out bytes.Buffer
	if err := Matrix(&out, p, v, Plain()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for i := range 20 {
		if strings.Count(out.String(), fmt.Sprintf("assumption_%d ", i))+strings.Count(out.String(), fmt.Sprintf("assumption_%d\n", i)) != 1 {
			t.Errorf("assumption_%d does not stand once", i)
		}
	}
	if got := strings.Count(out.String(), "pass"); got != 13 {
		t.Errorf("%d cells pass, want 13:\n%s", got, out.String())
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(out.String()), " "); first != bundle.Baseline {
		t.Errorf("the baseline is not first but %q", first)
	}
}

// Colour adds marks and nothing else.
func TestColourOnlyMarks(t *testing.T) {
	r := shop(t, bundletest.Options{})
	var plain, coloured bytes.Buffer
	if err := text(r).Write(&plain, Plain()); err != nil {
		t.Fatal(err)
	}
	if err := text(r).Write(&coloured, Colour(80)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(coloured.String(), "\x1b[") {
		t.Error("marks are where they must not be, or missing")
	}
	if got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(coloured.String(), ""); got != plain.String() {
		t.Errorf("without marks the text differs:\n%s", got)
	}
}

func TestHostileOutputCannotMoveTheCursor(t *testing.T) {
	leaf := bundle.Leaf{ID: "aa", Scenario: "s", Assumption: bundle.Baseline, Verdict: verdict.Verdict{Outcome: verdict.Fail,
		Reasons: []verdict.Reason{{Code: verdict.AssertionFailed, Detail: "got \x1b[2J\r\x9bK", Witness: 1}}}}
	out := Text{
		Plan:     bundle.Plan{Leaves: []bundle.PlanLeaf{{ID: "aa", Scenario: "s", Assumption: bundle.Baseline}}},
		Verdicts: bundle.Verdicts{Leaves: []bundle.Leaf{leaf}}, Complete: true,
		Events: fixed{{Seq: 1, Service: "api", Kind: event.Stdout, Fields: map[string]any{"line": "a\x1b]0;x\x07b\u009b2K"}}},
	}
	var b bytes.Buffer
	if err := out.Write(&b, Plain()); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\r\x07\u009b") || !strings.Contains(b.String(), "<- witness") {
		t.Errorf("%q", b.String())
	}
}

type fixed []event.Event

func (f fixed) Events(string) ([]event.Event, error) { return f, nil }

func TestStoriesAreShortAndEndAtTheWitness(t *testing.T) {
	r := shop(t, bundletest.Options{Extra: 20000})
	leaf, _ := r.Leaf(bundletest.Failing)
	events, err := r.Events(leaf.ID)
	if err != nil {
		t.Fatal(err)
	}
	story := Story(leaf, events)
	if len(story) > storyLength || len(story) < 2 || story[len(story)-1].Seq != Witness(leaf) {
		t.Fatalf("%d events, the last is %+v", len(story), story[len(story)-1])
	}
	denied := slices.ContainsFunc(story, func(e event.Event) bool { return e.String("errno") == "ENOSPC" })
	unrelated := slices.ContainsFunc(story, func(e event.Event) bool { return e.String("msg") == "catalog" })
	if !denied || unrelated {
		t.Errorf("denied write told: %v, unrelated told: %v", denied, unrelated)
	}
	if again := Story(leaf, events); !reflect.DeepEqual(story, again) {
		t.Error("the same leaf has two stories")
	}
	open, _ := r.Leaf(bundletest.Open)
	quiet, err := r.Events(open.ID)
	if err != nil {
		t.Fatal(err)
	}
	if story := Story(open, quiet); len(story) != 0 {
		t.Errorf("a story of a leaf in which nothing happened: %v", story)
	}
	if story := Story(bundle.Leaf{}, nil); len(story) != 0 {
		t.Errorf("a story of nothing: %v", story)
	}
}

func TestStoppedRunsSaySo(t *testing.T) {
	var out bytes.Buffer
	if err := text(shop(t, bundletest.Options{Interrupted: true})).Write(&out, Plain()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "stopped before the end: 4 leaves not decided") {
		t.Error(out.String())
	}
}

func TestReplayLineIsQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"a/b.squall": "squall replay a/b.squall --leaf 7c1e",
		"a b's":      `squall replay 'a b'\''s' --leaf 7c1e`,
		"$(x)":       "squall replay '$(x)' --leaf 7c1e",
	} {
		if got := ReplayLine(path, "7c1e"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
