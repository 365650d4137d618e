package starbind

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// fakeWorld plays a system: it writes down what it is asked for and answers from its script.
type fakeWorld struct {
	log    *event.Log
	did    []string
	answer func(t spec.Target, op spec.Operation) (spec.Response, error)
	inject error
	choice int
	added  []*property.Temporal
}

func newWorld() *fakeWorld {
	return &fakeWorld{log: event.NewLog(func() time.Duration { return 0 })}
}

func (w *fakeWorld) do(format string, args ...any) {
	w.did = append(w.did, fmt.Sprintf(format, args...))
}

func (w *fakeWorld) Call(_ context.Context, t spec.Target, op spec.Operation) (spec.Response, error) {
	w.do("call %s %s %v timeout=%s at %s", t, op.Method, op.Args, op.Timeout, op.Position)
	if w.answer != nil {
		return w.answer(t, op)
	}
	return spec.Response{Status: 200, OK: true, Body: `{"id": 17, "tags": ["a"], "price": 1.5}`, Duration: 12 * time.Millisecond}, nil
}

func (w *fakeWorld) Inject(_ context.Context, rules ...fault.Rule) (spec.Active, error) {
	if w.inject != nil {
		return nil, w.inject
	}
	var ids []string
	for _, r := range rules {
		ids = append(ids, r.ID+" on "+r.Target()+": "+r.Effect())
	}
	w.do("inject %s", strings.Join(ids, "; "))
	return &fakeActive{w, strings.Join(ids, "; "), len(rules)}, nil
}

type fakeActive struct {
	w     *fakeWorld
	ids   string
	rules int
}

func (a *fakeActive) Release() { a.w.do("release %s", a.ids) }
func (a *fakeActive) LetGo() (int, error) {
	a.w.do("let go %s", a.ids)
	return 3, nil
}
func (a *fakeActive) Fired() []int { return slices.Repeat([]int{2}, a.rules) }

func (w *fakeWorld) Act(_ context.Context, service string, a spec.Action) error {
	w.do("%s %s", a, service)
	return nil
}

func (w *fakeWorld) Choose(c spec.Choice) (int, error) {
	w.do("choose %s of %d", c.Name, len(c.Options))
	return w.choice, nil
}

