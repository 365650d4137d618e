package starbind

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
)

// story is a log in which api hears of an order, db writes it, and api confirms it. worker has no part in it.
func story() *fakeWorld {
	var now time.Duration
	w := &fakeWorld{log: event.NewLog(func() time.Duration { now += 10 * time.Millisecond; return now })}
	sent := w.log.Append(event.Driver, event.StepSend, map[string]any{
		"target": "api.http", "method": "post", "args": map[string]any{"path": "/orders", "headers": map[string]any{"X-Id": "7"}},
	})
	got := w.log.Append("api", event.Stdout, map[string]any{"line": "got it", "order": int64(1), "tags": []any{"new", "big"}}, sent.Seq)
	w.log.Append("worker", event.Stdout, map[string]any{"line": "tick", "level": "info"})
	kept := w.log.Append("db", event.Stdout, map[string]any{"line": "kept", "event": "persisted", "order": int64(1), "ms": 12.5}, got.Seq)
	done := w.log.Append("api", event.Stdout, map[string]any{"line": "done", "status": "confirmed", "order": int64(1)}, kept.Seq)
	w.log.Append(event.Driver, event.StepRecv, map[string]any{"status": int64(201), "duration_ms": int64(50), "ok": true}, done.Seq)
	return w
}

// eval runs one expression in a body against the story.
func eval(t *testing.T, lines string) (string, error) {
	t.Helper()
	if !strings.Contains(lines, "\n") && !strings.HasPrefix(lines, "assert") {
		lines = "return " + lines
	}
	v, err := run(t, story(), lines)
	if err != nil {
		return "", err
	}
	return v.(starlark.Value).String(), nil
}

// TestMatchers says which of the story's events each matcher chooses.
func TestMatchers(t *testing.T) {
	for _, tc := range []struct{ matcher, want string }{
		{`match.event()`, "[1, 2, 3, 4, 5, 6]"},
		{`match.event(type = "step_*")`, "[1, 6]"},
		{`match.event(line = "*e*t")`, "[4]"},
		{`match.event(line = "*o*")`, "[2, 5]"},
		{`match.event(args = {"path": "/ord*"})`, "[1]"},
		{`match.event(args = {"path": "/ord*", "headers": {"X-Id": "8"}})`, "[]"},
		{`match.event(fields = {"args.headers.X-Id": "7"})`, "[1]"},
		{`match.event(fields = {"args.headers.X-Id.deeper": "7"})`, "[]"},
		{`match.event(line = ["tick", "kept"])`, "[3, 4]"},
		{`match.event(status = ["conf*", 201])`, "[5, 6]"},
		{`match.event(tags = "big")`, "[2]"},
		{`match.event(tags = "small")`, "[]"},
		{`match.event(tags = None)`, "[1, 3, 4, 5, 6]"},
		{`match.event(duration_ms = match.number(gt = 49, le = 50))`, "[6]"},
		{`match.event(duration_ms = match.number(gt = 50))`, "[]"},
		{`match.event(ms = match.number(ge = 12.5, lt = 13))`, "[4]"},
		{`match.event(line = match.number(gt = 0))`, "[]"},
		{`match.event(ok = True)`, "[6]"},
		{`match.event(type = "stdout", where = lambda e: e.order == 1 and e.service == "db")`, "[4]"},
		{`match.none(match.event(type = "stdout"), match.event(status = 201))`, "[1]"},
		{`match.any(match.event(status = 201), match.all(match.event(type = "stdout"), match.event(service = "w*")))`, "[3, 6]"},
		{`match.never()`, "[]"},
		{`{"type": "stdout", "order": 1}`, "[2, 4, 5]"},
		{`{"service": "d*", "fields": None}`, "[1, 4, 6]"},
		{`lambda e: e.seq > 4`, "[5, 6]"},
	} {
		got, err := eval(t, `events(`+tc.matcher+`).map(lambda e: e.seq)`)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %s, %v; want %s", tc.matcher, got, err, tc.want)
		}
	}
}

