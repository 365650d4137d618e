// Package replay compares a leaf with its replay.
package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/verdict"
)

// Record is all that is known of one run of a leaf.
type Record struct {
	Leaf      bundle.Leaf
	Events    []event.Event
	Decisions []bundle.Decision
}

// Compare returns "" where both runs did the same: equal verdict, equal decisions, equal normal form
// of the log. Else it returns the first difference in words.
func Compare(recorded, got Record) string {
	if a, b := headline(recorded.Leaf.Verdict), headline(got.Leaf.Verdict); a != b {
		return fmt.Sprintf("verdict: expected %s, got %s\n%s", a, b, traces(recorded, got))
	}
	return traces(recorded, got)
}

// headline is what of a verdict has to be the same: outcome and reason codes, not their wording,
// which may hold times.
func headline(v verdict.Verdict) string {
	out := string(v.Outcome)
	for _, r := range v.Reasons {
		out += " " + string(r.Code) + "(" + r.Subject + ")"
	}
	return out
}

func traces(recorded, got Record) string {
	a := check.NormalForm(recorded.Events, recorded.Decisions)
	b := check.NormalForm(got.Events, got.Decisions)
	d := check.Diverge(a, b)
	if d == nil {
		return ""
	}
	return fmt.Sprintf("first difference, at line %d of the trace's normal form:\n  expected %s\n  got      %s", d.Line, orNothing(d.Want), orNothing(d.Got))
}

func orNothing(s string) string {
	if s == "" {
		return "(nothing more)"
	}
	return s
}

// Warnings name what differs between the circumstances of two runs.
func Warnings(recorded, got bundle.Manifest) []string {
	var out []string
	names := make([]string, 0, len(recorded.Environment))
	for name := range recorded.Environment {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		was, is := recorded.Environment[name], got.Environment[name]
		if was == is || name == "spec_dir" {
			continue
		}
		if service, ok := strings.CutPrefix(name, "binary:"); ok {
			out = append(out, fmt.Sprintf("the program of %s is not the one that was recorded", service))
			continue
		}
		out = append(out, fmt.Sprintf("%s was %s and is %s", name, was, is))
	}
	if recorded.Tool != got.Tool {
		out = append(out, fmt.Sprintf("it was recorded by %s; this is %s", recorded.Tool, got.Tool))
	}
	return out
}