func (w *fakeWorld) Parallel(ctx context.Context, _ spec.Interleaving, branches ...func(context.Context, spec.World) error) error {
	w.do("parallel %d", len(branches))
	for _, b := range branches {
		if err := b(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (w *fakeWorld) Events() spec.View { return fakeView{w} }

func (w *fakeWorld) Sleep(ctx context.Context, d time.Duration) error {
	w.do("sleep %s", d)
	return nil
}

func (w *fakeWorld) End(e spec.Ended) error { return &e }

type fakeView struct{ w *fakeWorld }

func (v fakeView) All() []event.Event { return v.w.log.All() }

func (v fakeView) Await(ctx context.Context, match func(event.Event) (bool, error)) (event.Event, error) {
	var seen int64
	for {
		list, changed := v.w.log.Since(seen)
		for _, e := range list {
			if ok, err := match(e); ok || err != nil {
				return e, err
			}
			seen = e.Seq
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return event.Event{}, ctx.Err()
		}
	}
}

func (v fakeView) AwaitStable(_ context.Context, quiet time.Duration, ignore func(event.Event) (bool, error)) error {
	ignored := 0
	for _, e := range v.w.log.All() {
		if ok, err := ignore(e); err != nil {
			return err
		} else if ok {
			ignored++
		}
	}
	v.w.do("stable %s ignoring %d", quiet, ignored)
	return nil
}

func (v fakeView) Note(message string) {
	v.w.log.Append(event.Driver, event.Note, map[string]any{"message": message})
}

func (v fakeView) Trace(service string, list []spec.Observer) (func(), error) {
	var calls []string
	for _, o := range list {
		calls = append(calls, fmt.Sprintf("%v on %v %s", o.Calls, o.On, o.Path))
	}
	v.w.do("trace %s %s", service, strings.Join(calls, "; "))
	return func() { v.w.do("traced") }, nil
}

func (v fakeView) Property(t *property.Temporal) error {
	v.w.added = append(v.w.added, t)
	return nil
}

const bodyPrelude = `db = service("db", interface("pg", "postgres", 5432), binary = "prog")
api = service("api", interface("http", "http", 8080), binary = "prog")
disk = fault_assumption("disk", target = db, fsync = deny("EIO"))
def ok(): return "ran"
def bad(): fail("no", 1)
def body():
`

const bodyLine = 7 // of a body's first line

// run loads a spec whose scenario has the given lines and runs it against w.
func run(t *testing.T, w *fakeWorld, lines string) (any, error) {
	t.Helper()
	text := bodyPrelude + "    " + strings.ReplaceAll(lines, "\n", "\n    ") + "\nscenario(body)\n"
	s := mustLoad(t, filepath.Join(write(t, map[string]string{"main.star": text}), "main.star"))
	return s.Scenarios[0].Body(t.Context(), w)
}

// TestBodies says what bodies do to the world and what they return.
func TestBodies(t *testing.T) {
	const at = "main.star:7:"
	for _, tc := range []struct {
		name, body string
		did        []string
		result     string
	}{
		{"step", `return api.http.post(path = "/o", body = {"a": 1}, headers = {"X": "y"}, timeout = "2s").status`,
			[]string{`call api.http post map[body:{"a":1} headers:map[X:y] path:/o] timeout=2s at ` + at + `12`}, "200"},
		{"only interface", `r = api.get("/o")` + "\n" + `return [r.ok, r.data["id"], r.data["price"], r.data["tags"][0], r.duration_ms, r.error, r.body[:4]]`,
			[]string{`call api.http get map[path:/o] timeout=0s at ` + at + `9`}, `[True, 17, 1.5, "a", 12, "", "{\"id"]`},
		{"fault", `return fault(db, write = deny("ENOSPC", on = "any"), fsync = delay("1s", label = "slow"), run = ok)`,
			[]string{
				`inject fault@` + at + `12/write on db: write=deny("ENOSPC"); fault@` + at + `12/slow on db: fsync=delay("1s")`,
				`release fault@` + at + `12/write on db: write=deny("ENOSPC"); fault@` + at + `12/slow on db: fsync=delay("1s")`,
			}, `"ran"`},
		{"fault in a loop has a new name each time", `for i in range(2): fault(db, close = deny("EIO"), run = ok)`,
			[]string{
				`inject fault@` + at + `24/close on db: close=deny("EIO")`, `release fault@` + at + `24/close on db: close=deny("EIO")`,
				`inject fault@` + at + `24#2/close on db: close=deny("EIO")`, `release fault@` + at + `24#2/close on db: close=deny("EIO")`,
			}, "None"},
		{"fault by assumption", `fault(disk, run = ok)`,
			[]string{`inject fault@` + at + `5/disk/fsync on db: fsync=deny("EIO")`, `release fault@` + at + `5/disk/fsync on db: fsync=deny("EIO")`}, "None"},
		{"fault on a link", `fault(db.pg, latency("1s"), cut(after_bytes = 9, direction = "up"), source = api, run = ok)`,
			[]string{
				`inject fault@` + at + `5/latency on api -> db: latency("1s"); fault@` + at + `5/cut on api -> db: cut(after_bytes=9, how="fin", direction="up")`,
				`release fault@` + at + `5/latency on api -> db: latency("1s"); fault@` + at + `5/cut on api -> db: cut(after_bytes=9, how="fin", direction="up")`,
			}, "None"},
		{"rule as target", `fault(refuse(on = link(api, db)), run = ok)`,
			[]string{`inject fault@` + at + `5/refuse on api -> db: refuse()`, `release fault@` + at + `5/refuse on api -> db: refuse()`}, "None"},
		{"fault_start and fault_stop", "f = fault_start(db, close = deny(\"EIO\"))\nn = f.fired()\nfault_stop(db)\nfault_start(disk)\nfault_stop(disk)\nreturn n",
			[]string{
				`inject fault_start@` + at + `9/close on db: close=deny("EIO")`, `release fault_start@` + at + `9/close on db: close=deny("EIO")`,
				`inject fault_start@main.star:10:5/disk/fsync on db: fsync=deny("EIO")`, `release fault_start@main.star:10:5/disk/fsync on db: fsync=deny("EIO")`,
			}, "2"},
		{"fault_stop by its result", "f = fault_start(latency(\"1s\", on = link(api, db)))\nfault_stop(f)",
			[]string{`inject fault_start@` + at + `9/latency on api -> db: latency("1s")`, `release fault_start@` + at + `9/latency on api -> db: latency("1s")`}, "None"},
		{"partition", `return partition(db, api, direction = "a_to_b", run = ok)`,
			[]string{`inject partition@` + at + `12/partition on db <-> api: partition(direction="a_to_b")`, `release partition@` + at + `12/partition on db <-> api: partition(direction="a_to_b")`}, `"ran"`},
		{"partition_start, stopped the other way round", "partition_start(db, api)\npartition_stop(api, db)",
			[]string{`inject partition_start@` + at + `5/partition on db <-> api: partition()`, `release partition_start@` + at + `5/partition on db <-> api: partition()`}, "None"},
		{"actions", "kill(db)\npause(ref(\"db\"))\nresume(db)\nrestart(db)\nsleep(\"10ms\")",
			[]string{"kill db", "pause db", "resume db", "restart db", "sleep 10ms"}, "None"},
		{"parallel", "return parallel(ok, lambda: 2)", []string{"parallel 2"}, `["ran", 2]`},
		{"choose", `return choose("x", [db, "b"]).name + choose(["c"])`, []string{"choose x of 2", "choose  of 1"}, `"dbc"`},
		{"await_stable", `await_stable("2s", ignore = match.event(type = "note"))`, []string{"stable 2s ignoring 0"}, "None"},
		{"durations", `return duration("1s") * 2 > duration("1500ms")`, nil, "True"},
		{"struct", `return struct(a = 1).a`, nil, "1"},
		{"assertions that hold", "assert_true(1)\nassert_eq([1], [1])\nassert_never(type = \"stdout\")", nil, "None"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			v, err := run(t, w, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.(starlark.Value).String(); got != tc.result {
				t.Errorf("returned %s, want %s", got, tc.result)
			}
			if !slices.Equal(w.did, tc.did) {
				t.Errorf("did\n%s\nwant\n%s", strings.Join(w.did, "\n"), strings.Join(tc.did, "\n"))
			}
		})
	}
}

// TestBodyErrors says how a body ends that does not return, and where.
func TestBodyErrors(t *testing.T) {
	broken := errors.New("the wire is cut")
	for _, tc := range []struct {
		name, body string
		// want is the error's type, position and message.
		want string
		did  []string
	}{
		{"assert_true", `assert_true(1 == 2)`, `violation main.star:7:5: assert_true: 1 == 2`, nil},
		{"assert_true with a message", `assert_true(False, "no luck")`, `violation main.star:7:5: no luck`, nil},
		{"assert_eq", `assert_eq(3, "x", msg = "status")`, `violation main.star:7:5: status: 3 is not "x"`, nil},
		{"assert_eq of long texts", `assert_eq("a" * 250 + "b", "a" * 250 + "c")`, `violation main.star:7:5: assert_eq: "` + strings.Repeat("a", 199) + `... is not "` + strings.Repeat("a", 199) +
			`...; they part after 250 bytes: "b" and "c"`, nil},
		{"assert_eventually", `assert_eventually(type = "stdout", status = "ok")`, `violation main.star:7:5: assert_eventually: no event matches`, nil},
		{"fail in a helper", `bad()`, `violation main.star:5:12: no 1`, nil},
		{"fail under a fault", `fault(db, close = deny("EIO"), run = bad)`, `violation main.star:5:12: no 1`,
			[]string{`inject fault@main.star:7:5/close on db: close=deny("EIO")`, `release fault@main.star:7:5/close on db: close=deny("EIO")`}},
		{"fail in a branch", `parallel(ok, bad)`, `violation main.star:5:12: no 1`, []string{"parallel 2"}},
		{"halt", `halt("enough")`, `ended main.star:7:5: halted: enough`, nil},
		{"starlark error", `x = 1 // 0`, `script main.star:7:11: floored division by zero`, nil},
		{"starlark error in a branch", "x = []\nparallel(lambda: x[1])", `script main.star:8:23: index 1 out of range: empty list`, []string{"parallel 1"}},
		{"wrong argument", `sleep(choose("x", [1, 2]))`, `script main.star:7:11: sleep: a duration needs a unit: "1ms" or "1s"`, []string{"choose x of 2"}},
		{"wrong keyword", `api.get(**{"pth": 1})`, `script main.star:7:5: api.http.get: unknown keyword "pth"; nearest: path`, nil},
		{"wrong effect", `fault(db, write = deny(choose("x", ["EIOO"])), run = ok)`, `script main.star:7:28: deny: unknown errno "EIOO"; nearest: EIO`, []string{"choose x of 1"}},
		{"no rule", `fault(db, run = ok)`, `script main.star:7:5: fault: has no rule`, nil},
		{"declaration in a body", `service("late", binary = "prog")`, `script main.star:7:5: service: may be used at the top level only`, nil},
		{"stop without start", `fault_stop(db)`, `script main.star:7:16: fault_stop: nothing is in force`, nil},
		{"heal without partition", `partition_stop(db, api)`, `script main.star:7:5: partition_stop: no partition of db and api is in force`, nil},
		{"predicate that does not decide", `await_event(lambda e: 3)`, `script main.star:7:17: lambda returned int 3; it must return True or False`, nil},
		{"unknown service", `kill(ref("bd"))`, `script main.star:7:14: ref: no service "bd" is declared; nearest: db`, nil},
		{"no options", `choose("x", [])`, `script main.star:7:5: choose: needs at least one option`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			w.log.Append("db", event.Stdout, map[string]any{"line": "hello"})
			_, err := run(t, w, tc.body)
			if got := errorText(err); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if !slices.Equal(w.did, tc.did) {
				t.Errorf("did\n%s\nwant\n%s", strings.Join(w.did, "\n"), strings.Join(tc.did, "\n"))
			}
		})
	}
	t.Run("the world fails", func(t *testing.T) {
		w := newWorld()
		w.answer = func(spec.Target, spec.Operation) (spec.Response, error) { return spec.Response{}, broken }
		_, err := run(t, w, `api.get()`)
		if !errors.Is(err, broken) || err.Error() != "main.star:7:5: api.http.get: api.http: the wire is cut" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not subscribed", func(t *testing.T) {
		w := newWorld()
		w.inject = &spec.Ended{Code: "not-subscribed", Detail: "db write", Subject: "r"}
		_, err := run(t, w, `fault(db, close = deny("EIO"), run = ok)`)
		if got := errorText(err); got != "ended main.star:7:5: not-subscribed: db write" {
			t.Errorf("got %s", got)
		}
	})
}

func errorText(err error) string {
	var v *property.Violation
	var e *spec.Ended
	var s *ScriptError
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &v):
		return fmt.Sprintf("violation %s: %s", v.Position, v.Message)
	case errors.As(err, &e):
		return fmt.Sprintf("ended %s: %s: %s", e.Position, e.Code, e.Detail)
	case errors.As(err, &s):
		d := s.Diagnostic
		d.File = filepath.Base(d.File)
		return "script " + d.String()
	}
	return "other: " + err.Error()
}

