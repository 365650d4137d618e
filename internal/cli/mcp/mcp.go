// Package mcp serves Squall to an assistant over the Model Context Protocol, on standard input and output.
//
// Each tool is one call of the root package. A tool fails where the command would exit with an error; a
// run that is FAIL or INCONCLUSIVE is a result.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/report"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Server answers the tools.
type Server struct {
	Loader spec.Loader
	// Explain says an error in the words of the command, with its mend.
	Explain func(error) string
}

// Serve answers requests until in ends or ctx does.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.server().Run(ctx, &sdk.IOTransport{Reader: in, Writer: out})
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("squall: mcp: %w", err)
	}
	return nil
}

func (s *Server) server() *sdk.Server {
	m := sdk.NewServer(&sdk.Implementation{Name: "squall", Title: "Squall", Version: squall.Version()}, nil)
	add(s, m, "check", "Check a specification for errors, with file, line and column. Starts nothing.", s.check)
	add(s, m, "plan", "Show what would be run: services, scenarios, faults and leaves. Starts nothing.", s.plan)
	add(s, m, "run", "Run a specification, or some of its leaves, and judge it. Returns verdicts with reasons, and the path of the bundle with the evidence.", s.run)
	add(s, m, "explain_verdict", "Explain the verdict of a leaf: its reasons with their mends, what each fault did, each property, and the events that led to it.", s.explain)
	add(s, m, "query_events", "Return events of a bundle by a query, such as kind=syscall service=db path=/data/* status>=500 at>1.5s.", s.query)
	add(s, m, "replay", "Run leaves of a bundle again with the same seed and compare: same verdict, decisions and trace, or the first divergence.", s.replay)
	add(s, m, "reason_codes", "Return the table of reason codes: what each means and how to mend it.", s.reasons)
	return m
}

// add registers a tool whose errors are explained as the command explains them.
func add[In, Out any](s *Server, m *sdk.Server, name, doc string, do func(context.Context, In) (Out, error)) {
	sdk.AddTool(m, &sdk.Tool{Name: name, Description: doc}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
		out, err := do(ctx, in)
		if err != nil {
			err = errors.New(s.Explain(err))
		}
		return nil, out, err
	})
}

// specArgs choose what of a specification is meant.
type specArgs struct {
	File  string   `json:"file" jsonschema:"the specification, a .star file"`
	Tests []string `json:"tests,omitempty" jsonschema:"only what matches: a scenario, scenario/assumption or a leaf's ID; globs"`
}

func (s *Server) check(ctx context.Context, in specArgs) (checked, error) {
	p, err := squall.Plan(ctx, s.Loader, in.File, squall.Options{Tests: in.Tests})
	if err != nil {
		return checked{}, err
	}
	return checked{OK: true, Services: len(p.Services), Scenarios: len(p.Scenarios), Leaves: len(p.Leaves)}, nil
}

type checked struct {
	OK        bool `json:"ok"`
	Services  int  `json:"services"`
	Scenarios int  `json:"scenarios"`
	Leaves    int  `json:"leaves"`
}

func (s *Server) plan(ctx context.Context, in specArgs) (bundle.Plan, error) {
	return squall.Plan(ctx, s.Loader, in.File, squall.Options{Tests: in.Tests})
}

type runArgs struct {
	specArgs
	Seed *uint64 `json:"seed,omitempty" jsonschema:"the seed that governs all chance; a new one if not given"`
}

// outcome is what came of a run, short: explain_verdict and query_events tell more.
type outcome struct {
	Outcome verdict.Outcome `json:"outcome"`
	Seed    uint64          `json:"seed"`
	Bundle  string          `json:"bundle"`
	Leaves  []leafOutcome   `json:"leaves"`
}

type leafOutcome struct {
	ID         string           `json:"id"`
	Scenario   string           `json:"scenario"`
	Assumption string           `json:"assumption"`
	Outcome    verdict.Outcome  `json:"outcome"`
	Reasons    []verdict.Reason `json:"reasons,omitempty"`
	Divergence string           `json:"divergence,omitempty"`
}

func (s *Server) run(ctx context.Context, in runArgs) (outcome, error) {
	r, err := squall.Run(ctx, s.Loader, in.File, squall.Options{Tests: in.Tests, Seed: in.Seed})
	if err != nil {
		return outcome{}, err
	}
	out := outcome{Outcome: r.Outcome(), Seed: r.Manifest.Seed, Bundle: r.Bundle}
	for _, l := range r.Verdicts.Leaves {
		out.Leaves = append(out.Leaves, short(l))
	}
	return out, nil
}

func short(l bundle.Leaf) leafOutcome {
	return leafOutcome{ID: l.ID, Scenario: l.Scenario, Assumption: l.Assumption, Outcome: l.Verdict.Outcome, Reasons: l.Verdict.Reasons}
}

