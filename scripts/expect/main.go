// Command expect runs a specification and succeeds only if exactly the given findings come of it.
//
// Usage: expect SQUALL SPEC [SCENARIO/ASSUMPTION=CODE:SUBJECT]...
//
// Each finding is a FAIL with exactly one failing reason, of that code and about
// that subject. Every other leaf must be a PASS.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

// findings are what is expected, by scenario/assumption: the reason as code:subject.
type findings map[string]string

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: expect SQUALL SPEC [SCENARIO/ASSUMPTION=CODE:SUBJECT]...")
		os.Exit(2)
	}
	want := findings{}
	for _, arg := range os.Args[3:] {
		cell, reason, _ := strings.Cut(arg, "=")
		want[cell] = reason
	}
	if err := run(os.Args[1], os.Args[2], want); err != nil {
		fmt.Fprintln(os.Stderr, "expect:", err)
		os.Exit(1)
	}
	for _, cell := range slices.Sorted(maps.Keys(want)) {
		fmt.Printf("\nfound as expected: %s, %s\n", strings.Replace(cell, "/", " x ", 1), want[cell])
	}
}

func run(squall, spec string, want findings) error {
	dir, err := os.MkdirTemp("", "squall-expect-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	verdicts := filepath.Join(dir, "verdicts.json")
	cmd := exec.Command(squall, "test", "--json", verdicts, spec)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return err
	}
	expected := verdict.Pass
	if len(want) > 0 {
		expected = verdict.Fail
	}
	text, err := os.ReadFile(verdicts)
	if err != nil {
		return err
	}
	err = judge(text, want)
	if code := cmd.ProcessState.ExitCode(); code != expected.ExitCode() {
		err = errors.Join(err, fmt.Errorf("squall test exited %d, want %d", code, expected.ExitCode()))
	}
	return err
}

// judge compares verdicts with the findings.
func judge(text []byte, want findings) error {
	var v bundle.Verdicts
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("verdicts: %w", err)
	}
	if len(v.Leaves) == 0 {
		return errors.New("nothing was run")
	}
	missing := maps.Clone(want)
	var wrong error
	for _, l := range v.Leaves {
		cell := l.Scenario + "/" + l.Assumption
		delete(missing, cell)
		wrong = errors.Join(wrong, judgeLeaf(cell, l.Verdict, want[cell]))
	}
	for cell := range missing {
		wrong = errors.Join(wrong, fmt.Errorf("%s was not run", cell))
	}
	return wrong
}

// judgeLeaf wants a PASS where reason is "", else a FAIL for that reason alone. Reasons that leave
// things open may stand beside it: what is cut short by a finding stays undecided.
func judgeLeaf(cell string, v verdict.Verdict, reason string) error {
	outcome := verdict.Pass
	if reason != "" {
		outcome = verdict.Fail
	}
	if v.Outcome != outcome {
		return fmt.Errorf("%s is %s, want %s: %v", cell, v.Outcome, outcome, v.Reasons)
	}
	if reason == "" {
		return nil
	}
	var failing []string
	for _, r := range v.Reasons {
		if row, ok := verdict.Lookup(r.Code); ok && row.Outcome == verdict.Fail {
			failing = append(failing, fmt.Sprintf("%s:%s", r.Code, r.Subject))
			if r.Witness == 0 {
				return fmt.Errorf("%s: %s has no witness", cell, r)
			}
		}
	}
	if len(failing) != 1 || failing[0] != reason {
		return fmt.Errorf("%s fails for %v, want %s and nothing else", cell, failing, reason)
	}
	return nil
}
