package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/report"
)

type inspectCmd struct {
	Bundle string   `arg:"" help:"A bundle, a .squall file."`
	Query  []string `arg:"" optional:"" help:"Events to print, by terms that must all hold: kind=syscall service=db path=/data/* status>=500 at>1.5s."`
	Leaf   string   `help:"One leaf, by the beginning of its ID." placeholder:"ID"`
	Events bool     `help:"Print all events."`
	Story  bool     `help:"Print the events that explain the verdict."`
	Log    string   `help:"Print what a service printed." placeholder:"SERVICE"`
	Spec   string   `help:"Print a file of the specification as it was run." placeholder:"FILE"`
	Limit  int      `help:"Print so many events at most; 0 is all." default:"0"`
	JSON   bool     `name:"json" help:"Print JSON: an event a line, or the verdicts."`
}

// Run implements the command.
func (c *inspectCmd) Run(e *env) error {
	r, err := bundle.Open(bundlePath(c.Bundle))
	if err != nil {
		return err
	}
	defer r.Close()
	leaves, err := chosenLeaves(r, c.Leaf)
	if err != nil {
		return err
	}
	switch {
	case c.Spec != "":
		return printSpecFile(e.stdout, r, c.Spec)
	case c.Log != "":
		return printLogs(e.stdout, r, leaves, c.Log)
	case c.Events || c.Story || len(c.Query) > 0:
		return c.events(e, r, leaves)
	case c.JSON:
		return report.JSON(e.stdout, bundle.Verdicts{Schema: bundle.VerdictsSchema, Leaves: leaves})
	case c.Leaf != "":
		printLeaf(e.stdout, e.style, r, leaves[0])
		return nil
	}
	return printOverview(e.stdout, e.style, r)
}

func chosenLeaves(r *bundle.Reader, id string) ([]bundle.Leaf, error) {
	if id == "" {
		return r.Verdicts().Leaves, nil
	}
	l, err := squall.FindLeaf(r, id)
	return []bundle.Leaf{l}, err
}

// noneSuch is the error for a part that a bundle does not have; there is what it has.
type noneSuch struct {
	what, name string
	there      []string
}

func (e *noneSuch) Error() string {
	return fmt.Sprintf("squall: the bundle has no %s %q", e.what, e.name)
}

func (c *inspectCmd) events(e *env, r *bundle.Reader, leaves []bundle.Leaf) error {
	q, err := bundle.ParseQuery(c.Query)
	if err != nil {
		return err
	}
	out := eventPrinter{w: e.stdout, style: e.style, json: c.JSON, limit: c.Limit}
	var missing []string
	for i, l := range leaves {
		events, err := r.Events(l.ID)
		if err != nil {
			return err
		}
		// A field may be in the events of one leaf only.
		if u := q.Unknown(events); i == 0 {
			missing = u
		} else {
			missing = slices.DeleteFunc(missing, func(f string) bool { return !slices.Contains(u, f) })
		}
		if c.Story {
			events = report.Story(l, events)
		}
		out.leaf(l, slices.DeleteFunc(events, func(e event.Event) bool { return !q.Match(e) }))
	}
	if out.err != nil {
		return out.err
	}
	if len(missing) > 0 {
		return &noneSuch{what: "event with a field", name: strings.Join(missing, ", "), there: fieldNames(r, leaves)}
	}
	if out.left > 0 && !c.JSON {
		fmt.Fprintf(e.stdout, "%s\n", e.style.dim(fmt.Sprintf("%d more; raise --limit", out.left)))
	}
	return nil
}