// TestLike: a matcher knows which events have what it looks at, whatever their values.
func TestLike(t *testing.T) {
	for _, tc := range []struct {
		matcher string
		want    []int64
		unknown bool
	}{
		{matcher: `match.event(type = "stdout", level = "panic")`, want: []int64{3}},
		{matcher: `match.event(type = "stdout", levle = "panic")`},
		{matcher: `match.event(type = "stderr")`},
		{matcher: `match.event(service = "worker", level = None)`, want: []int64{3}},
		{matcher: `match.any(match.event(ms = 99), match.event(level = "panic"))`, want: []int64{3, 4}},
		{matcher: `match.all(match.event(order = 99), match.event(status = "lost"))`, want: []int64{5}},
		{matcher: `match.event(fields = {"args.headers.X-Id": "other"})`, want: []int64{1}},
		{matcher: `match.event(args = {"nothing": 1})`},
		{matcher: `match.event()`, unknown: true},
		{matcher: `match.never()`, unknown: true},
		{matcher: `match.none(match.event(order = 99))`, unknown: true},
		{matcher: `match.any(match.never())`, unknown: true},
	} {
		s := loadText(t, "m = "+tc.matcher+"\nmonitor(\"x\", on = m, check = lambda e, s: False)\n")
		like := s.Monitors[0].Like
		if tc.unknown != (like == nil) {
			t.Errorf("%s: unknown: %v", tc.matcher, like == nil)
		}
		if like == nil {
			continue
		}
		var got []int64
		for _, e := range story().log.All() {
			if like.FitsEvent(e) {
				got = append(got, e.Seq)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.matcher, got, tc.want)
		}
	}
}

// TestTrace says what the methods of traces and events return. Events are written as their numbers.
func TestTrace(t *testing.T) {
	const seq = `.map(lambda e: e.seq)`
	for _, tc := range []struct{ expr, want string }{
		{`[len(events()), events()[0].seq, events()[-1].seq]`, "[6, 1, 6]"},
		{`[e.seq for e in events(type = "stdout")]`, "[2, 3, 4, 5]"},
		{`events()[1:3]` + seq, "[2, 3]"},
		{`events()[::-2]` + seq, "[6, 4, 2]"},
		{`type(events())`, `"list"`},
		{`[bool(events()), bool(events(service = "nobody"))]`, "[True, False]"},
		{`[events(service = "nobody") == [], events() == [], events() == events(), events() != []]`, "[True, False, True, True]"},
		{`len(events(service = "db") + events(service = "worker") + [1]) + len([1] + events(service = "db"))`, "5"},
		{`[events()[1] in events(service = "api"), events()[1] in events(service = "db"), 3 in events()]`, "[True, False, False]"},
		{`sorted([e.line for e in events(type = "stdout")])`, `["done", "got it", "kept", "tick"]`},
		{`events().where(type = "stdout").where(match.event(service = "api"), order = 1)` + seq, "[2, 5]"},
		{`events().filter(lambda e: e.seq % 2 == 0)` + seq, "[2, 4, 6]"},
		{`[events().first().seq, events().last(type = "stdout").seq, events().first(service = "nobody"), events().last({"service": "nobody"})]`, "[1, 5, None, None]"},
		{`[events().count(), events().count(service = "api"), events(service = "api").count(line = "done")]`, "[6, 2, 1]"},
		{`events(type = "stdout").map(lambda e: e.line)`, `["got it", "tick", "kept", "done"]`},
		{`events(type = "stdout").reduce(lambda n, e: n + (e.order or 0), 10)`, "13"},
		{`events_between({"service": "api"}, {"type": "step_recv"})` + seq, "[3, 4, 5]"},
		{`events_between(events()[0], events()[2])` + seq, "[2]"},
		{`events_between({"service": "db"}, {"service": "nobody"})` + seq, "[5, 6]"},
		{`events_between({"service": "nobody"}, {"service": "db"})` + seq, "[]"},
		{`events_within(match.event(), "10ms", of = {"service": "db"})` + seq, "[3, 5]"},
		{`events_within(lambda e: e.service == "api", "20ms", of = events()[3])` + seq, "[2, 5]"},
		{`events_within(match.event(), "1h", of = {"service": "nobody"})` + seq, "[]"},
		{`causal_chain({"service": "db"})` + seq, "[1, 2, 4]"},
		{`causal_chain(events().last())` + seq, "[1, 2, 4, 5, 6]"},
		{`causal_chain(events()[2])` + seq, "[3]"},
		{`[events()[0].happens_before(events()[3]), events()[3].happens_before(events()[0]), events()[2].happens_before(events()[3])]`, "[True, False, False]"},
		{`[events()[0].happens_after(events()[3]), events()[3].happens_after(events()[0])]`, "[False, True]"},
		{`[events()[2].concurrent_with(events()[3]), events()[0].concurrent_with(events()[3]), events()[2].concurrent_with(events()[2])]`, "[True, False, False]"},
		{`[events()[1].same_service_as(events()[4]), events()[1].same_service_as(events()[3])]`, "[True, False]"},
		{`[events()[4].preceded_by({"event": "persisted"}), events()[3].preceded_by({"event": "persisted"}), events()[4].preceded_by({"type": "step_send"}, within = "30ms")]`, "[True, False, False]"},
		{`[events()[1].followed_by(lambda e: e.service == "db"), events()[1].followed_by({"service": "db"}, within = "10ms"), events()[3].followed_by({"service": "db"})]`, "[True, False, False]"},
		{`[events()[3].directly_caused_by({"service": "api"}), events()[3].directly_caused_by(events()[1]), events()[3].directly_caused_by(events()[0]), events()[2].directly_caused_by(match.event())]`, "[True, True, False, False]"},
		{`events()[3].duration_since(events()[1]) == duration("20ms")`, "True"},
		{`events()[1].duration_since(events()[3]) < duration("0s")`, "True"},
		{`[events()[1].nothing, events()[1].get("nothing", 3), events()[3].event]`, `[None, 3, "persisted"]`},
		{`hasattr(events()[0], "preceded_by") and "happens_before" in dir(events()[0]) and "count" in dir(events())`, "True"},
	} {
		if got, err := eval(t, tc.expr); err != nil || got != tc.want {
			t.Errorf("%s: got %s, %v; want %s", tc.expr, got, err, tc.want)
		}
	}
}

