package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/bundle/bundletest"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// suite is a loader that has one suite.
type suite spec.Suite

func (s *suite) Load(context.Context, string) (*spec.Suite, error) { return (*spec.Suite)(s), nil }

// squallIn runs the command and returns what it printed.
func squallIn(t *testing.T, l spec.Loader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	code = (&env{ctx: t.Context(), loader: l, stdout: &out, stderr: &err}).main(args)
	return code, out.String(), err.String()
}

func shop(t *testing.T, dir string, o bundletest.Options) string {
	t.Helper()
	path := filepath.Join(dir, "run.squall")
	if err := bundletest.Shop(path, o); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatANewcomerTypes(t *testing.T) {
	for _, tc := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"", 0, "Usage: squall <command>", ""},
		{"help", 0, "Usage: squall <command>", ""},
		{"help test", 0, "Usage: squall test <spec>", ""},
		{"version", 0, "squall " + squall.Version(), ""},
		{"test", 2, "", "squall test: missing <spec>\nsee: squall test --help\n"},
		{"diff a", 2, "", "squall diff: missing <b>\nsee: squall diff --help\n"},
		{"test --seeed=1 x", 2, "", `squall test: unknown flag --seeed, did you mean "--seed"?`},
		{"tset x", 2, "", "squall: unexpected argument tset"},
	} {
		code, out, err := squallIn(t, &suite{}, strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(out, tc.stdout) || !strings.Contains(err, tc.stderr) {
			t.Errorf("%q: exit %d\n%s%s", tc.args, code, out, err)
		}
	}
}

func TestDiffOfOddPairs(t *testing.T) {
	a := shop(t, t.TempDir(), bundletest.Options{})
	b := shop(t, t.TempDir(), bundletest.Options{Seed: 7})
	empty := filepath.Join(t.TempDir(), "run.squall")
	w, err := bundle.Create(empty, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Plan(bundle.Plan{}), w.Close(bundle.Manifest{Complete: true})); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, a, b     string
		code           int
		stdout, stderr string
	}{
		{"itself", a, a, 0, "equal: the same leaves", ""},
		{"a run's directory", filepath.Dir(a), a, 0, "equal: the same leaves", ""},
		{"another seed", a, b, -1, "the seeds differ", ""},
		{"no leaves", empty, empty, 2, "", "nothing to compare"},
		{"one without leaves", a, empty, 1, "only in the first", ""},
		{"a directory", t.TempDir(), a, 2, "", "not a regular file"},
	} {
		code, out, err := squallIn(t, nil, "diff", tc.a, tc.b)
		if code != tc.code && tc.code >= 0 || !strings.Contains(out, tc.stdout) || !strings.Contains(err, tc.stderr) {
			t.Errorf("%s: exit %d\n%s%s", tc.name, code, out, err)
		}
	}
}

func TestLeavesAreNamedOrRefused(t *testing.T) {
	a := shop(t, t.TempDir(), bundletest.Options{Interrupted: true})
	r, err := bundle.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cut := r.Verdicts().Leaves[11].ID
	for args, want := range map[string]string{
		"inspect " + a + " --leaf zz":               "there is: ",
		"replay " + a + " --leaf zz":                "there is: ",
		"replay " + a + " --leaf " + cut:            "was not run to its end",
		"replay " + a + " --spec-dir /nowhere/else": "there is no such directory",
	} {
		code, _, stderr := squallIn(t, &suite{}, strings.Fields(args)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
	var several *squall.NoLeaf
	if _, err := squall.FindLeaf(r, ""); !errors.As(err, &several) || several.Several {
		t.Errorf("no ID at all: %v", err)
	}
}

// Names in a stranger's bundle must not reach the terminal as commands.
func TestNamesOfAStrangersBundleAreHarmless(t *testing.T) {
	bad := "a\x1b[2J\u202e\rb"
	write := func(dir string) string {
		path := filepath.Join(dir, "run.squall")
		w, err := bundle.Create(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(w.Plan(bundle.Plan{Source: bad, Leaves: []bundle.PlanLeaf{{ID: "aa", Scenario: bad, Assumption: bad}}, Untried: []string{bad}}))
		l, err := w.Leaf("aa")
		must(err)
		must(l.Event(event.Event{Seq: 1, Service: bad, Kind: event.Lifecycle, Fields: map[string]any{"phase": bad}}))
		must(l.Close(bundle.Leaf{
			ID: "aa", Scenario: bad, Assumption: bad, Trace: bad, Result: bad,
			Verdict:    verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{Code: verdict.AssertionFailed, Detail: bad, Witness: 1, Position: bad}}},
			Rules:      []bundle.RuleRecord{{ID: bad, Target: bad, Effect: bad, Position: bad}},
			Properties: []bundle.PropertyRecord{{Name: bad, Kind: bad, Result: bad, Message: bad, Position: bad}},
			Choices:    []bundle.ChoiceRecord{{Name: bad}},
		}, nil))
		must(w.Close(bundle.Manifest{Complete: true, Source: bad, Tool: bad}))
		return path
	}
	a, b := write(t.TempDir()), shop(t, t.TempDir(), bundletest.Options{})
	for _, args := range [][]string{
		{"inspect", a}, {"inspect", a, "--leaf", "aa"}, {"inspect", a, "--events"}, {"inspect", a, "--story"},
		{"inspect", a, "--json"}, {"diff", a, b}, {"diff", b, a},
	} {
		_, out, err := squallIn(t, nil, args...)
		if out == "" || strings.ContainsAny(strings.ReplaceAll(out+err, a, ""), "\x1b\r") {
			t.Errorf("%v: %q %q", args, out, err)
		}
	}
}

func TestFilesAreWrittenWholeOrIntoWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	pipe, plain, link := filepath.Join(dir, "null"), filepath.Join(dir, "plain"), filepath.Join(dir, "link")
	if err := errors.Join(os.Symlink(os.DevNull, pipe), os.WriteFile(plain, []byte("old"), 0o600), os.Symlink(plain, link)); err != nil {
		t.Fatal(err)
	}
	a := shop(t, dir, bundletest.Options{})
	for _, out := range []string{pipe, link} {
		if code, _, err := squallIn(t, nil, "report", a, "-o", out); code != 0 {
			t.Errorf("%s: %s", out, err)
		}
		if info, err := os.Lstat(out); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is not a link any more", out)
		}
	}
	if b, err := os.ReadFile(plain); err != nil || !strings.HasSuffix(string(b), "</html>\n") {
		t.Errorf("what the link leads to: %.20q, %v", b, err)
	}
	code, _, err := squallIn(t, nil, "report", a, "-o", filepath.Join(dir, "gone", "r.html"))
	if code != 2 || !strings.Contains(err, filepath.Join("gone", "r.html")+": ") || strings.Contains(err, "r.html.") || !strings.Contains(err, "make the directory") {
		t.Errorf("a directory that is missing: exit %d, %s", code, err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
