package check

import (
	"context"
	"fmt"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Await returns the first event of a log, past or to come, for which match is true. Once ctx is done
// it gives up with an *spec.Ended of await-unmet; Classify tells the leaf's own time-out apart. An
// error of match is returned as it is.
func Await(ctx context.Context, log *event.Log, match func(event.Event) (bool, error)) (event.Event, error) {
	var seen int64
	for {
		events, changed := log.Since(seen)
		for _, e := range events {
			ok, err := chosen(match, e)
			if err != nil {
				return event.Event{}, err
			}
			if ok {
				return e, nil
			}
			seen = e.Seq
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return event.Event{}, unmet(fmt.Sprintf("no event matched among %d", log.Len()))
		}
	}
}

// AwaitStable returns once no event for which ignore is false came for the time quiet, counted from
// the call. A nil ignore counts every event. Once ctx is done it gives up as Await does.
func AwaitStable(ctx context.Context, clock vtime.Clock, log *event.Log, quiet time.Duration, ignore func(event.Event) (bool, error)) error {
	seen := int64(log.Len())
	for {
		done, stop := clock.After(quiet)
		restart, err := awaitNoise(ctx, log, &seen, ignore, done)
		stop()
		if err != nil || !restart {
			return err
		}
	}
}

// awaitNoise waits for the first event that counts, which restarts the quiet time, or for its end.
func awaitNoise(ctx context.Context, log *event.Log, seen *int64, ignore func(event.Event) (bool, error), done <-chan time.Time) (bool, error) {
	for {
		events, changed := log.Since(*seen)
		noise := false
		for _, e := range events {
			*seen = e.Seq
			ignored := false
			if ignore != nil {
				var err error
				if ignored, err = chosen(ignore, e); err != nil {
					return false, err
				}
			}
			noise = noise || !ignored
		}
		if noise {
			return true, nil
		}
		select {
		case <-changed:
		case <-done:
			return false, nil
		case <-ctx.Done():
			return false, unmet(fmt.Sprintf("the system did not come to rest; its latest event is %d", *seen))
		}
	}
}

func unmet(detail string) error { return &spec.Ended{Code: string(verdict.AwaitUnmet), Detail: detail} }
