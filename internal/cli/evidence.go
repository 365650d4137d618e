package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/report"
	"github.com/squallhq/squall/verdict"
)

type replayCmd struct {
	Bundle  string   `arg:"" help:"A bundle, a .squall file."`
	Leaf    []string `help:"The leaves to run, by the beginnings of their IDs; those that are not PASS if not given." placeholder:"ID"`
	All     bool     `help:"Run every leaf."`
	SpecDir string   `help:"Where the programs that the specification names are, if not where they were." placeholder:"DIR"`
}

// Run implements the command.
func (c *replayCmd) Run(e *env) error {
	result, err := squall.Replay(e.ctx, e.loader, bundlePath(c.Bundle), squall.ReplayOptions{Leaves: c.Leaf, All: c.All, SpecDir: c.SpecDir})
	if err != nil {
		return err
	}
	outcomes := make([]verdict.Outcome, 0, len(result.Leaves))
	diverged := false
	for _, w := range result.Warnings {
		fmt.Fprintf(e.stdout, "%s %s\n", e.style.yellow("warning:"), report.Printable(w))
	}
	for _, l := range result.Leaves {
		outcomes = append(outcomes, l.Got.Verdict.Outcome)
		diverged = diverged || l.Divergence != ""
		printReplayed(e.stdout, e.style, l)
	}
	if diverged {
		return exit(2)
	}
	return exit(verdict.Worst(outcomes...).ExitCode())
}

func printReplayed(w io.Writer, s style, l squall.ReplayedLeaf) {
	got := l.Got.Verdict
	fmt.Fprintf(w, "%s  %s\n", leafName(l.Recorded.ID, l.Recorded.Scenario, l.Recorded.Assumption), s.outcome(got.Outcome))
	for _, r := range got.Reasons {
		fmt.Fprintf(w, "      %s\n", report.Printable(r.String()))
	}
	if l.Divergence == "" {
		fmt.Fprintf(w, "      same as recorded: verdict, decisions and trace %.12s\n", l.Recorded.Trace)
		return
	}
	fmt.Fprintf(w, "      %s\n", s.red("DIVERGED from the recording (it was "+string(l.Recorded.Verdict.Outcome)+")"))
	for line := range strings.Lines(l.Divergence) {
		fmt.Fprintf(w, "        %s\n", report.Printable(strings.TrimRight(line, "\n")))
	}
}

func (s style) outcome(o verdict.Outcome) string {
	switch o {
	case verdict.Pass:
		return s.green(string(o))
	case verdict.Fail:
		return s.red(string(o))
	}
	return s.yellow(string(o))
}

type reportCmd struct {
	Bundle string `arg:"" help:"A bundle, a .squall file."`
	Output string `short:"o" help:"Where to write it; report.html beside the bundle if not given." placeholder:"FILE"`
}

// Run implements the command.
func (c *reportCmd) Run(e *env) error {
	c.Bundle = bundlePath(c.Bundle)
	out := c.Output
	if out == "" {
		out = filepath.Join(filepath.Dir(c.Bundle), "report.html")
	}
	if err := writeReport(c.Bundle, out, e.stdout); err != nil || out == "-" {
		return err
	}
	fmt.Fprintln(e.stdout, out)
	return nil
}

func reportPath(r *squall.Result) string { return filepath.Join(r.Dir, "report.html") }

// writeReport makes the HTML report of a bundle, whole or not at all.
func writeReport(from, to string, stdout io.Writer) error {
	r, err := bundle.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	return toFile(to, stdout, func(w io.Writer) error { return report.HTML(w, r) })
}

type diffCmd struct {
	A string `arg:"" help:"A bundle."`
	B string `arg:"" help:"Another one."`
}

// Run implements the command.
func (c *diffCmd) Run(e *env) error {
	a, err := bundle.Open(bundlePath(c.A))
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := bundle.Open(bundlePath(c.B))
	if err != nil {
		return err
	}
	defer b.Close()
	d := bundle.Diff(a, b)
	printDifference(e.stdout, d)
	switch {
	case !d.Equal():
		return exit(1)
	case len(a.Verdicts().Leaves) == 0:
		return errors.New("squall: nothing to compare: neither bundle has a leaf")
	}
	fmt.Fprintln(e.stdout, "equal: the same leaves, verdicts and traces")
	return nil
}

