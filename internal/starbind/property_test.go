package starbind

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// loadText loads a spec of one file.
func loadText(t *testing.T, text string) *spec.Suite {
	t.Helper()
	return mustLoad(t, filepath.Join(write(t, map[string]string{"main.star": text}), "main.star"))
}

// trace makes events on the standard output of api, each with one field.
func trace(field string, values ...any) []event.Event {
	l := event.NewLog(func() time.Duration { return 0 })
	for _, v := range values {
		l.Append("api", event.Stdout, map[string]any{field: v})
	}
	return l.All()
}

// feed gives a monitor the prefixes of a trace and returns the Seq at which it failed, how often it
// was triggered, and its error.
func feed(t *testing.T, m *property.Monitor, list []event.Event) (at int64, triggered int, err error) {
	t.Helper()
	state := m.Init
	for i := range list {
		if m.On != nil {
			if on, err := m.On(list[i]); err != nil {
				return list[i].Seq, triggered, err
			} else if !on {
				continue
			}
		}
		next, hit, err := m.Step(list[:i+1], state)
		if hit {
			triggered++
		}
		if err != nil {
			return list[i].Seq, triggered, err
		}
		state = next
	}
	return 0, triggered, nil
}

func TestMonitorFunction(t *testing.T) {
	s := loadText(t, `
def f(e):
    if e["type"] == "stdout" and e.get("status") == "confirmed":
        if len(events(where = lambda x: x.status == "written")) == 0:
            fail("confirmed, never written")
monitor("m", on = f)
`)
	m := s.Monitors[0]
	if at, n, err := feed(t, m, trace("status", "other", "written", "confirmed")); err != nil || n != 1 || at != 0 {
		t.Errorf("it holds: got %d, %d, %v", at, n, err)
	}
	if at, n, err := feed(t, m, trace("status", "other")); err != nil || n != 0 || at != 0 {
		t.Errorf("never triggered: got %d, %d, %v", at, n, err)
	}
	at, _, err := feed(t, m, trace("status", "other", "confirmed", "written"))
	if got := errorText(err); at != 2 || got != "violation main.star:5:13: confirmed, never written" {
		t.Errorf("violated: got %d, %s", at, got)
	}
}

func TestMonitorMachine(t *testing.T) {
	s := loadText(t, `
monitor("balance", on = match.event(type = "stdout", amount = "*"), state_init = 0,
    update = lambda e, s: s + e.amount, check = lambda e, s: s >= 0)
`)
	m := s.Monitors[0]
	if at, n, err := feed(t, m, trace("amount", 5.0, -5.0)); err != nil || n != 2 || at != 0 {
		t.Errorf("it holds: got %d, %d, %v", at, n, err)
	}
	if at, n, err := feed(t, m, trace("other", 5.0)); err != nil || n != 0 || at != 0 {
		t.Errorf("not its events: got %d, %d, %v", at, n, err)
	}
	at, _, err := feed(t, m, trace("amount", 5.0, -6.0, 7.0))
	if got := errorText(err); at != 2 || got != "violation main.star:2:1: balance does not hold: state -1" {
		t.Errorf("violated: got %d, %s", at, got)
	}
}

// TestMonitorStateIsFrozen: a state that changes behind the trace would make a check of a
// recorded log differ from the live one.
func TestMonitorStateIsFrozen(t *testing.T) {
	s := loadText(t, `
def grow(e, s):
    s.append(e)
    return s
monitor("m", on = match.event(type = "stdout"), state_init = [], update = grow, check = lambda e, s: True)
`)
	_, _, err := feed(t, s.Monitors[0], trace("a", 1.0))
	if got := errorText(err); got != "script main.star:3:5: append: cannot append to frozen list" {
		t.Errorf("got %s", got)
	}
}

func TestMonitorNextStateIsFrozen(t *testing.T) {
	s := loadText(t, `
def grow(e, s):
    if s == None: return []
    s.append(e)
    return s
monitor("m", on = match.event(type = "stdout"), update = grow, check = lambda e, s: True)
`)
	at, _, err := feed(t, s.Monitors[0], trace("a", 1.0, 2.0))
	if got := errorText(err); at != 2 || got != "script main.star:4:5: append: cannot append to frozen list" {
		t.Errorf("got %d, %s", at, got)
	}
}

