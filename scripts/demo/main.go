// Command demo runs the buggy shop and succeeds only if exactly the seeded bug is found.
//
// Usage: demo SQUALL SPEC
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

// The finding that the demonstration is about.
const (
	scenario   = "create_order"
	assumption = "disk_full"
	monitor    = "confirmed_means_persisted"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: demo SQUALL SPEC")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	fmt.Printf("\nThe seeded bug was found, and nothing else: %s x %s, %s.\n", scenario, assumption, monitor)
}

func run(squall, spec string) error {
	dir, err := os.MkdirTemp("", "squall-demo-")
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
	if code := cmd.ProcessState.ExitCode(); code != verdict.Fail.ExitCode() {
		return fmt.Errorf("squall test exited %d, want %d", code, verdict.Fail.ExitCode())
	}
	text, err := os.ReadFile(verdicts)
	if err != nil {
		return err
	}
	return judge(text)
}

// judge wants one FAIL, the seeded one, and PASS everywhere else.
func judge(text []byte) error {
	var v bundle.Verdicts
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("verdicts: %w", err)
	}
	var wrong error
	found := false
	for _, l := range v.Leaves {
		want := verdict.Pass
		if l.Scenario == scenario && l.Assumption == assumption {
			found, want = true, verdict.Fail
		}
		if l.Verdict.Outcome != want {
			wrong = errors.Join(wrong, fmt.Errorf("%s x %s is %s, want %s: %v",
				l.Scenario, l.Assumption, l.Verdict.Outcome, want, l.Verdict.Reasons))
		} else if want == verdict.Fail {
			wrong = errors.Join(wrong, judgeReasons(l.Verdict.Reasons))
		}
	}
	if !found {
		wrong = errors.Join(wrong, fmt.Errorf("%s x %s was not run", scenario, assumption))
	}
	return wrong
}

func judgeReasons(reasons []verdict.Reason) error {
	if len(reasons) != 1 || reasons[0].Code != verdict.MonitorViolated || reasons[0].Subject != monitor || reasons[0].Witness == 0 {
		return fmt.Errorf("the finding's reasons are %v, want %s of %s with a witness, and nothing else",
			reasons, verdict.MonitorViolated, monitor)
	}
	return nil
}
