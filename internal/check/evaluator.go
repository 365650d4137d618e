package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/verdict"
)

// Results of a property, as PropertyRecord has them.
const (
	Violated       = "violated"
	Satisfied      = "satisfied"
	Undecided      = "undecided"
	NeverTriggered = "never_triggered"
)

// Properties are what must hold in a leaf.
type Properties struct {
	Monitors []*property.Monitor
	Temporal []*property.Temporal
}

// Evaluator decides properties. It is not safe for concurrent use, and calls the properties' code: it
// must not be fed from a Log's sink.
type Evaluator struct {
	checks []checker
	trace  []event.Event
	ended  bool
}

// checker is one property being decided.
type checker interface {
	// see is called with each event until the property is decided. bodyEnded tells that the body's
	// end came before this event.
	see(trace []event.Event, bodyEnded bool)
	outcome() *outcome
	// finish decides what the end of the trace decides. last is its last event's Seq.
	finish(regular bool, last int64) outcome
}

// outcome is where a property stands. The zero value is: not decided yet.
type outcome struct {
	result string
	code   verdict.Code
	// message, witness and position are for the reader.
	message  string
	witness  int64
	position string
}

// New returns an evaluator. A property that stands in several places is checked once.
func New(p Properties) *Evaluator {
	v := &Evaluator{}
	seen := map[any]bool{}
	for _, m := range p.Monitors {
		if !seen[m] {
			seen[m] = true
			v.checks = append(v.checks, &monitor{Monitor: m, state: m.Init})
		}
	}
	for _, t := range p.Temporal {
		if !seen[t] {
			seen[t] = true
			v.checks = append(v.checks, &temporal{Temporal: t})
		}
	}
	return v
}

// Add takes a property in mid-run. It sees the events that are fed from now on, as if the body began
// here; one with a window looks for its opening from here.
func (v *Evaluator) Add(t *property.Temporal) error {
	if v.ended {
		return fmt.Errorf("check: %s: the body has ended", t.Name)
	}
	v.checks = append(v.checks, &temporal{Temporal: t, open: t.Window == nil || t.Window.From == nil})
	return nil
}

// Feed shows the next events to the properties and returns the violations that they decide, in the
// order of their witnesses.
func (v *Evaluator) Feed(events ...event.Event) []verdict.Reason {
	var out []verdict.Reason
	for _, e := range events {
		if e.Kind == event.Property {
			continue
		}
		v.trace = append(v.trace, e)
		for _, c := range v.checks {
			o := c.outcome()
			if o.result != "" {
				continue
			}
			c.see(slices.Clip(v.trace), v.ended)
			if o.result == Violated {
				out = append(out, o.reason(c))
			}
		}
		v.ended = v.ended || isBody(e, "end")
	}
	return out
}

// Terminated reports whether a property has said that the body may end here.
func (v *Evaluator) Terminated() bool {
	return slices.ContainsFunc(v.checks, func(c checker) bool {
		t, ok := c.(*temporal)
		return ok && t.Kind == property.Until && t.out.result == Satisfied
	})
}

// Finish decides the rest by how the body ended. It changes nothing: it may be called again.
func (v *Evaluator) Finish(end Ending) (reasons, warnings []verdict.Reason, records []bundle.PropertyRecord) {
	var last int64
	if n := len(v.trace); n > 0 {
		last = v.trace[n-1].Seq
	}
	for _, c := range v.checks {
		o := *c.outcome()
		if o.result == "" {
			o = c.finish(end.Kind == Returned, last)
		}
		name, kind, position := describe(c)
		if o.position != "" {
			position = o.position
		}
		records = append(records, bundle.PropertyRecord{
			Name: name, Kind: kind, Result: o.result, Message: o.message, Witness: o.witness, Position: position,
		})
		switch r := o.reason(c); {
		case o.result == NeverTriggered:
			warnings = append(warnings, r)
		case o.result != Satisfied:
			reasons = append(reasons, r)
		}
	}
	return reasons, warnings, records
}

func (o *outcome) reason(c checker) verdict.Reason {
	name, _, position := describe(c)
	if o.position != "" {
		position = o.position
	}
	return verdict.Reason{Code: o.code, Detail: o.message, Subject: name, Witness: o.witness, Position: position}
}

// fail turns an error of a property's code into its outcome: a Violation is one, anything else means
// that the property is broken.
func (o *outcome) fail(code verdict.Code, err error, current int64) {
	var v *property.Violation
	if !errors.As(err, &v) {
		*o = outcome{result: Undecided, code: verdict.PropertyBroken, message: err.Error(), witness: current}
		return
	}
	*o = outcome{result: Violated, code: code, message: v.Message, witness: v.Witness, position: v.Position}
	if o.witness == 0 {
		o.witness = current
	}
}

func describe(c checker) (name, kind, position string) {
	switch c := c.(type) {
	case *monitor:
		return c.Name, "monitor", c.Position
	case *temporal:
		return c.Name, string(c.Kind), c.Position
	}
	return "", "", ""
}

func isBody(e event.Event, phase string) bool {
	return e.Kind == event.Body && e.String("phase") == phase
}

// guard turns a panic of a property's code into an error: it breaks the property, not the leaf.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

func chosen(fn func(event.Event) (bool, error), e event.Event) (ok bool, err error) {
	defer guard(&err)
	return fn(e)
}

// monitor is a Monitor with its state.
type monitor struct {
	*property.Monitor
	state     any
	triggered bool
	out       outcome
}

func (m *monitor) outcome() *outcome { return &m.out }

func (m *monitor) see(trace []event.Event, _ bool) {
	e := trace[len(trace)-1]
	if m.On != nil {
		ok, err := chosen(m.On, e)
		if err != nil {
			m.out.fail(verdict.MonitorViolated, err, e.Seq)
			return
		}
		if !ok {
			return
		}
	}
	if err := m.step(trace); err != nil {
		m.out.fail(verdict.MonitorViolated, err, e.Seq)
	}
}

func (m *monitor) step(trace []event.Event) (err error) {
	defer guard(&err)
	next, triggered, err := m.Step(trace, m.state)
	if err != nil {
		return err
	}
	m.state = next
	m.triggered = m.triggered || triggered
	return nil
}

func (m *monitor) finish(regular bool, _ int64) outcome {
	switch {
	case !regular:
		return undecided()
	case !m.triggered:
		return outcome{result: NeverTriggered, code: verdict.NeverTriggered, message: "what it watches for never occurred"}
	}
	return outcome{result: Satisfied}
}

func undecided() outcome {
	return outcome{result: Undecided, code: verdict.PropertyUndecided, message: "the trace ended before it was decided"}
}
