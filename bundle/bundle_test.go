package bundle_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/bundle/bundletest"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

func shop(t *testing.T, o bundletest.Options) *bundle.Reader {
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

func TestWhatIsWrittenIsRead(t *testing.T) {
	r := shop(t, bundletest.Options{Extra: 5000})
	s := r.Manifest().Summary
	if s.Outcome != verdict.Fail || s.Pass != 10 || s.Fail != 1 || s.Inconclusive != 1 || !r.Manifest().Complete {
		t.Errorf("summary %+v", s)
	}
	leaf, ok := r.Leaf("7c1e")
	if !ok || leaf.ID != bundletest.Failing || leaf.Verdict.Outcome != verdict.Fail {
		t.Fatalf("leaf by prefix: %+v, %v", leaf, ok)
	}
	if _, ok := r.Leaf(""); ok {
		t.Error("the empty prefix must not name a leaf")
	}
	events, err := r.Events(leaf.ID)
	if err != nil || len(events) != leaf.Events || leaf.Events < 5000 {
		t.Fatalf("%d events, verdict counts %d: %v", len(events), leaf.Events, err)
	}
	witness := events[leaf.Verdict.Reasons[0].Witness-1]
	if witness.Kind != event.Stdout || witness.Fields["order"] != int64(17) || witness.Clock["db"] == 0 {
		t.Errorf("witness %+v", witness)
	}
	log, err := r.Log(leaf.ID, "db")
	if err != nil || !strings.Contains(string(log), "no space left") {
		t.Errorf("log %q: %v", log, err)
	}
	if got := r.Logs(leaf.ID); !slices.Equal(got, []string{"api", "db"}) {
		t.Errorf("logs of %v", got)
	}
	files, err := r.SpecFiles()
	if err != nil || len(files) != 1 || files[0].Path != "shop.star" {
		t.Errorf("spec files %v: %v", files, err)
	}
	if d := r.Replay().Decisions[leaf.ID]; len(d) != 1 || !d[0].Hit {
		t.Errorf("decisions %v", d)
	}
}

func TestSameInputSameBytes(t *testing.T) {
	dir := t.TempDir()
	var got [2][]byte
	for i := range got {
		path := filepath.Join(dir, "x.squall")
		if err := bundletest.Shop(path, bundletest.Options{Extra: 100}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = b
	}
	if !slices.Equal(got[0], got[1]) {
		t.Error("two bundles of the same run differ")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left beside the bundle: %v, %v", entries, err)
	}
}

func TestInterruptedIsNeverAPass(t *testing.T) {
	r := shop(t, bundletest.Options{Interrupted: true, Clean: true})
	m := r.Manifest()
	if m.Complete || m.Summary.Outcome != verdict.Inconclusive {
		t.Errorf("complete %v, %s", m.Complete, m.Summary.Outcome)
	}
	leaves := r.Verdicts().Leaves
	if len(leaves) != 12 {
		t.Fatalf("%d leaves", len(leaves))
	}
	for _, leaf := range leaves[8:] {
		if leaf.Verdict.Reasons[0].Code != verdict.Interrupted {
			t.Errorf("leaf %s: %v", leaf.ID, leaf.Verdict)
		}
	}
}

func TestAllDecidedButStoppedIsNotAPass(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.squall")
	w := start(t, path)
	decide(t, w, "aa")
	decide(t, w, "bb")
	if err := w.Close(bundle.Manifest{Complete: false}); err != nil {
		t.Fatal(err)
	}
	r, err := bundle.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := r.Manifest().Summary.Outcome; got != verdict.Inconclusive {
		t.Errorf("outcome %s", got)
	}
}

func assumptions() map[string]string { return map[string]string{"aa": bundle.Baseline, "bb": "a"} }

// start begins a bundle with two leaves, aa and bb.
func start(t *testing.T, path string) *bundle.Writer {
	t.Helper()
	w, err := bundle.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Abort)
	err = w.Plan(bundle.Plan{Source: "x.star", Leaves: []bundle.PlanLeaf{
		{ID: "aa", Scenario: "s", Assumption: "none"}, {ID: "bb", Scenario: "s", Assumption: "a"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func decide(t *testing.T, w *bundle.Writer, id string) {
	t.Helper()
	l, err := w.Leaf(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(bundle.Leaf{ID: id, Scenario: "s", Assumption: assumptions()[id], Verdict: verdict.Verdict{Outcome: verdict.Pass}}, nil); err != nil {
		t.Fatal(err)
	}
}

// closed closes leaf aa with what is said of it.
func closed(t *testing.T, w *bundle.Writer, leaf bundle.Leaf) error {
	t.Helper()
	l, err := w.Leaf("aa")
	if err != nil {
		t.Fatal(err)
	}
	return l.Close(leaf, nil)
}

func TestWriterRefuses(t *testing.T) {
	pass := verdict.Verdict{Outcome: verdict.Pass}
	for _, tc := range []struct {
		name, want string
		do         func(t *testing.T, w *bundle.Writer) error
	}{
		{"complete with a leaf missing", "has no verdict", func(t *testing.T, w *bundle.Writer) error {
			decide(t, w, "aa")
			return w.Close(bundle.Manifest{Complete: true})
		}},
		{"a verdict outside the plan", "does not have", func(t *testing.T, w *bundle.Writer) error {
			for _, id := range []string{"aa", "bb", "cc"} {
				decide(t, w, id)
			}
			return w.Close(bundle.Manifest{Complete: true})
		}},
		{"a PASS under a fault, and no baseline", "though the baseline", func(t *testing.T, w *bundle.Writer) error {
			decide(t, w, "bb")
			return w.Close(bundle.Manifest{Complete: false})
		}},
		{"a verdict under another name", "a verdict on", func(t *testing.T, w *bundle.Writer) error {
			if err := closed(t, w, bundle.Leaf{ID: "aa", Scenario: "t", Assumption: bundle.Baseline, Verdict: pass}); err != nil {
				t.Fatal(err)
			}
			return w.Close(bundle.Manifest{Complete: false})
		}},
		{"a PASS over a fault that never fired", "never fired", func(t *testing.T, w *bundle.Writer) error {
			return closed(t, w, bundle.Leaf{ID: "aa", Verdict: pass, Rules: []bundle.RuleRecord{{ID: "a/0"}}})
		}},
		{"two plans", "already written", func(t *testing.T, w *bundle.Writer) error { return w.Plan(bundle.Plan{}) }},
		{"the same file twice", "written twice", func(t *testing.T, w *bundle.Writer) error {
			if err := w.SpecFile("a.star", nil); err != nil {
				t.Fatal(err)
			}
			return w.SpecFile("./a.star", nil)
		}},
		{"an absolute spec file", "not a relative path", func(_ *testing.T, w *bundle.Writer) error { return w.SpecFile("/etc/x.star", nil) }},
		{"a leaf id with a slash", "only letters", func(_ *testing.T, w *bundle.Writer) error {
			_, err := w.Leaf("../aa")
			return err
		}},
		{"events out of order", "follows event 0", func(t *testing.T, w *bundle.Writer) error {
			l, err := w.Leaf("aa")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Abort()
			return l.Event(event.Event{Seq: 2})
		}},
		{"FAIL without a reason", "without a reason", func(t *testing.T, w *bundle.Writer) error {
			return closed(t, w, bundle.Leaf{ID: "aa", Verdict: verdict.Verdict{Outcome: verdict.Fail}})
		}},
		{"PASS with a reason", "PASS with the reason", func(t *testing.T, w *bundle.Writer) error {
			v := verdict.Verdict{Outcome: verdict.Pass, Reasons: []verdict.Reason{{Code: verdict.Timeout}}}
			return closed(t, w, bundle.Leaf{ID: "aa", Verdict: v})
		}},
		{"a verdict of another leaf", `verdict of leaf "bb"`, func(t *testing.T, w *bundle.Writer) error {
			return closed(t, w, bundle.Leaf{ID: "bb", Verdict: pass})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.squall")
			w := start(t, path)
			err := tc.do(t, w)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			w.Abort()
			if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		})
	}
}

// An error on the way must keep Close from succeeding later.
func TestErrorsStick(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.squall")
	w := start(t, path)
	l, err := w.Leaf("aa")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Event(event.Event{Seq: 5}); err == nil {
		t.Fatal("an event out of order was taken")
	}
	l.Abort()
	if err := w.Close(bundle.Manifest{Complete: false}); err == nil {
		t.Error("Close succeeded after an event was lost")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a bundle is there: %v", err)
	}
}

func TestSpecPathsGoRoundAndNeverLeadOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.squall")
	w := start(t, path)
	paths := []string{"shop.star", "lib/a.star", "../common.star", "../../x/y.star", "50%.star", "%up/b.star", "%%.star"}
	for _, p := range paths {
		if err := w.SpecFile(p, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(bundle.Manifest{}); err != nil {
		t.Fatal(err)
	}
	r, err := bundle.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files, err := r.SpecFiles()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		if string(f.Content) != f.Path {
			t.Errorf("%q came back as %q", f.Content, f.Path)
		}
		got = append(got, f.Path)
	}
	slices.Sort(got)
	slices.Sort(paths)
	if !slices.Equal(got, paths) {
		t.Errorf("got %q, want %q", got, paths)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	base, err := r.ExtractSpec(filepath.Join(root, "out"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(filepath.Join(base, p))
		if err != nil || string(b) != p {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	if entries, _ := os.ReadDir(root); len(entries) != 1 {
		t.Errorf("something was written outside: %v", entries)
	}
}

func TestDiff(t *testing.T) {
	a, same := shop(t, bundletest.Options{}), shop(t, bundletest.Options{})
	if d := bundle.Diff(a, same); !d.Equal() || d.Seed || len(d.Spec) != 0 {
		t.Errorf("equal bundles differ: %+v", d)
	}
	d := bundle.Diff(a, shop(t, bundletest.Options{Clean: true}))
	if len(d.Verdicts) != 1 || d.Verdicts[0].ID != bundletest.Failing || d.Verdicts[0].B.Outcome != verdict.Pass {
		t.Errorf("verdict changes %+v", d.Verdicts)
	}
	d = bundle.Diff(a, shop(t, bundletest.Options{Seed: 43}))
	if len(d.Traces) != 12 || !d.Seed || len(d.Verdicts) != 0 {
		t.Errorf("another seed: %d traces, seed %v, %d verdicts", len(d.Traces), d.Seed, len(d.Verdicts))
	}
	path := filepath.Join(t.TempDir(), "run.squall")
	w := start(t, path)
	if err := w.Close(bundle.Manifest{}); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d = bundle.Diff(a, b)
	if len(d.OnlyA) != 12 || len(d.OnlyB) != 2 || !slices.Equal(d.Spec, []string{"shop.star"}) {
		t.Errorf("only a %d, only b %d, spec %v", len(d.OnlyA), len(d.OnlyB), d.Spec)
	}
}