func TestErrorHasATrace(t *testing.T) {
	_, err := run(t, newWorld(), "def inner(): return 1 // 0\ndef outer(): return inner()\nouter()")
	var s *ScriptError
	if !errors.As(err, &s) {
		t.Fatalf("got %v", err)
	}
	want := []string{"main.star:8:30 in outer", "main.star:9:10 in body"}
	if !slices.Equal(s.Trace, want) || s.Line != bodyLine || s.Col != 27 {
		t.Errorf("got %d:%d %q, want %q", s.Line, s.Col, s.Trace, want)
	}
}

func TestAwaitEvent(t *testing.T) {
	w := newWorld()
	w.log.Append("db", event.Stdout, map[string]any{"line": `{"msg":"up","n":3}`, "msg": "up", "n": float64(3)})
	v, err := run(t, w, "e = await_event(match.event(type = \"stdout\", msg = \"u*\"))\n"+
		`return [e.seq, e["service"], e.get("n"), e.get("zz", 0), e.data["msg"], e.nothing, e.type]`)
	if err != nil || v.(starlark.Value).String() != `[1, "db", 3, 0, "up", None, "stdout"]` {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestAwaitEventInVain(t *testing.T) {
	text := bodyPrelude + "    await_event(lambda e: e.type == \"stderr\", timeout = \"5s\")\nscenario(body)\n"
	s := mustLoad(t, filepath.Join(write(t, map[string]string{"main.star": text}), "main.star"))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		start := time.Now()
		_, err := s.Scenarios[0].Body(t.Context(), w)
		if got := errorText(err); got != `ended main.star:7:5: await-unmet: no event in 5s: lambda e: e.type == "stderr"` {
			t.Errorf("got %s", got)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("took %s", d)
		}
	})
}

