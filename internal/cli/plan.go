package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/report"
)

type planCmd struct {
	Spec string `arg:"" help:"The specification, a .star file."`
	planFlags
	Format   string `help:"text, json or dot." enum:"text,json,dot" default:"text" placeholder:"FORMAT"`
	JSON     bool   `name:"json" help:"The same as --format json."`
	Coverage bool   `help:"Show which links, services and classes of faults no leaf tries."`
	Suggest  bool   `help:"Print lines for the specification that try them, and nothing else."`
	Dir      string `help:"Where runs are kept, from which the time is estimated." default:".squall/runs" placeholder:"DIR"`
}

// Run implements the command.
func (c *planCmd) Run(e *env) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	p, err := squall.Plan(e.ctx, e.loader, c.Spec, o)
	if err != nil {
		return err
	}
	switch {
	case c.Suggest:
		fmt.Fprint(e.stdout, squall.Suggest(p))
	case c.JSON || c.Format == "json":
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	case c.Format == "dot":
		printDot(e.stdout, p)
	case c.Coverage:
		printCoverage(e.stdout, p)
	default:
		printPlan(e.stdout, c.Spec, p)
		fmt.Fprintln(e.stdout)
		printCost(e.stdout, p, c.Dir)
	}
	return nil
}

func printPlan(w io.Writer, source string, p bundle.Plan) {
	fmt.Fprintln(w, heading(source, p))
	fmt.Fprintln(w, "\nservices")
	for _, s := range p.Services {
		line := "  " + s.Name + " (" + s.Binary + ")"
		for _, i := range s.Interfaces {
			at := fmt.Sprint(i.Port)
			if i.Path != "" {
				at = i.Path
			}
			line += fmt.Sprintf("  %s %s:%s", i.Name, i.Protocol, at)
		}
		fmt.Fprintln(w, line)
	}
	if len(p.Assumptions) > 0 {
		fmt.Fprintln(w, "\nassumptions")
		for _, a := range p.Assumptions {
			fmt.Fprintln(w, "  "+a.Name)
			for _, effect := range a.Effects {
				fmt.Fprintln(w, "    "+effect)
			}
		}
	}
	printChoices(w, p)
	fmt.Fprintln(w, "\nleaves")
	for _, l := range p.Leaves {
		if l.Cell == "" {
			fmt.Fprintf(w, "  %s  %s x %s\n", l.ID, l.Scenario, l.Assumption)
			continue
		}
		more := choicesText(l.Choices)
		if l.Run > 0 {
			more += fmt.Sprintf("  run %d", l.Run+1)
		}
		fmt.Fprintf(w, "    %s%s\n", l.ID, more)
	}
	printUntried(w, p)
}

// printChoices lists what gives more than one leaf to a cell.
func printChoices(w io.Writer, p bundle.Plan) {
	titled := false
	for _, s := range p.Scenarios {
		for _, c := range s.Choices {
			if !titled {
				fmt.Fprintln(w, "\nchoices")
				titled = true
			}
			options := "found in the running"
			if len(c.Options) > 0 {
				options = strings.Join(c.Options, " | ")
			}
			if !c.Sure && len(c.Options) > 0 {
				options += ", where it is come to"
			}
			fmt.Fprintf(w, "  %s: %s: %s  %s\n", s.Name, report.Printable(c.Name), report.Printable(options), report.Printable(c.Position))
		}
	}
}

// printCost says what the plan costs, as far as an earlier run tells.
func printCost(w io.Writer, p bundle.Plan, dir string) {
	took := lastTimes(dir, p.Source)
	if len(took) == 0 {
		fmt.Fprintf(w, "cost: %s; how long one takes is known once it was run\n", planned(p))
		return
	}
	var all, total time.Duration
	for _, d := range took {
		all += d
	}
	mean := all / time.Duration(len(took))
	for _, l := range p.Leaves {
		d, known := took[cmp.Or(l.Cell, l.ID)]
		if !known {
			d = mean
		}
		total += d
	}
	jobs := time.Duration(runtime.NumCPU())
	fmt.Fprintf(w, "cost: %s, about %s with %s at once, by the latest run\n", planned(p), (total / jobs).Round(10*time.Millisecond), leafCount(int(jobs)))
}

