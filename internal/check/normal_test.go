package check

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
)

// act is an event of a run that is played in many interleavings. after names acts on other lanes.
type act struct {
	name, lane string
	kind       event.Kind
	fields     map[string]any
	after      []string
}

// shopRun has a scenario that sends two orders through api to db, over two connections at once,
// while db's writes fail and both services print.
func shopRun() [][]act {
	link := func(name, flow, op string, after ...string) act {
		return act{name, "api", event.Link, map[string]any{"op": op, "flow": flow, "client": "api", "server": "db", "bytes": 17}, after}
	}
	driver := []act{
		{"begin", event.Driver, event.Body, map[string]any{"phase": "begin"}, nil},
		{"install", event.Driver, event.Fault, map[string]any{"op": "installed", "rule": "full/write", "effect": "x"}, nil},
		{"send1", event.Driver, event.StepSend, map[string]any{"target": "api.http", "method": "post", "args": map[string]any{"n": int64(1), "b": "x"}}, nil},
		{"recv1", event.Driver, event.StepRecv, map[string]any{"target": "api.http", "status": int64(503), "ok": false, "duration_ms": int64(3)}, []string{"deny2"}},
		{"send2", event.Driver, event.StepSend, map[string]any{"target": "api.http", "method": "get"}, nil},
		{"recv2", event.Driver, event.StepRecv, map[string]any{"target": "api.http", "status": int64(200), "ok": true}, []string{"up2"}},
		{"end", event.Driver, event.Body, map[string]any{"phase": "end", "outcome": "returned"}, []string{"violated"}},
		{"lift", event.Driver, event.Fault, map[string]any{"op": "lifted", "rule": "full/write", "effect": "x", "fired": 2}, nil},
	}
	flow1 := []act{
		link("up1", "api>db.pg#1", "established", "send1"),
		link("stall1", "api>db.pg#1", "stall"),
		link("close1", "api>db.pg#1", "close"),
	}
	flow2 := []act{link("up2", "api>db.pg#2", "established", "send1"), link("stall2", "api>db.pg#2", "stall")}
	deny := func(name string, after ...string) act {
		return act{name, "db", event.Syscall, map[string]any{
			"name": "write", "pid": int64(7), "path": "/proc/7/root/run-7/x17", "decision": "deny", "errno": "ENOSPC", "rule": "full/write",
		}, after}
	}
	db := []act{deny("deny1", "up1"), {"print", "db", event.Stderr, map[string]any{"line": "full"}, nil}, deny("deny2", "print2")}
	noise := []act{
		{"started", "api", event.Lifecycle, map[string]any{"phase": "started", "pid": 3}, nil},
		{"print1", "api", event.Stdout, map[string]any{"line": "hello"}, nil},
		{"print2", "api", event.Stdout, map[string]any{"line": "order"}, []string{"stall2"}},
	}
	property := []act{{"violated", event.Driver, event.Property, map[string]any{"name": "m", "result": "violated", "witness": 9}, []string{"print2"}}}
	return [][]act{driver, flow1, flow2, db, noise, property}
}

