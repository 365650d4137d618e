package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/report"
)

type planCmd struct {
	Spec string `arg:"" help:"The specification, a .star file."`
	planFlags
	JSON bool `name:"json" help:"Print the plan as JSON."`
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
	if c.JSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	}
	printPlan(e.stdout, c.Spec, p)
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
	fmt.Fprintln(w, "\nleaves")
	for _, l := range p.Leaves {
		fmt.Fprintf(w, "  %s  %s x %s\n", l.ID, l.Scenario, l.Assumption)
	}
	printUntried(w, p)
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
		plural(len(p.Scenarios), "scenario"), leafCount(len(p.Leaves)))
	printUntried(e.stdout, p)
	return nil
}
