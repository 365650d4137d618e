// Package cases rebuilds reported bugs with the libraries they were reported for, pinned. In each
// directory stand a specification and its programs; no code of others is kept here. The test fetches
// what a case needs, runs its specification and wants exactly the findings of its table.
package cases

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

const (
	postgres = "/usr/lib/postgresql/15/bin/postgres"
	// nobody is the user of the pass without privileges; the programs of the cases do not depend on who runs them.
	nobody = 65534
)

// wanted is what a case has to come to.
type wanted struct {
	// needs are programs beside those that its files show a need for.
	needs []string
	// leaves is how many there are.
	leaves int
	// findings are the leaves that do not pass, as scenario/assumption, with code:subject of their only reason of that outcome.
	findings map[string]string
}

func table() map[string]wanted {
	return map[string]wanted{
		"requests-cut-body":        {nil, 4, map[string]string{"affected/cut": "expectation-failed:expectation"}},
		"httpx-drip":               {nil, 4, map[string]string{"affected/drip": "expectation-failed:expectation"}},
		"redis-py-cancelled":       {[]string{"redis-server"}, 4, map[string]string{"affected/late": "expectation-failed:expectation"}},
		"python-short-write":       {nil, 4, map[string]string{"wrong/short_wrong": "expectation-failed:expectation"}},
		"cat-copy-file-range":      {nil, 4, map[string]string{"file/bad_block": "fault-never-fired:bad_block/read"}},
		"sqlalchemy-demoted":       {[]string{postgres}, 2, map[string]string{"affected/none": "expectation-failed:expectation"}},
		"redis-aof-fsync":          {[]string{"redis-server"}, 2, nil},
		"go-post-retry":            {nil, 6, map[string]string{"post/closed": "expectation-failed:expectation"}},
		"go-eintr":                 {nil, 4, map[string]string{"syscall/signals": "expectation-failed:expectation"}},
		"bbolt-fdatasync":          {nil, 4, map[string]string{"nosync/lost_fsync_nosync": "fault-never-fired:fsync_fails_in_nosync/fsync"}},
		"node-redis-half-open":     {[]string{"redis-server", "node"}, 2, map[string]string{"affected/none": "expectation-failed:expectation"}},
		"node-postgres-pool":       {[]string{postgres, "node"}, 2, map[string]string{"affected/none": "expectation-failed:expectation"}},
		"go-http2-dead-connection": {nil, 2, map[string]string{"affected/none": "expectation-failed:expectation"}},
		"python-ragged-eof":        {[]string{"openssl"}, 4, map[string]string{"affected/cut": "expectation-failed:expectation"}},
	}
}

func TestCases(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("fetches packages")
	case os.Geteuid() == nobody:
		t.Skip("run by root, or by you: the programs do not depend on who runs them")
	}
	dirs, err := filepath.Glob("*/case.star")
	if err != nil || len(dirs) != len(table()) {
		t.Errorf("%d cases in directories, %d in the table: %v", len(dirs), len(table()), err)
	}
	for name, want := range table() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runCase(t, name, want)
		})
	}
}