// summary prints what came of a run.
func summary(w io.Writer, s style, r *squall.Result) error {
	b, err := bundle.Open(r.Bundle)
	if err != nil {
		return err
	}
	defer b.Close()
	look := report.Style{Width: s.width}
	if s.colour {
		look = report.Colour(s.width)
	}
	// What came to light and was not run is said by itself, below.
	complete := b.Manifest().Complete || b.Plan().Unexplored > 0 && !interrupted(b.Verdicts())
	if err := (report.Text{
		Plan: b.Plan(), Verdicts: b.Verdicts(), Summary: b.Manifest().Summary, Events: b,
		Bundle: r.Bundle, Report: reportPath(r), Complete: complete,
	}).Write(w, look); err != nil {
		return err
	}
	explored(w, b)
	return nil
}

func interrupted(v bundle.Verdicts) bool {
	return slices.ContainsFunc(v.Leaves, func(l bundle.Leaf) bool {
		return len(l.Verdict.Reasons) > 0 && l.Verdict.Reasons[0].Code == verdict.Interrupted
	})
}

// explored says what the search for leaves has left out, and what several runs of the same leaves differ in.
func explored(w io.Writer, b *bundle.Reader) {
	p := b.Plan()
	if n := p.Unexplored; n > 0 {
		fmt.Fprintf(w, "INCONCLUSIVE: %s came to light and were not run; raise --max-leaves, or rule some out with assume()\n", leafCount(n))
	}
	if len(p.Pruned) > 0 {
		fmt.Fprintf(w, "%s ruled out, or the same as another:\n", leafCount(len(p.Pruned)))
		for i, l := range p.Pruned {
			if i == 5 {
				fmt.Fprintf(w, "  and %d more, in the bundle's plan\n", len(p.Pruned)-i)
				break
			}
			fmt.Fprintf(w, "  %s  %s\n", leafName(l.ID, l.Scenario, l.Assumption)+choicesText(l.Choices), report.Printable(l.Why))
		}
	}
	for i, v := range squall.Varied(p, b.Verdicts(), b.Replay().Decisions) {
		if i == 0 {
			fmt.Fprintln(w, "\nruns")
		}
		fmt.Fprintf(w, "  %s  %s\n", leafName(v.Leaf.ID, v.Leaf.Scenario, v.Leaf.Assumption)+choicesText(v.Leaf.Choices), v)
	}
}

// choicesText writes the choices of a leaf behind its name.
func choicesText(list []bundle.ChoiceRecord) string {
	var parts []string
	for _, c := range list {
		option := c.Option
		if option == "" {
			option = fmt.Sprint(c.Index)
		}
		parts = append(parts, report.Printable(c.Name+" = "+option))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  " + strings.Join(parts, ", ")
}

// leafName names a leaf in a line of output.
func leafName(id, scenario, assumption string) string {
	return report.Printable(fmt.Sprintf("%s  %s x %s", id, scenario, assumption))
}

// bundlePath is the bundle that a path means: a run's directory stands for the bundle in it.
func bundlePath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if in := filepath.Join(path, squall.BundleName); exists(in) {
			return in
		}
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func printDifference(w io.Writer, d bundle.Difference) {
	if d.Seed {
		fmt.Fprintln(w, "the seeds differ")
	}
	for _, f := range d.Spec {
		fmt.Fprintf(w, "the specification differs: %s\n", report.Printable(f))
	}
	for _, c := range d.Verdicts {
		fmt.Fprintf(w, "%s: %s -> %s\n", leafName(c.ID, c.Scenario, c.Assumption), reasonLine(c.A), reasonLine(c.B))
	}
	for _, l := range d.OnlyA {
		fmt.Fprintf(w, "%s: only in the first\n", leafName(l.ID, l.Scenario, l.Assumption))
	}
	for _, l := range d.OnlyB {
		fmt.Fprintf(w, "%s: only in the second\n", leafName(l.ID, l.Scenario, l.Assumption))
	}
	for _, t := range d.Traces {
		fmt.Fprintf(w, "%s: the same verdict, another trace (%d and %d events)\n", leafName(t.ID, t.Scenario, t.Assumption), t.EventsA, t.EventsB)
	}
}

func reasonLine(v verdict.Verdict) string {
	if len(v.Reasons) == 0 {
		return string(v.Outcome)
	}
	return report.Printable(fmt.Sprintf("%s (%s)", v.Outcome, v.Reasons[0].Code))
}
