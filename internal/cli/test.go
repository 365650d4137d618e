package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/report"
)

// planFlags choose what is run; test, plan and check share them.
type planFlags struct {
	Test      []string `help:"Run only what matches: a scenario, scenario/assumption or a leaf's ID; globs; may be repeated." placeholder:"GLOB"`
	Seed      string   `help:"The seed that governs all chance; a new one if not given." placeholder:"N"`
	Shard     string   `help:"Run the i-th of n equal parts." placeholder:"I/N"`
	MaxLeaves int      `help:"Refuse a plan with more leaves, and leave out those beyond it that come to light in the running: such a run is INCONCLUSIVE." placeholder:"N" aliases:"max-instances"`
	Runs      int      `help:"Run each leaf N times, with seeds one apart, and say what varied." placeholder:"N" default:"1"`
}

func (f planFlags) options() (squall.Options, error) {
	o := squall.Options{Tests: f.Test, MaxLeaves: f.MaxLeaves, Runs: f.Runs}
	if f.Seed != "" {
		n, err := strconv.ParseUint(f.Seed, 10, 64)
		if err != nil {
			return o, fmt.Errorf("squall: --seed=%s: a number from 0 to 18446744073709551615 is needed", f.Seed)
		}
		o.Seed = &n
	}
	if f.Shard != "" {
		if _, err := fmt.Sscanf(f.Shard, "%d/%d", &o.Shard, &o.Shards); err != nil || o.Shard < 1 || o.Shard > o.Shards ||
			f.Shard != fmt.Sprintf("%d/%d", o.Shard, o.Shards) {
			return o, fmt.Errorf("squall: --shard=%s: write i/n with 1 <= i <= n, such as 2/4", f.Shard)
		}
	}
	if o.MaxLeaves < 0 {
		return o, fmt.Errorf("squall: --max-leaves=%d: a positive number is needed", o.MaxLeaves)
	}
	if o.Runs < 1 || o.Runs > 10000 {
		return o, fmt.Errorf("squall: --runs=%d: a number from 1 to 10000 is needed", o.Runs)
	}
	return o, nil
}

type testCmd struct {
	Spec string `arg:"" help:"The specification, a .star file."`
	planFlags
	Jobs           int           `short:"j" help:"How many leaves run at once; one a CPU if not given." placeholder:"N"`
	FailFast       bool          `help:"Stop at the first FAIL."`
	Keep           bool          `help:"Keep the files that each leaf's programs wrote, in the run's directory."`
	Timeout        time.Duration `help:"Time for each scenario's body, instead of its own." placeholder:"DURATION"`
	Junit          string        `help:"Write JUnit XML." placeholder:"FILE"`
	JSON           string        `name:"json" help:"Write the verdicts as JSON; - writes them to standard output and nothing else." placeholder:"FILE"`
	Dir            string        `help:"Where runs are kept." default:".squall/runs" placeholder:"DIR"`
	StrictWarnings bool          `help:"Exit with 2 where every leaf passes and one has a warning."`
	SharedNetwork  bool          `help:"Use no namespaces: one leaf at a time on this machine's network and files."`
}

// Run implements the command.
func (c *testCmd) Run(e *env) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	o.Jobs, o.FailFast, o.Keep, o.Timeout, o.Dir, o.Shared = c.Jobs, c.FailFast, c.Keep, c.Timeout, c.Dir, c.SharedNetwork
	out, style := e.stdout, e.style
	if c.JSON == "-" {
		out, style = e.stderr, e.errStyle
	}
	v := newLive(out, e.stderr, style, c.Spec)
	v.cost = func(w io.Writer, p bundle.Plan) { printCost(w, p, c.Dir) }
	o.Observe = v.observe
	result, err := squall.Run(e.ctx, e.loader, c.Spec, o)
	v.stop()
	if err != nil {
		return err
	}
	// A file that can't be written must not hide what came of the run.
	unwritten := c.write(e, result)
	if err := errors.Join(summary(out, style, result), unwritten); err != nil {
		return err
	}
	code := result.Outcome().ExitCode()
	if warned := warnedLeaves(result.Verdicts); code == 0 && c.StrictWarnings && warned > 0 {
		fmt.Fprintf(e.stderr, "squall: %d of %d leaves passed with a warning, and --strict-warnings takes none\n", warned, len(result.Verdicts.Leaves))
		code = 2
	}
	return exit(code)
}

func warnedLeaves(v bundle.Verdicts) int {
	n := 0
	for _, leaf := range v.Leaves {
		if len(leaf.Verdict.Warnings) > 0 {
			n++
		}
	}
	return n
}

// write makes the files beside the bundle.
func (c *testCmd) write(e *env, r *squall.Result) error {
	if err := writeReport(r.Bundle, reportPath(r), e.stdout); err != nil {
		return err
	}
	if c.Junit != "" {
		if err := toFile(c.Junit, e.stdout, func(w io.Writer) error {
			return report.JUnit(w, r.Manifest, r.Verdicts)
		}); err != nil {
			return err
		}
	}
	if c.JSON != "" {
		return toFile(c.JSON, e.stdout, func(w io.Writer) error { return report.JSON(w, r.Verdicts) })
	}
	return nil
}

// toFile writes a file whole or not at all; "-" is standard output. What is there and is no plain file, such as
// /dev/stdout or a pipe, is written to and stays what it is.
func toFile(path string, stdout io.Writer, write func(io.Writer) error) error {
	if path == "-" {
		return write(stdout)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("squall: write: %w", err)
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return &unwritten{path, errors.Unwrap(err)}
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return &unwritten{path, err}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("squall: write: %w", err)
	}
	return nil
}

// unwritten is the error of a file that could not be written.
type unwritten struct {
	path  string
	cause error
}

func (e *unwritten) Error() string { return fmt.Sprintf("squall: write %s: %v", e.path, e.cause) }

func (e *unwritten) Unwrap() error { return e.cause }