type leafArgs struct {
	Bundle string `json:"bundle" jsonschema:"a bundle, a .squall file"`
	Leaf   string `json:"leaf" jsonschema:"the leaf's ID or its beginning"`
}

type explanation struct {
	// Leaf is a bundle.Leaf, which contains itself in a property that is like another and so has no plain schema.
	Leaf any `json:"leaf"`
	// Mends say what to do about each reason code.
	Mends map[string]string `json:"mends,omitempty"`
	// Story is the few events that explain the verdict, in words.
	Story []string `json:"story,omitempty"`
}

func (s *Server) explain(_ context.Context, in leafArgs) (explanation, error) {
	b, err := bundle.Open(in.Bundle)
	if err != nil {
		return explanation{}, err
	}
	defer b.Close()
	leaf, err := leafOf(b, in.Leaf)
	if err != nil {
		return explanation{}, err
	}
	events, err := b.Events(leaf.ID)
	if err != nil {
		return explanation{}, err
	}
	out := explanation{Leaf: leaf, Mends: map[string]string{}}
	for _, r := range leaf.Verdict.Reasons {
		if row, ok := verdict.Lookup(r.Code); ok {
			out.Mends[string(r.Code)] = row.Mend
		}
	}
	for _, e := range report.Story(leaf, events) {
		verb, what := report.Describe(e)
		out.Story = append(out.Story, fmt.Sprintf("#%d %s %s %s", e.Seq, e.Service, verb, what))
	}
	return out, nil
}

func leafOf(b *bundle.Reader, id string) (bundle.Leaf, error) {
	leaf, ok := b.Leaf(id)
	if !ok {
		var ids []string
		for _, l := range b.Verdicts().Leaves {
			ids = append(ids, l.ID)
		}
		return leaf, fmt.Errorf("the bundle has no leaf %q; there is: %v", id, ids)
	}
	return leaf, nil
}

type queryArgs struct {
	Bundle string   `json:"bundle" jsonschema:"a bundle, a .squall file"`
	Leaf   string   `json:"leaf,omitempty" jsonschema:"one leaf, by its ID or its beginning; all leaves if not given"`
	Query  []string `json:"query,omitempty" jsonschema:"terms that must all hold, such as kind=syscall or status>=500; all events if not given"`
	Limit  int      `json:"limit,omitempty" jsonschema:"how many events at most; 100 if not given"`
}

type found struct {
	Events []foundEvent `json:"events"`
	// More is how many matched beyond the limit.
	More int `json:"more"`
}

type foundEvent struct {
	Leaf  string      `json:"leaf"`
	Event event.Event `json:"event"`
}

func (s *Server) query(_ context.Context, in queryArgs) (found, error) {
	out := found{Events: []foundEvent{}}
	q, err := bundle.ParseQuery(in.Query)
	if err != nil {
		return out, err
	}
	b, err := bundle.Open(in.Bundle)
	if err != nil {
		return out, err
	}
	defer b.Close()
	leaves := b.Verdicts().Leaves
	if in.Leaf != "" {
		leaf, err := leafOf(b, in.Leaf)
		if err != nil {
			return out, err
		}
		leaves = []bundle.Leaf{leaf}
	}
	limit := in.Limit
	if limit <= 0 {
		limit = 100
	}
	for _, l := range leaves {
		err := b.EachEvent(l.ID, func(e event.Event) error {
			switch {
			case !q.Match(e):
			case len(out.Events) == limit:
				out.More++
			default:
				out.Events = append(out.Events, foundEvent{l.ID, e})
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

type replayArgs struct {
	Bundle string   `json:"bundle" jsonschema:"a bundle, a .squall file"`
	Leaves []string `json:"leaves,omitempty" jsonschema:"the leaves to run, by the beginnings of their IDs; those that are not PASS if not given"`
}

type replayed struct {
	Warnings []string      `json:"warnings,omitempty"`
	Leaves   []leafOutcome `json:"leaves"`
}

func (s *Server) replay(ctx context.Context, in replayArgs) (replayed, error) {
	r, err := squall.Replay(ctx, s.Loader, in.Bundle, squall.ReplayOptions{Leaves: in.Leaves})
	if err != nil {
		return replayed{}, err
	}
	out := replayed{Warnings: r.Warnings}
	for _, l := range r.Leaves {
		o := short(l.Got)
		o.Divergence = l.Divergence
		out.Leaves = append(out.Leaves, o)
	}
	return out, nil
}

type nothing struct{}

type reasonTable struct {
	Reasons []verdict.Row `json:"reasons"`
}

func (s *Server) reasons(context.Context, nothing) (reasonTable, error) {
	return reasonTable{verdict.Codes()}, nil
}