// lastTimes returns how long the leaves of each cell took in the latest run of a specification of that name.
func lastTimes(dir, source string) map[string]time.Duration {
	entries, _ := os.ReadDir(dir)
	for _, e := range slices.Backward(entries) {
		b, err := bundle.Open(filepath.Join(dir, e.Name(), squall.BundleName))
		if err != nil || b.Manifest().Source != source {
			if err == nil {
				b.Close()
			}
			continue
		}
		defer b.Close()
		cells, out, n := map[string]string{}, map[string]time.Duration{}, map[string]time.Duration{}
		for _, l := range b.Plan().Leaves {
			cells[l.ID] = cmp.Or(l.Cell, l.ID)
		}
		for _, l := range b.Verdicts().Leaves {
			out[cells[l.ID]] += l.Duration
			n[cells[l.ID]]++
		}
		for cell := range out {
			out[cell] /= n[cell]
		}
		return out
	}
	return nil
}

// printDot writes the tree of the plan for Graphviz.
func printDot(w io.Writer, p bundle.Plan) {
	fmt.Fprintf(w, "digraph plan {\n  rankdir = LR;\n  node [shape = box];\n")
	cells := map[string]bool{}
	for _, l := range p.Leaves {
		cell := l.Scenario + "/" + l.Assumption
		if !cells[cell] {
			cells[cell] = true
			fmt.Fprintf(w, "  %s -> %s;\n", dotName(l.Scenario), dotName(cell))
		}
		label := strings.TrimSpace(l.ID + choicesText(l.Choices))
		if l.Run > 0 {
			label += fmt.Sprintf(" run %d", l.Run+1)
		}
		fmt.Fprintf(w, "  %s -> %s;\n  %s [label = %s];\n", dotName(cell), dotName(l.ID), dotName(l.ID), dotName(label))
	}
	if p.Open {
		fmt.Fprintln(w, "  more [label = \"more come to light in the running\", style = dashed];")
	}
	fmt.Fprintln(w, "}")
}

// dotName quotes a name as Graphviz wants it.
func dotName(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(report.Printable(s)) + `"`
}

// printCoverage lists what can go wrong, and how many leaves try it.
func printCoverage(w io.Writer, p bundle.Plan) {
	untried := 0
	for _, c := range p.Coverage {
		what := c.Service
		if c.From != "" {
			what = c.From + " -> " + c.Service + "." + c.Interface
		}
		tried := leafCount(c.Leaves)
		if c.Leaves == 0 {
			tried = "untried"
			untried++
		}
		fmt.Fprintf(w, "  %-12s %-30s %s\n", c.Class, what, tried)
	}
	fmt.Fprintf(w, "%d of %d tried", len(p.Coverage)-untried, len(p.Coverage))
	if untried > 0 {
		fmt.Fprint(w, "; squall plan --suggest prints lines that try the others")
	}
	fmt.Fprintln(w)
}

func printUntried(w io.Writer, p bundle.Plan) {
	if note := report.UntriedNote(p); note != "" {
		fmt.Fprintln(w, note)
	}
}

type checkCmd struct {
	Spec string `arg:"" help:"The specification, a .star file."`
	planFlags
}

// Run implements the command.
func (c *checkCmd) Run(e *env) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	p, err := squall.Plan(e.ctx, e.loader, c.Spec, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "ok: %s, %s, %s\n", plural(len(p.Services), "service"),
		plural(len(p.Scenarios), "scenario"), planned(p))
	printUntried(e.stdout, p)
	return nil
}