func runCase(t *testing.T, name string, want wanted) {
	for _, program := range want.needs {
		need(t, program)
	}
	dir := prepare(t, name)
	verdicts := filepath.Join(t.TempDir(), "verdicts.json")
	squall, err := filepath.Abs("../../bin/squall")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(squall); err != nil {
		t.Fatalf("%v; first: make build examples", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, squall, "test", "--json", verdicts, "case.star")
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, said)
	}
	text, err := os.ReadFile(verdicts)
	var v bundle.Verdicts
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err == nil {
		err = judge(v, want)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// judge compares what came of a case with what had to come.
func judge(v bundle.Verdicts, want wanted) (wrong error) {
	if len(v.Leaves) != want.leaves {
		wrong = fmt.Errorf("%d leaves, want %d", len(v.Leaves), want.leaves)
	}
	missing := maps.Clone(want.findings)
	for _, l := range v.Leaves {
		cell := l.Scenario + "/" + l.Assumption
		delete(missing, cell)
		if found := finding(l.Verdict); found != want.findings[cell] {
			wrong = errors.Join(wrong, fmt.Errorf("%s comes to %q, want %q", cell, found, want.findings[cell]))
		}
	}
	for cell := range missing {
		wrong = errors.Join(wrong, fmt.Errorf("%s was not run", cell))
	}
	return wrong
}

// finding is code:subject of the reasons that make a verdict what it is, or "" for PASS.
func finding(v verdict.Verdict) string {
	if v.Outcome == verdict.Pass {
		return ""
	}
	var all []string
	for _, r := range v.Reasons {
		if row, ok := verdict.Lookup(r.Code); ok && row.Outcome == v.Outcome {
			all = append(all, fmt.Sprintf("%s:%s", r.Code, r.Subject))
		}
	}
	return strings.Join(all, " ")
}

// prepare copies a case to where things are built and fetches and builds what it needs, unless that is
// there from an earlier run: X.txt are packages of Python for the directory X, package-lock.json those
// of Node, and beside a go.mod is a program in Go.
func prepare(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../../bin/cases", name))
	if err != nil {
		t.Fatal(err)
	}
	hash := copyCase(t, name, dir)
	stamp := filepath.Join(dir, ".prepared")
	if text, err := os.ReadFile(stamp); err == nil && string(text) == hash {
		return dir
	}
	for _, list := range glob(t, dir, "*.txt") {
		target := strings.TrimSuffix(list, ".txt")
		if err := os.RemoveAll(filepath.Join(dir, target)); err != nil {
			t.Fatal(err)
		}
		fetch(t, dir, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-deps", "--only-binary=:all:", "--target", target, "-r", list)
	}
	if len(glob(t, dir, "package-lock.json")) > 0 {
		fetch(t, dir, "npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
	}
	if len(glob(t, dir, "go.mod")) > 0 {
		fetch(t, dir, "go", "build", "-o", "program", ".")
	}
	if err := os.WriteFile(stamp, []byte(hash), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyCase copies a case's files and returns what they hash to.
func copyCase(t *testing.T, from, to string) string {
	t.Helper()
	hash := sha256.New()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s %d\n%s", rel, len(text), text)
		target := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	slices.Sort(paths)
	return paths
}

// fetch runs a client of a registry of packages. Where there is none, the case is left out; CI takes that for a failure.
func fetch(t *testing.T, dir string, argv ...string) {
	t.Helper()
	need(t, argv[0])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs the registry of %s: %v\n%s", argv[0], err, out)
	}
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s, which is not on this machine", program)
	}
}

func TestJudge(t *testing.T) {
	leaf := func(scenario string, o verdict.Outcome, reasons ...verdict.Reason) bundle.Leaf {
		return bundle.Leaf{Scenario: scenario, Assumption: "none", Verdict: verdict.Verdict{Outcome: o, Reasons: reasons}}
	}
	bug := verdict.Reason{Code: verdict.ExpectationFailed, Subject: "expectation"}
	other := verdict.Reason{Code: verdict.BodyFailed, Subject: "body"}
	never := verdict.Reason{Code: verdict.FaultNeverFired}
	want := wanted{nil, 2, map[string]string{"affected/none": "expectation-failed:expectation"}}
	fine := leaf("right", verdict.Pass)
	for name, c := range map[string]struct {
		leaves []bundle.Leaf
		ok     bool
	}{
		"as wanted":         {[]bundle.Leaf{leaf("affected", verdict.Fail, bug), fine}, true},
		"not found":         {[]bundle.Leaf{leaf("affected", verdict.Pass), fine}, false},
		"found too much":    {[]bundle.Leaf{leaf("affected", verdict.Fail, bug), leaf("right", verdict.Fail, bug)}, false},
		"another reason":    {[]bundle.Leaf{leaf("affected", verdict.Fail, other), fine}, false},
		"one more reason":   {[]bundle.Leaf{leaf("affected", verdict.Fail, bug, other), fine}, false},
		"nothing was known": {[]bundle.Leaf{leaf("affected", verdict.Inconclusive, never), fine}, false},
		"a leaf less":       {[]bundle.Leaf{leaf("affected", verdict.Fail, bug)}, false},
		"another leaf":      {[]bundle.Leaf{leaf("new", verdict.Pass), fine}, false},
	} {
		if err := judge(bundle.Verdicts{Leaves: c.leaves}, want); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
