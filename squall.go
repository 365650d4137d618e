// Package squall puts a system through a storm that it can replay.
//
// Plan says what would be run, Run runs it and leaves a bundle of evidence,
// Replay runs a bundle's leaves again and compares. A suite comes from a
// spec.Loader; internal/starbind has the one for Starlark files. A program that
// calls Run must call World first in its main function: the leaves run in
// processes of the same program.
package squall

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/seed"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Version is the release; builds may set it.
var version = "0.1.0"

// Version returns the release that this is.
func Version() string { return version }

// Options say what to run and how. The zero value runs everything.
type Options struct {
	// Seed governs all chance; nil takes a new one.
	Seed *uint64
	// Tests are globs over "scenario" and "scenario/assumption", or beginnings of leaf IDs.
	Tests []string
	// Shard of Shards, from 1; 0 of 0 runs all.
	Shard, Shards int
	// MaxLeaves refuses larger plans, and leaves out what comes to light beyond it; 0 means no limit for the former
	// and a few thousand for the latter.
	MaxLeaves int
	// Runs is how often each leaf is run, with seeds one apart; 0 means once.
	Runs int
	// exact are the leaves to run, where it is set.
	exact []bundle.PlanLeaf
	// Jobs is how many leaves run at once; 0 means one a CPU.
	Jobs int
	// FailFast stops at the first FAIL.
	FailFast bool
	// Keep copies the files that each leaf's programs wrote into the run's directory.
	Keep bool
	// Timeout replaces each scenario's where it is not 0.
	Timeout time.Duration
	// Shared forces the mode without namespaces.
	Shared bool
	// Dir is where runs are kept; "" means .squall/runs.
	Dir string
	// Observe is called from one goroutine with what happens; nil for nobody.
	Observe func(Progress)
}

// Progress is one thing that happened during a run.
type Progress struct {
	// Plan is set in the first call only.
	Plan *bundle.Plan
	// Added are leaves that have come to light.
	Added []bundle.PlanLeaf
	// Leaf is the leaf concerned, Phase what it is at: load, start, setup, body, stop, and done or pruned.
	Leaf  bundle.PlanLeaf
	Phase string
	// Done is set when Phase is done.
	Done *bundle.Leaf
}

// Result is what came of a run.
type Result struct {
	// Dir is the run's directory, Bundle the evidence in it.
	Dir, Bundle string
	Plan        bundle.Plan
	Verdicts    bundle.Verdicts
	Manifest    bundle.Manifest
}

// Outcome returns the outcome of the whole run.
func (r *Result) Outcome() verdict.Outcome { return r.Manifest.Summary.Outcome }

// Plan returns what a run with the same options would run. It starts nothing.
func Plan(ctx context.Context, l spec.Loader, source string, o Options) (bundle.Plan, error) {
	p, err := makePlan(ctx, l, source, o)
	if err != nil {
		return bundle.Plan{}, err
	}
	record := p.Record()
	record.Coverage = coverage(p)
	return record, nil
}

func makePlan(ctx context.Context, l spec.Loader, source string, o Options) (*plan.Plan, error) {
	s, err := l.Load(ctx, source)
	if err != nil {
		return nil, err
	}
	if len(s.Scenarios) == 0 {
		return nil, fmt.Errorf("squall: %s: %w", source, ErrNoScenario)
	}
	root := seed.New()
	if o.Seed != nil {
		root = seed.Seed(*o.Seed)
	}
	return plan.Make(s, plan.Options{
		Seed: root, Tests: o.Tests, Shard: o.Shard, Shards: o.Shards, MaxLeaves: o.MaxLeaves,
		Runs: o.Runs, Exact: o.exact,
	})
}

// TooManyLeaves is the error of a plan with more leaves than Options.MaxLeaves.
type TooManyLeaves = plan.TooMany

// NoMatch is the error of Options.Tests that choose nothing.
type NoMatch = plan.NoMatch

// apply sets options from the arguments that a bundle recorded.
func (o *Options) apply(args []string) error {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "--timeout":
			d, err := time.ParseDuration(value)
			if err != nil {
				return fmt.Errorf("squall: replay: recorded option %s: %w", arg, err)
			}
			o.Timeout = d
		case "--shared-network":
			o.Shared = true
		default:
			return fmt.Errorf("squall: replay: recorded option %s is not known to this version", arg)
		}
	}
	return nil
}