// fieldNames lists what a query can ask for.
func fieldNames(r *bundle.Reader, leaves []bundle.Leaf) []string {
	names := []string{"kind", "service", "seq", "at"}
	for _, l := range leaves {
		events, err := r.Events(l.ID)
		if err != nil {
			continue
		}
		for _, e := range events {
			names = slices.AppendSeq(names, maps.Keys(e.Fields))
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// eventPrinter prints events of several leaves, so many at most.
type eventPrinter struct {
	w             io.Writer
	style         style
	json          bool
	limit         int
	printed, left int
	err           error
}

func (p *eventPrinter) leaf(l bundle.Leaf, events []event.Event) {
	if len(events) > 0 && !p.json {
		fmt.Fprintf(p.w, "%s  %s\n", leafName(l.ID, l.Scenario, l.Assumption), p.style.outcome(l.Verdict.Outcome))
	}
	lanes := 0
	for _, e := range events {
		lanes = max(lanes, len(e.Service))
	}
	for _, e := range events {
		if p.limit > 0 && p.printed == p.limit {
			p.left++
			continue
		}
		p.printed++
		if p.json {
			p.line(l.ID, e)
			continue
		}
		verb, what := report.Describe(e)
		fmt.Fprintf(p.w, "  %6d %9s  %-*s  %-11s %s\n", e.Seq, e.At.Round(100*time.Microsecond), lanes, report.Printable(e.Service), report.Printable(verb), report.Printable(what))
	}
}

// line prints an event as JSON, with the leaf that it belongs to.
func (p *eventPrinter) line(leaf string, e event.Event) {
	text, err := json.Marshal(struct {
		Leaf string `json:"leaf"`
		event.Event
	}{leaf, e})
	if err == nil {
		_, err = fmt.Fprintf(p.w, "%s\n", text)
	}
	if p.err == nil {
		p.err = err
	}
}

func printOverview(w io.Writer, s style, r *bundle.Reader) error {
	m := r.Manifest()
	fmt.Fprintf(w, "%s  seed %d, %s, written %s by %s\n", report.Printable(m.Source), m.Seed,
		leafCount(len(r.Verdicts().Leaves)), m.CreatedAt.Format(time.RFC3339), report.Printable(m.Tool))
	if !m.Complete {
		fmt.Fprintln(w, s.yellow("the run was stopped before its end"))
	}
	for _, l := range r.Verdicts().Leaves {
		fmt.Fprintf(w, "  %s  %s  %d events, %s\n", leafName(l.ID, l.Scenario, l.Assumption),
			s.outcome(l.Verdict.Outcome), l.Events, l.Duration.Round(time.Millisecond))
		for _, reason := range l.Verdict.Reasons {
			fmt.Fprintf(w, "            %s\n", report.Printable(reason.String()))
		}
	}
	files, err := r.SpecFiles()
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "\nfiles of the specification")
	for _, f := range files {
		fmt.Fprintf(w, "  %s, %d bytes\n", f.Path, len(f.Content))
	}
	return nil
}

func printLeaf(w io.Writer, s style, r *bundle.Reader, l bundle.Leaf) {
	fmt.Fprintf(w, "%s  %s\n", leafName(l.ID, l.Scenario, l.Assumption), s.outcome(l.Verdict.Outcome))
	for _, reason := range l.Verdict.Reasons {
		fmt.Fprintf(w, "  %s\n", report.Printable(reason.String()))
	}
	if l.Result != "" && l.Result != "<nil>" {
		fmt.Fprintf(w, "result: %s\n", report.Printable(l.Result))
	}
	fmt.Fprintf(w, "seed %d, %d events, trace %.12s", l.Seed, l.Events, report.Printable(l.Trace))
	for _, phase := range []string{"start", "body", "stop"} {
		if d, ok := l.Phases[phase]; ok {
			fmt.Fprintf(w, ", %s %s", phase, d.Round(100*time.Microsecond))
		}
	}
	fmt.Fprintln(w)
	for _, c := range l.Choices {
		fmt.Fprintf(w, "choice    %s = %d of %d\n", report.Printable(c.Name), c.Index, c.Of)
	}
	for _, rule := range l.Rules {
		what := report.Printable(fmt.Sprintf("%s on %s: %s, acted %s", rule.ID, rule.Target, rule.Effect, plural(rule.Fired, "time")))
		fmt.Fprintf(w, "fault     %s  %s\n", what, s.dim(report.Printable(rule.Position)))
	}
	for _, p := range l.Properties {
		what := report.Printable(fmt.Sprintf("%s (%s): %s %s", p.Name, p.Kind, p.Result, p.Message))
		fmt.Fprintf(w, "property  %s  %s\n", what, s.dim(report.Printable(p.Position)))
	}
	if logs := r.Logs(l.ID); len(logs) > 0 {
		fmt.Fprintf(w, "logs      %s\n", strings.Join(logs, " "))
	}
}

// printLogs prints what a service printed, under a line for each leaf where there are several.
func printLogs(w io.Writer, r *bundle.Reader, leaves []bundle.Leaf, service string) error {
	var there []string
	found := false
	for _, l := range leaves {
		services := r.Logs(l.ID)
		there = append(there, services...)
		if !slices.Contains(services, service) {
			continue
		}
		found = true
		text, err := r.Log(l.ID, service)
		if err != nil {
			return err
		}
		if len(leaves) > 1 {
			fmt.Fprintf(w, "==> %s <==\n", leafName(l.ID, l.Scenario, l.Assumption))
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if !found {
		slices.Sort(there)
		return &noneSuch{what: "log of", name: service, there: slices.Compact(there)}
	}
	return nil
}

func printSpecFile(w io.Writer, r *bundle.Reader, name string) error {
	files, err := r.SpecFiles()
	if err != nil {
		return err
	}
	var there []string
	for _, f := range files {
		if f.Path == name {
			_, err := w.Write(f.Content)
			return err
		}
		there = append(there, f.Path)
	}
	return &noneSuch{what: "file", name: name, there: there}
}
