package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// Some checks hold where nothing happens: a monitor, or assert_never. Nothing then tells a system that does
// right from a check that cannot see it, because a name in it is wrong or a log is not read. A check has
// its positive control where it was triggered, or where an event came that has what it looks at, whatever
// the values: here, or in the same scenario without a fault.

// shapesLimit bounds the shapes of a leaf: more sorts of events are no sorts.
const shapesLimit = 500

// Controls returns the controls of the monitors. Call it after the last event was fed.
func (v *Evaluator) Controls() []bundle.Control {
	var out []bundle.Control
	for _, c := range v.checks {
		m, ok := c.(*monitor)
		if !ok {
			continue
		}
		control := bundle.Control{Name: m.Name, Position: m.Position, Like: m.Like}
		control.Seen = m.triggered || m.out.result != "" || m.Like != nil && slices.ContainsFunc(v.trace, m.Like.FitsEvent)
		out = append(out, control)
	}
	return out
}

// Shapes returns the sorts of events that a leaf had, each once.
func Shapes(events []event.Event) []bundle.Shape {
	seen := map[string]bundle.Shape{}
	for _, e := range events {
		s := bundle.Shape{Kind: string(e.Kind), Service: e.Service, Fields: fieldNames("", e.Fields)}
		key := s.Kind + "\x00" + s.Service + "\x00" + strings.Join(s.Fields, "\x00")
		if len(seen) < shapesLimit {
			seen[key] = s
		}
	}
	out := make([]bundle.Shape, 0, len(seen))
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, seen[key])
	}
	return out
}

// fieldNames lists the fields that have a value, with those in objects, sorted.
func fieldNames(prefix string, fields map[string]any) []string {
	var names []string
	for name, v := range fields {
		if v == nil {
			continue
		}
		names = append(names, prefix+name)
		if inner, ok := v.(map[string]any); ok {
			names = append(names, fieldNames(prefix+name+".", inner)...)
		}
	}
	slices.Sort(names)
	return names
}

// WithControls adds a warning for each check of a leaf without a positive control. baseline is the same
// scenario without a fault; nil where the leaf is that itself, or there is none.
func WithControls(v verdict.Verdict, own []bundle.Control, baseline *bundle.Leaf) verdict.Verdict {
	out := v
	out.Warnings = slices.Clone(v.Warnings)
	for _, c := range own {
		if c.Seen || c.Elsewhere || baseline != nil && !missedBy(c, *baseline) {
			continue
		}
		out.Warnings = slices.DeleteFunc(out.Warnings, func(r verdict.Reason) bool {
			return r.Code == verdict.NeverTriggered && r.Subject == c.Name
		})
		row, _ := verdict.Lookup(verdict.NoPositiveControl)
		detail := row.Sentence
		if c.Like != nil {
			detail = fmt.Sprintf("no event %s came, here or without the fault", describeLike(*c.Like))
		}
		out.Warnings = append(out.Warnings, verdict.Reason{Code: row.Code, Detail: detail, Subject: c.Name, Position: c.Position})
	}
	return out
}

// missedBy reports whether a baseline shows that a check's events were not there either.
func missedBy(c bundle.Control, baseline bundle.Leaf) bool {
	if c.Like != nil {
		return !slices.ContainsFunc(baseline.Shapes, func(s bundle.Shape) bool {
			return c.Like.Fits(event.Kind(s.Kind), s.Service, func(field string) bool { return slices.Contains(s.Fields, field) })
		})
	}
	i := slices.IndexFunc(baseline.Controls, func(o bundle.Control) bool { return o.Name == c.Name && o.Position == c.Position })
	return i >= 0 && !baseline.Controls[i].Seen
}

// describeLike says what a check looks at.
func describeLike(l bundle.Like) string {
	var parts []string
	switch {
	case len(l.Any) > 0:
		for _, o := range l.Any {
			parts = append(parts, describeLike(o))
		}
		return strings.Join(parts, ", or ")
	case len(l.All) > 0:
		for _, o := range l.All {
			parts = append(parts, describeLike(o))
		}
		return strings.Join(parts, " and ")
	}
	text := "of " + cmp.Or(l.Service, "any service")
	if l.Kind != "" {
		text = "of type " + l.Kind + " " + text
	}
	if len(l.Fields) > 0 {
		text += " with " + strings.Join(l.Fields, ", ")
	}
	return text
}