// play appends the acts in a random interleaving that respects threads and causes.
func play(threads [][]act, r *rand.Rand) []event.Event {
	l := event.NewLog(func() time.Duration { return time.Duration(r.IntN(1000)) })
	seqs := map[string]int64{}
	next := make([]int, len(threads))
	for {
		var ready []int
		for i, acts := range threads {
			blocked := next[i] == len(acts)
			for j := 0; !blocked && j < len(acts[next[i]].after); j++ {
				blocked = seqs[acts[next[i]].after[j]] == 0
			}
			if !blocked {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			return l.All()
		}
		i := ready[r.IntN(len(ready))]
		a := threads[i][next[i]]
		next[i]++
		var after []int64
		for _, name := range a.after {
			after = append(after, seqs[name])
		}
		seqs[a.name] = l.Append(a.lane, a.kind, a.fields, after...).Seq
	}
}

func TestInterleavingLeavesNoTrace(t *testing.T) {
	var want []string
	orders := map[string]bool{}
	for i := range 2000 {
		// The flows begin once send1 is there and must not outlive the body: their causes see to it,
		// except for the tails that nothing waits for.
		threads := shopRun()
		threads[0][6].after = []string{"violated", "stall1", "stall2", "deny2"}
		events := play(threads, rand.New(rand.NewPCG(uint64(i), 1)))
		if n := len(events); n != 20 {
			t.Fatalf("seed %d: the acts deadlock after %d events", i, n)
		}
		var order strings.Builder
		for _, e := range events {
			fmt.Fprint(&order, e.Kind, e.Service, ";")
		}
		orders[order.String()] = true
		got := NormalForm(events, nil)
		if want == nil {
			want = got
		}
		if d := Diverge(want, got); d != nil {
			t.Fatalf("seed %d: %+v", i, d)
		}
	}
	if len(orders) < 100 {
		t.Errorf("only %d interleavings were tried", len(orders))
	}
	const golden = `
driver#1 body phase="begin"
driver#2 fault op="installed" rule="full/write" effect="x"
driver#3 step_send target="api.http" method="post" args={"b":"x","n":1}
link/api>db.pg#1#1 link op="established" client="api" server="db" after driver#3
link/api>db.pg#1#2 link op="stall" client="api" server="db"
link/api>db.pg#2#1 link op="established" client="api" server="db" after driver#3
link/api>db.pg#2#2 link op="stall" client="api" server="db"
property/m#1 property result="violated" after link/api>db.pg#2#2
syscall/db/full/write#1 syscall name="write" path="/proc/PID/root/run-PID/x17" decision="deny" errno="ENOSPC" after link/api>db.pg#1#1
syscall/db/full/write#2 syscall name="write" path="/proc/PID/root/run-PID/x17" decision="deny" errno="ENOSPC" after link/api>db.pg#2#2
driver#4 step_recv target="api.http" status=503 ok=false after syscall/db/full/write#2
driver#5 step_send target="api.http" method="get"
driver#6 step_recv target="api.http" status=200 ok=true after link/api>db.pg#2#1
driver#7 body phase="end" outcome="returned" after link/api>db.pg#1#2 link/api>db.pg#2#2 property/m#1 syscall/db/full/write#2
driver#8 fault op="lifted" rule="full/write" effect="x"`
	if d := Diverge(strings.Split(golden[1:], "\n"), want); d != nil {
		t.Errorf("%+v\n%s", d, strings.Join(want, "\n"))
	}
}

// What differs in substance must differ in the form: each change is made to one act.
func TestNormalFormTellsRunsApart(t *testing.T) {
	form := func(threads [][]act) []string {
		threads[0][6].after = []string{"violated", "stall1", "stall2", "deny2"}
		return NormalForm(play(threads, rand.New(rand.NewPCG(1, 1))), nil)
	}
	base := form(shopRun())
	for _, tc := range []struct {
		name   string
		change func([][]act)
		same   bool
	}{
		{"nothing", func([][]act) {}, true},
		{"an answer's status", func(th [][]act) { th[0][3].fields["status"] = 200 }, false},
		{"a step's argument", func(th [][]act) { th[0][2].fields["args"] = map[string]any{"n": 2} }, false},
		{"a cause", func(th [][]act) { th[3][0].after = []string{"up2"} }, false},
		{"an error number", func(th [][]act) { th[3][0].fields["errno"] = "EIO" }, false},
		{"what was done to a connection", func(th [][]act) { th[1][1].fields["op"] = "reset" }, false},
		{"a property's result", func(th [][]act) { th[5][0].fields["result"] = "satisfied" }, false},
		{"the body's outcome", func(th [][]act) { th[0][6].fields["outcome"] = "failed" }, false},
		{"a process id", func(th [][]act) {
			th[3][0].fields["pid"], th[3][0].fields["path"] = int64(912), "/proc/912/root/run-912/x17"
		}, true},
		{"a number that only contains the pid", func(th [][]act) { th[3][0].fields["path"] = "/proc/7/root/run-7/x77" }, false},
		{"bytes", func(th [][]act) { th[1][0].fields["bytes"] = 99 }, true},
		{"a duration", func(th [][]act) { th[0][3].fields["duration_ms"] = 99 }, true},
		{"a witness's number", func(th [][]act) { th[5][0].fields["witness"] = 99 }, true},
		{"what is printed", func(th [][]act) { th[4][1].fields["line"] = "bye" }, true},
		{"a connection's close", func(th [][]act) { th[1] = th[1][:2] }, true},
	} {
		threads := shopRun()
		tc.change(threads)
		got := form(threads)
		if (Diverge(base, got) == nil) != tc.same || (Hash(base) == Hash(got)) != tc.same {
			t.Errorf("%s: same = %v, want %v: %v", tc.name, !tc.same, tc.same, Diverge(base, got))
		}
	}
}

func TestNormalFormFromDisk(t *testing.T) {
	events := play(shopRun(), rand.New(rand.NewPCG(3, 1)))
	text, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	var read []event.Event
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if d := Diverge(NormalForm(events, nil), NormalForm(read, nil)); d != nil {
		t.Error(d)
	}
}

func TestNormalFormBeforeAndAfterTheBody(t *testing.T) {
	l := event.NewLog(func() time.Duration { return 0 })
	add := func(kind event.Kind, fields map[string]any) { l.Append("api", kind, fields) }
	add(event.Link, map[string]any{"op": "refused", "flow": "api>db.pg#1"})
	add(event.Link, map[string]any{"op": "refused", "flow": "api>db.pg#2", "rule": "start/refuse"})
	add(event.Syscall, map[string]any{"name": "openat", "rule": "start/open"})
	add(event.StepSend, map[string]any{"target": "health"})
	add(event.Body, map[string]any{"phase": "begin"})
	add(event.Choice, map[string]any{"name": "backend", "index": 1})
	add(event.Body, map[string]any{"phase": "end"})
	add(event.Syscall, map[string]any{"name": "write", "rule": "full/write"})
	add(event.Fault, map[string]any{"op": "fired", "rule": "full/write"})
	add(event.Property, map[string]any{"name": "m", "result": "satisfied"})
	got := strings.Join(NormalForm(l.All(), nil), "\n")
	const want = `driver#1 body phase="begin"
driver#2 choice name="backend" index=1
link/api>db.pg#2#1 link op="refused" rule="start/refuse"
property/m#1 property result="satisfied"
syscall/api/start/open#1 syscall name="openat"`
	for _, line := range strings.Split(want, "\n") {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing", line)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 6 {
		t.Errorf("%d lines, want 6:\n%s", n, got)
	}
}

// A violation may be written down while the body runs or once it is over.
// TestObservedCallsAreNoPart: how often a program makes calls that are only observed is its own affair.
func TestObservedCallsAreNoPart(t *testing.T) {
	l := event.NewLog(func() time.Duration { return 0 })
	l.Append(event.Driver, event.Body, map[string]any{"phase": "begin"})
	l.Append("db", event.Syscall, map[string]any{"name": "write", "decision": "deny", "rule": "full/write"})
	before := NormalForm(l.All(), nil)
	l.Append("db", event.Syscall, map[string]any{"name": "fsync", "decision": "allow"})
	l.Append("db", event.File, map[string]any{"path": "/x", "line": "kept"})
	if after := NormalForm(l.All(), nil); !slices.Equal(before, after) || len(before) != 2 {
		t.Errorf("got %q, want %q", after, before)
	}
}

func TestLeaksAreNoPart(t *testing.T) {
	record := func(leak bool) []string {
		log := event.NewLog(func() time.Duration { return 0 })
		log.Append(event.Driver, event.Body, map[string]any{"phase": "begin"})
		cause := log.Append(event.Driver, event.StepSend, map[string]any{"target": "a.main", "method": "send"})
		if leak {
			log.Append("a", event.Unmet, map[string]any{"category": "rand", "code": "determinism-leak"}, cause.Seq)
		}
		log.Append(event.Driver, event.Body, map[string]any{"phase": "end"})
		return NormalForm(log.All(), nil)
	}
	if with, without := record(true), record(false); !slices.Equal(with, without) {
		t.Fatalf("got\n%s\nwithout the leak\n%s", strings.Join(with, "\n"), strings.Join(without, "\n"))
	}
}

func TestWhenAPropertyIsRecordedDoesNotMatter(t *testing.T) {
	var want []string
	for at := range 4 {
		l := event.NewLog(func() time.Duration { return 0 })
		for i := range 4 {
			if i == at {
				l.Append(event.Driver, event.Property, map[string]any{"name": "m", "result": "violated"})
			}
			if i < 3 {
				kind := []event.Kind{event.Body, event.StepSend, event.Body}[i]
				l.Append(event.Driver, kind, map[string]any{"phase": []string{"begin", "", "end"}[i]})
			}
		}
		got := NormalForm(l.All(), nil)
		if want == nil {
			want = got
		}
		if d := Diverge(want, got); d != nil || len(got) != 4 {
			t.Errorf("recorded at %d: %v", at, d)
		}
	}
}

func TestDecisionsAreSorted(t *testing.T) {
	d := []bundle.Decision{{Rule: "b", Key: "db", Index: 1}, {Rule: "a", Key: "db", Index: 10}, {Rule: "a", Key: "db", Index: 2, Hit: true}, {Rule: "a", Key: "api", Index: 3}}
	want := NormalForm(nil, d)
	if want[1] != `decision "a" "db" 2 hit=true` {
		t.Errorf("got %q", want)
	}
	slices.Reverse(d)
	if diff := Diverge(want, NormalForm(nil, d)); diff != nil {
		t.Error(diff)
	}
	d[0].Hit = !d[0].Hit
	if Hash(want) == Hash(NormalForm(nil, d)) {
		t.Error("a decision that differs must change the hash")
	}
}

func TestDiverge(t *testing.T) {
	for _, tc := range []struct {
		want, got []string
		says      *Divergence
	}{
		{nil, nil, nil},
		{[]string{"a"}, []string{"a"}, nil},
		{[]string{"a", "b"}, []string{"a", "c"}, &Divergence{2, "b", "c"}},
		{[]string{"a", "b"}, []string{"a"}, &Divergence{2, "b", ""}},
		{nil, []string{"a"}, &Divergence{1, "", "a"}},
		{[]string{""}, nil, &Divergence{1, "", ""}},
	} {
		if d := Diverge(tc.want, tc.got); !reflect.DeepEqual(d, tc.says) {
			t.Errorf("%v, %v: %v, want %v", tc.want, tc.got, d, tc.says)
		}
	}
}

// Two services that answer each other's lines make a chain of causes through which each step reaches its
// own; walked anew for each step, this log would take minutes.
func TestNormalFormOfALongChain(t *testing.T) {
	l := event.NewLog(func() time.Duration { return 0 })
	last := l.Append(event.Driver, event.Body, map[string]any{"phase": "begin"})
	steps := 10000
	for i := range steps {
		last = l.Append([]string{"a", "b"}[i%2], event.Stdout, map[string]any{"line": "x"}, last.Seq)
		l.Append(event.Driver, event.StepRecv, map[string]any{"status": 200}, last.Seq)
	}
	form := NormalForm(l.All(), nil)
	if len(form) != steps+1 || form[1] != "driver#2 step_recv status=200" {
		t.Errorf("%d lines, %q", len(form), form[1])
	}
}

// What passes between services may be anything; what rules do to it is in the normal form.
func TestNormalFormOfMessages(t *testing.T) {
	at := time.Duration(0)
	l := event.NewLog(func() time.Duration { return at })
	l.Append(event.Driver, event.Body, map[string]any{"phase": "begin"})
	message := func(op string, more map[string]any, after ...int64) int64 {
		fields := map[string]any{"op": op, "flow": "web>api.http#1", "client": "web", "server": "api", "interface": "http", "path": "/now/1756"}
		for k, v := range more {
			fields[k] = v
		}
		return l.Append("web", event.Message, fields, after...).Seq
	}
	connect := l.Append("web", event.Link, map[string]any{"op": "connect", "flow": "web>api.http#1"}).Seq
	request := message("request", nil, connect)
	message("fired", map[string]any{"rule": "r", "verb": "error", "index": int64(1), "fired": int64(1)}, request)
	message("answer", map[string]any{"rule": "r", "verb": "error", "duration_ms": int64(3)}, request)
	message("request", nil)
	l.Append(event.Driver, event.Body, map[string]any{"phase": "end"})
	message("fired", map[string]any{"rule": "r", "verb": "drop"})
	var got []string
	for _, line := range NormalForm(l.All(), nil) {
		if strings.Contains(line, "message") {
			got = append(got, line)
		}
	}
	// Its cause, past the request, is the connection.
	const want = ` message client="web" server="api" interface="http" rule="r" verb="error" after link/web>api.http#1`
	if len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("%q", got)
	}
}