// TestEventAssertions says which assertions over the story hold, and with what witness they don't.
func TestEventAssertions(t *testing.T) {
	for _, tc := range []struct {
		body, want string
		witness    int64
	}{
		{`assert_before(first = {"event": "persisted"}, then = {"status": "confirmed"})`, "", 0},
		{`assert_before(first = match.event(type = "step_send"), then = lambda e: e.service == "db")`, "", 0},
		{`assert_before(first = {"status": "confirmed"}, then = {"event": "persisted"})`, `violation main.star:7:5: assert_before: event(#4 db stdout`, 4},
		{`assert_before(first = {"service": "nobody"}, then = {"status": "confirmed"})`, `violation main.star:7:5: assert_before: no event matches first=, and then= has happened: event(#5`, 5},
		{`assert_before(first = {"service": "api"}, then = {"service": "nobody"})`, `violation main.star:7:5: assert_before: no event matches then=`, 0},
		{`assert_before(first = {"service": "api"}, then = {"service": "api"})`, `violation main.star:7:5: assert_before: event(#2`, 2},
		{`assert_before(first = {"status": "confirmed"}, then = {"event": "persisted"}, msg = "order")`, `violation main.star:7:5: order`, 4},
		{`assert_never({"type": "stdout", "status": "conf*"})`, `violation main.star:7:5: assert_never: event(#5`, 5},
		{`assert_never(lambda e: e.service == "db")`, `violation main.star:7:5: assert_never: event(#4`, 4},
		{`assert_never(match.event(type = "stderr"))`, "", 0},
		{`assert_eventually(where = match.event(order = 1), service = "db")`, "", 0},
		{`assert_eventually({"type": "stderr"})`, `violation main.star:7:5: assert_eventually: no event matches`, 0},
		{`assert_eq(events(service = "nobody"), [])`, "", 0},
		{`assert_eq([], events(service = "nobody"))`, "", 0},
		{`assert_true([] == events())`, `script main.star:6:1: body can't be evaluated`, 0},
		{`assert_true(events().frist())`, `script main.star:7:25: list has no .frist field or method`, 0},
		{`await_event(lambda e: e.preceded_by({"service": "db"}))`, `script main.star:7:27: event.preceded_by: this function sees one event only`, 0},
		{`await_event(lambda e: len(events()) > 3)`, `script main.star:7:31: events: this function sees one event only`, 0},
		{`causal_chain({"service": "nobody"})`, `script main.star:7:5: causal_chain: no event matches`, 0},
		{`events(duration_ms = match.number())`, `load main.star:7:26: match.number: needs a bound`, 0},
	} {
		text := bodyPrelude + "    " + tc.body + "\nscenario(body)\n"
		s, err := load(t, filepath.Join(write(t, map[string]string{"main.star": text}), "main.star"))
		if err == nil {
			_, err = s.Scenarios[0].Body(t.Context(), story())
		}
		got := errorText(err)
		if load, ok := strings.CutPrefix(tc.want, "load "); ok {
			if err == nil || !strings.Contains(err.Error(), load) {
				t.Errorf("%s\ngot  %v\nwant %s", tc.body, err, load)
			}
			continue
		}
		if tc.want == "" && err != nil || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s\ngot  %s\nwant %s", tc.body, got, tc.want)
		}
		if tc.witness != 0 && witnessOf(err) != tc.witness {
			t.Errorf("%s: witness %d, want %d", tc.body, witnessOf(err), tc.witness)
		}
	}
}

func witnessOf(err error) int64 {
	var v *property.Violation
	if errors.As(err, &v) {
		return v.Witness
	}
	return 0
}
