package check

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

func emptyLog() *event.Log { return event.NewLog(func() time.Duration { return 0 }) }

func mark(l *event.Log, m string) { l.Append("svc", event.Stdout, map[string]any{"mark": m}) }

func wantUnmet(t *testing.T, err error) {
	t.Helper()
	var ended *spec.Ended
	if !errors.As(err, &ended) || ended.Code != string(verdict.AwaitUnmet) || ended.Detail == "" {
		t.Errorf("got %v, want await-unmet", err)
	}
}

func TestAwaitSeesThePastAndTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := emptyLog()
		mark(l, "a")
		mark(l, "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if e, err := Await(ctx, l, marked("b")); err != nil || e.Seq != 2 {
			t.Errorf("past: %v %v", e, err)
		}
		go func() {
			time.Sleep(time.Second)
			mark(l, "x")
			time.Sleep(time.Second)
			mark(l, "c")
			mark(l, "c")
		}()
		start, asked := time.Now(), 0
		e, err := Await(ctx, l, func(e event.Event) (bool, error) {
			asked++
			return e.String("mark") == "c", nil
		})
		if asked != 4 {
			t.Errorf("asked %d times about 4 events", asked)
		}
		if err != nil || e.Seq != 4 || time.Since(start) != 2*time.Second {
			t.Errorf("future: %v %v after %s", e, err, time.Since(start))
		}
		_, err = Await(ctx, l, marked("never"))
		wantUnmet(t, err)
		boom := errors.New("boom")
		if _, err = Await(ctx, l, func(event.Event) (bool, error) { return false, boom }); err != boom {
			t.Errorf("match's own error: %v", err)
		}
		if _, err = Await(ctx, l, func(event.Event) (bool, error) { panic("oops") }); err == nil {
			t.Error("match's panic must be an error")
		}
	})
}

func TestAwaitStable(t *testing.T) {
	ignored := func(e event.Event) (bool, error) { return e.String("mark") == "tick", nil }
	for _, tc := range []struct {
		name   string
		noise  string // what is printed once a second, for 10 s
		ignore func(event.Event) (bool, error)
		quiet  time.Duration
		limit  time.Duration
		takes  time.Duration
		unmet  bool
	}{
		{"a quiet system", "", nil, 2 * time.Second, time.Minute, 2 * time.Second, false},
		{"noise restarts the time", "work", nil, 2500 * time.Millisecond, time.Minute, 12500 * time.Millisecond, false},
		{"noise that is ignored does not", "tick", ignored, 2500 * time.Millisecond, time.Minute, 2500 * time.Millisecond, false},
		{"short enough between two events", "work", nil, 500 * time.Millisecond, time.Minute, 500 * time.Millisecond, false},
		{"never at rest", "work", nil, 5500 * time.Millisecond, 8500 * time.Millisecond, 8500 * time.Millisecond, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := emptyLog()
			mark(l, "before")
			var noise sync.WaitGroup
			defer noise.Wait()
			if tc.noise != "" {
				noise.Go(func() {
					for range 10 {
						time.Sleep(time.Second)
						mark(l, tc.noise)
					}
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			start := time.Now()
			err := AwaitStable(ctx, vtime.Wall(), l, tc.quiet, tc.ignore)
			if took := time.Since(start); took != tc.takes {
				t.Errorf("%s: took %s, want %s", tc.name, took, tc.takes)
			}
			if tc.unmet {
				wantUnmet(t, err)
			} else if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		})
	}
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		l := emptyLog()
		go func() {
			time.Sleep(time.Millisecond)
			mark(l, "a")
		}()
		err := AwaitStable(t.Context(), vtime.Wall(), l, time.Second, func(event.Event) (bool, error) { return false, boom })
		if err != boom {
			t.Errorf("ignore's own error: %v", err)
		}
	})
}