func TestEndlessProperty(t *testing.T) {
	dir := write(t, map[string]string{"main.star": "def f(e):\n    while True: pass\nmonitor(\"m\", on = f)\n"})
	s, err := Loader{MaxSteps: 10_000}.Load(t.Context(), filepath.Join(dir, "main.star"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = feed(t, s.Monitors[0], trace("a", 1.0))
	var e *ScriptError
	if !errors.As(err, &e) || e.Message != "the property does not come to an end here" {
		t.Errorf("got %v", err)
	}
}

func TestPropertiesHaveNoWorld(t *testing.T) {
	s := loadText(t, `
api = service("api", interface("http", "http", 80), binary = "prog")
monitor("m", on = lambda e: api.get())
`)
	_, _, err := feed(t, s.Monitors[0], trace("a", 1.0))
	if got := errorText(err); got != "script main.star:3:29: api.http.get: may be used in a scenario or expectation only" {
		t.Errorf("got %s", got)
	}
}

func TestBrokenPropertyIsNoViolation(t *testing.T) {
	s := loadText(t, `monitor("m", on = lambda e: 1 // 0)`)
	_, _, err := feed(t, s.Monitors[0], trace("a", 1.0))
	var v *property.Violation
	if errors.As(err, &v) || err == nil {
		t.Errorf("got %v", err)
	}
}

// decide returns at which prefixes of a trace a property holds.
func decide(t *testing.T, p *property.Temporal, list []event.Event) string {
	t.Helper()
	out := ""
	for i := range list {
		ok, err := p.Holds(list[:i+1])
		switch {
		case err != nil:
			return errorText(err)
		case ok:
			out += "1"
		default:
			out += "0"
		}
	}
	return out
}

func TestTemporal(t *testing.T) {
	for _, tc := range []struct{ pred, want string }{
		{`match.event(n = 2)`, "010"},
		{`match.event(n = "2")`, "010"},
		{`match.event(type = "std*", service = "a*", fields = {"n": 3})`, "001"},
		{`match.event(service = "b*")`, "000"},
		{`match.event(missing = None)`, "111"},
		{`match.any(match.event(n = 1), match.event(n = 3))`, "101"},
		{`match.all(match.event(n = 1), match.event(type = "stdout"))`, "100"},
		{`match.never()`, "000"},
		{`lambda trace: len(trace) >= 2`, "011"},
		{`lambda trace: trace.last().n == 2`, "010"},
		{`lambda trace: trace[0].n == 1 and all([e.n < 3 for e in trace])`, "110"},
		{`lambda: len(events(n = 2)) == 1`, "011"},
		{`lambda trace: trace[-1].happens_before(trace[0])`, "000"},
		{`lambda trace: trace[0].happens_before(trace[-1])`, "011"},
		{`lambda trace: trace[0] == trace[-1]`, "100"},
		{`lambda trace: 1`, "script main.star:1:8: lambda returned int 1; it must return True or False"},
		{`lambda trace: trace[0]["zz"]`, `script main.star:1:30: key "zz" not in event`},
	} {
		s := loadText(t, "always("+tc.pred+")\n")
		if got := decide(t, s.Temporal[0], trace("n", 1.0, 2.0, 3.0)); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.pred, got, tc.want)
		}
	}
}

func TestWindows(t *testing.T) {
	s := loadText(t, `
always(match.never(), between = ("body_start", "body_end"))
always(match.never(), between = (match.event(n = 1), lambda e: e.n == 2))
eventually(match.never(), anchor = match.event(n = 3), name = "late")
eventually(match.never(), between = ("stable", "body_end"))
`)
	list := trace("n", 1.0, 2.0, 3.0)
	at := func(f func(event.Event) (bool, error)) int64 {
		if f == nil {
			return 0
		}
		for _, e := range list {
			if ok, err := f(e); err != nil {
				t.Fatal(err)
			} else if ok {
				return e.Seq
			}
		}
		return -1
	}
	for i, want := range []struct {
		name, window string
		from, to     int64
	}{
		{"always@main.star:2:1", `between ("body_start", "body_end")`, 0, 0},
		{"always@main.star:3:1", `between (match.event(n = 1), lambda e: e.n == 2)`, 1, 2},
		{"late", `from match.event(n = 3)`, 3, 0},
		{"eventually@main.star:5:1", `between ("stable", "body_end")`, -1, 0},
	} {
		p := s.Temporal[i]
		if p.Name != want.name || p.Window.Name != want.window || at(p.Window.From) != want.from || at(p.Window.To) != want.to {
			t.Errorf("%d: got %q, %q, %d, %d", i, p.Name, p.Window.Name, at(p.Window.From), at(p.Window.To))
		}
	}
	stable := event.Event{Kind: event.Note, Fields: map[string]any{"message": "await_stable: nothing happened for 1s"}}
	if ok, err := s.Temporal[3].Window.From(stable); !ok || err != nil {
		t.Errorf("stable: got %v, %v", ok, err)
	}
}

// TestScopes: a property that is passed to something holds there, any other one everywhere.
func TestScopes(t *testing.T) {
	s := loadText(t, `
db = service("db", binary = "prog")
a, b, c, d = [monitor(n, on = lambda e: None) for n in ["a", "b", "c", "d"]]
p = always(match.any(match.never()), name = "p")
q = always(match.never(), name = "q")
def f(): pass
scenario(f, monitors = [a, a])
x = fault_assumption("x", target = db, write = deny("EIO"), monitors = [b], properties = [p])
y = fault_assumption("y", faults = [x], target = db, read = deny("EIO", label = "r"))
fault_matrix(scenarios = [f], faults = [x, y], monitors = [c])
`)
	if n := len(s.Monitors); n != 1 || s.Monitors[0].Name != "d" {
		t.Errorf("everywhere: %d monitors", n)
	}
	if n := len(s.Temporal); n != 1 || s.Temporal[0].Name != "q" {
		t.Errorf("everywhere: %d properties", n)
	}
	if m := s.Scenarios[0].Monitors; len(m) != 1 || m[0].Name != "a" {
		t.Errorf("scenario: %v", m)
	}
	if m := s.Matrices[0].Monitors; len(m) != 1 || m[0].Name != "c" {
		t.Errorf("matrix: %v", m)
	}
	y := s.Assumptions[1]
	if len(y.Monitors) != 1 || y.Monitors[0].Name != "b" || len(y.Temporal) != 1 || y.Temporal[0].Name != "p" {
		t.Errorf("a composed assumption carries its children's: %v %v", y.Monitors, y.Temporal)
	}
	if len(y.Rules) != 2 || y.Rules[0].ID != "y/r" || y.Rules[1].ID != "y/x/write" || y.Rules[1].Assumption != "y" {
		t.Errorf("rules: %+v", y.Rules)
	}
}