// TestBodyIsCancelled: an endless body ends with its context.
func TestBodyIsCancelled(t *testing.T) {
	text := bodyPrelude + "    api.get()\n    while True: pass\nscenario(body)\n"
	s := mustLoad(t, filepath.Join(write(t, map[string]string{"main.star": text}), "main.star"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("out of time")
	w := newWorld()
	w.answer = func(spec.Target, spec.Operation) (spec.Response, error) {
		cancel(cause)
		return spec.Response{}, nil
	}
	_, err := s.Scenarios[0].Body(ctx, w)
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "main.star:") {
		t.Errorf("got %v", err)
	}
}

// TestBodiesDoNotShare: a body can't change what another one sees.
func TestBodiesDoNotShare(t *testing.T) {
	text := "seen = []\ndef body():\n    seen.append(1)\nscenario(body)\n"
	s := mustLoad(t, filepath.Join(write(t, map[string]string{"main.star": text}), "main.star"))
	_, err := s.Scenarios[0].Body(t.Context(), newWorld())
	if got := errorText(err); !strings.Contains(got, "main.star:3:5: append: cannot append to frozen list") {
		t.Errorf("got %s", got)
	}
}

func TestPrintIsANote(t *testing.T) {
	w := newWorld()
	if _, err := run(t, w, `print("order", 17)`); err != nil {
		t.Fatal(err)
	}
	all := w.log.All()
	if len(all) != 1 || all[0].Kind != event.Note || all[0].String("message") != "order 17" {
		t.Errorf("got %v", all)
	}
}

func TestTemporalInABody(t *testing.T) {
	w := newWorld()
	if _, err := run(t, w, `eventually(match.event(type = "stdout"), name = "says something")`); err != nil {
		t.Fatal(err)
	}
	if len(w.added) != 1 || w.added[0].Name != "says something" || w.added[0].Kind != property.Eventually {
		t.Errorf("got %v", w.added)
	}
}

func TestExpectations(t *testing.T) {
	text := bodyPrelude + `    return api.get()
def judge(r):
    if r == None: fail("nothing")
    if r.status == 500: return False
    assert_eq(r.status, 200)
scenario(body, expect = judge)
`
	s := mustLoad(t, filepath.Join(write(t, map[string]string{"main.star": text}), "main.star"))
	for status, want := range map[int]string{
		200: "no error",
		404: "violation main.star:11:5: assert_eq: 404 is not 200",
		500: `violation main.star:12:25: the expectation returned False for response(status=500, ok=false, body="")`,
	} {
		w := newWorld()
		w.answer = func(spec.Target, spec.Operation) (spec.Response, error) {
			return spec.Response{Status: status, OK: status < 400}, nil
		}
		r, err := s.Scenarios[0].Body(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if got := errorText(s.Scenarios[0].Expect(t.Context(), w, r)); got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
	}
	if got := errorText(s.Scenarios[0].Expect(t.Context(), newWorld(), nil)); got != "violation main.star:9:19: nothing" {
		t.Errorf("no result: got %s", got)
	}
}
