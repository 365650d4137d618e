// Package vtime is the only place that reads a clock or sleeps.
//
// Code that needs time takes a Clock, so that tests and the deterministic
// scheduler can supply their own.
package vtime

import (
	"context"
	"time"
)

// Clock tells the time and wakes sleepers.
type Clock interface {
	// Now returns the time since the clock's origin; it never goes back.
	Now() time.Duration
	// After returns a channel that receives once d has passed, and a function that gives it up.
	After(d time.Duration) (<-chan time.Time, func())
}

// Sleep waits for d, or returns ctx's error if that comes first.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	done, stop := c.After(d)
	defer stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wall returns a clock that follows the machine's monotonic clock from now on. Under
// testing/synctest it follows the bubble's.
func Wall() Clock { return wall{start: time.Now()} }

type wall struct{ start time.Time }

func (w wall) Now() time.Duration { return time.Since(w.start) }

func (w wall) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Date returns the calendar time, for records that people read; nothing is decided by it.
func Date() time.Time { return time.Now() }
