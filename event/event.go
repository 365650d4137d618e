// Package event is the one record of what happened in a leaf.
//
// A leaf appends typed events to a Log; monitors, temporal properties, the
// report, replay and diff read it, live or from disk, in the same form. An
// event belongs to a lane (a service, or the driver that runs the scenario) and
// carries a vector clock, so that causality does not depend on wall time.
package event

import (
	"maps"
	"time"
)

// Driver is the lane of the scenario's own code: its steps, faults and checks.
const Driver = "driver"

// Event is one thing that happened.
type Event struct {
	// Seq counts from 1 within a leaf, in the order of appending.
	Seq int64 `json:"seq"`
	// At is the time since the leaf began, in nanoseconds.
	At time.Duration `json:"at_ns"`
	// Service is the lane: a service's name, or Driver.
	Service string `json:"service"`
	// Kind names the row of Schema that tells which fields to expect.
	Kind Kind `json:"kind"`
	// Fields holds JSON values only: string, bool, float64, int64, nil, []any, map[string]any.
	Fields map[string]any `json:"fields,omitempty"`
	// After are the events (by Seq) on other lanes that caused this one. Clock follows from them, but
	// mixes in what else its lane had seen; comparing two runs needs the causes themselves.
	After []int64 `json:"after,omitempty"`
	// Clock is the vector clock after this event.
	Clock Clock `json:"clock,omitempty"`
}

// String returns a field as text, or "" where it is absent or of another type.
func (e Event) String(field string) string {
	s, _ := e.Fields[field].(string)
	return s
}

// Int returns a field as an integer, or 0 where it is absent or of another type.
func (e Event) Int(field string) int64 {
	switch v := e.Fields[field].(type) {
	case int64:
		return v
	case int:
		return int64(v)
	case float64:
		return int64(v)
	}
	return 0
}

// Clock is a vector clock: events seen per lane.
type Clock map[string]int64

// HappensBefore reports whether an event with clock c causally precedes one with clock d.
func (c Clock) HappensBefore(d Clock) bool {
	less := false
	for lane, n := range c {
		switch m := d[lane]; {
		case n > m:
			return false
		case n < m:
			less = true
		}
	}
	if less {
		return true
	}
	for lane, m := range d {
		if m > c[lane] {
			return true
		}
	}
	return false
}

func (c Clock) merge(d Clock) {
	for lane, n := range d {
		c[lane] = max(c[lane], n)
	}
}

func (c Clock) clone() Clock {
	d := make(Clock, len(c)+1)
	maps.Copy(d, c)
	return d
}
