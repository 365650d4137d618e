package check

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/verdict"
)

func marked(mark string) func(event.Event) (bool, error) {
	return func(e event.Event) (bool, error) { return e.String("mark") == mark, nil }
}

func latest(trace []event.Event) event.Event { return trace[len(trace)-1] }

// countdown is violated at the n-th event that it sees.
func countdown(name string, n int) *property.Monitor {
	return &property.Monitor{Name: name, Init: n, Position: "x.star:1:1", Step: func(_ []event.Event, s any) (any, bool, error) {
		left := s.(int) - 1
		if left == 0 {
			return left, true, &property.Violation{Message: fmt.Sprintf("event %d", n)}
		}
		return left, false, nil
	}}
}

func TestFeedReportsViolationsOnceAndAtOnce(t *testing.T) {
	v := New(Properties{Monitors: []*property.Monitor{countdown("late", 3), countdown("early", 2)}})
	events := traceOf("sBaE", "none", Returned)
	var got []string
	for _, e := range events {
		for _, r := range v.Feed(e) {
			got = append(got, fmt.Sprintf("at %d: %s %s witness %d %s", e.Seq, r.Code, r.Subject, r.Witness, r.Position))
		}
	}
	want := []string{
		"at 2: monitor-violated early witness 2 x.star:1:1",
		"at 3: monitor-violated late witness 3 x.star:1:1",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestViolationNamesItsWitnessAndPosition(t *testing.T) {
	m := &property.Monitor{Name: "m", Position: "x.star:1:1", On: marked("a"), Step: func([]event.Event, any) (any, bool, error) {
		return nil, true, &property.Violation{Message: "wrong", Witness: 1, Position: "x.star:9:9"}
	}}
	v := New(Properties{Monitors: []*property.Monitor{m}})
	want := verdict.Reason{Code: verdict.MonitorViolated, Detail: "wrong", Subject: "m", Witness: 1, Position: "x.star:9:9"}
	if got := v.Feed(traceOf("sBaE", "none", Returned)...); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v", got)
	}
	_, _, records := v.Finish(Ending{Kind: Returned})
	if r := records[0]; r.Result != Violated || r.Witness != 1 || r.Position != "x.star:9:9" || r.Message != "wrong" || r.Kind != "monitor" {
		t.Errorf("record %+v", r)
	}
}

func TestBrokenPropertyLeavesTheLeafOpen(t *testing.T) {
	boom := errors.New("x.star:3:3: no such field")
	breaks := func(event.Event) (bool, error) { return false, boom }
	panics := func([]event.Event) (bool, error) { panic("index out of range") }
	fine := func([]event.Event) (bool, error) { return false, nil }
	temporal := func(holds func([]event.Event) (bool, error), w *property.Window) Properties {
		return Properties{Temporal: []*property.Temporal{{Name: "p", Kind: property.Eventually, Holds: holds, Window: w}}}
	}
	for _, tc := range []struct {
		name, want string
		props      Properties
	}{
		{"monitor's on", boom.Error(), Properties{Monitors: []*property.Monitor{{Name: "p", On: breaks}}}},
		{"monitor's step", "panic: ", Properties{Monitors: []*property.Monitor{{Name: "p"}}}},
		{"predicate", "panic: index out of range", temporal(panics, nil)},
		{"window's from", boom.Error(), temporal(fine, &property.Window{From: breaks})},
		{"window's to", boom.Error(), temporal(fine, &property.Window{To: breaks})},
	} {
		v := New(tc.props)
		if live := v.Feed(traceOf("sBaE", "none", Returned)...); len(live) != 0 {
			t.Errorf("%s: reported as a violation: %+v", tc.name, live)
		}
		reasons, _, records := v.Finish(Ending{Kind: Returned})
		if len(reasons) != 1 || reasons[0].Code != verdict.PropertyBroken || !strings.HasPrefix(reasons[0].Detail, tc.want) {
			t.Errorf("%s: %+v", tc.name, reasons)
		}
		if records[0].Result != Undecided {
			t.Errorf("%s: record %+v", tc.name, records[0])
		}
		if got := Judge(Input{Ending: Ending{Kind: Returned}, Reasons: reasons, Records: records}); got.Outcome != verdict.Inconclusive {
			t.Errorf("%s: %s", tc.name, got.Outcome)
		}
	}
}

func TestABrokenPropertyDoesNotHideAnothersViolation(t *testing.T) {
	v := New(Properties{Monitors: []*property.Monitor{{Name: "broken"}, countdown("m", 2)}})
	v.Feed(traceOf("sBaE", "none", Returned)...)
	reasons, _, records := v.Finish(Ending{Kind: Returned})
	got := Judge(Input{Ending: Ending{Kind: Returned}, Reasons: reasons, Records: records})
	if got.Outcome != verdict.Fail || got.Reasons[0].Subject != "m" || len(got.Reasons) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestWindowsWithOneEnd(t *testing.T) {
	for _, tc := range []struct {
		name, word, p string
		window        property.Window
		want          verdict.Outcome
	}{
		{"to only: opens with the body", "sBa]cE", "T B", property.Window{To: marked("]")}, verdict.Pass},
		{"to only: not before the body", "sBa]cE", "T s", property.Window{To: marked("]")}, verdict.Fail},
		{"to only: a closing event before the body does not count", "]BacE", "T c", property.Window{To: marked("]")}, verdict.Pass},
		{"to only: closes", "sBa]cE", "T c", property.Window{To: marked("]")}, verdict.Fail},
		{"from only: to the body's end", "sBa[cE", "T E", property.Window{From: marked("[")}, verdict.Pass},
		{"from only: not beyond", "sBa[cEd", "T d", property.Window{From: marked("[")}, verdict.Fail},
		{"from before the body", "[sBacE", "T s", property.Window{From: marked("[")}, verdict.Pass},
		{"from after the body", "sBaE[", "all", property.Window{From: marked("[")}, verdict.Inconclusive},
		{"one matcher for both: its next occurrence closes", "sB|a|cE", "T a", property.Window{From: marked("|"), To: marked("|")}, verdict.Pass},
		{"one matcher for both, too late", "sB|a|cE", "T c", property.Window{From: marked("|"), To: marked("|")}, verdict.Fail},
	} {
		p := &property.Temporal{Name: "p", Kind: property.Eventually, Window: &tc.window, Holds: func(tr []event.Event) (bool, error) {
			return latest(tr).Fields["p"] == true, nil
		}}
		v := New(Properties{Temporal: []*property.Temporal{p}})
		v.Feed(traceOf(tc.word, tc.p, Returned)...)
		reasons, _, records := v.Finish(Ending{Kind: Returned})
		if got := Judge(Input{Ending: Ending{Kind: Returned}, Reasons: reasons, Records: records}); got.Outcome != tc.want {
			t.Errorf("%s: %+v, want %s", tc.name, got, tc.want)
		}
	}
}

func TestOnePropertyInTwoPlacesIsCheckedOnce(t *testing.T) {
	m := countdown("m", 1)
	p := &property.Temporal{Name: "p", Kind: property.Always, Holds: func([]event.Event) (bool, error) { return true, nil }}
	v := New(Properties{Monitors: []*property.Monitor{m, m}, Temporal: []*property.Temporal{p, p}})
	if got := v.Feed(traceOf("B", "none", Returned)...); len(got) != 1 {
		t.Errorf("%d violations", len(got))
	}
	if _, _, records := v.Finish(Ending{Kind: Returned}); len(records) != 2 {
		t.Errorf("%d records", len(records))
	}
}

func TestOnceTriggeredIsEnough(t *testing.T) {
	m := &property.Monitor{Name: "m", Step: func(trace []event.Event, s any) (any, bool, error) { return s, len(trace) == 2, nil }}
	v := New(Properties{Monitors: []*property.Monitor{m}})
	v.Feed(traceOf("sBaE", "none", Returned)...)
	if _, warnings, records := v.Finish(Ending{Kind: Returned}); len(warnings) != 0 || records[0].Result != Satisfied {
		t.Errorf("%+v %+v", warnings, records)
	}
}

func TestPropertiesDoNotSeeDecisions(t *testing.T) {
	seen := 0
	m := &property.Monitor{Name: "m", Step: func(trace []event.Event, _ any) (any, bool, error) {
		seen = len(trace)
		return nil, true, nil
	}}
	v := New(Properties{Monitors: []*property.Monitor{m}})
	v.Feed(event.Event{Seq: 1, Kind: event.Note}, event.Event{Seq: 2, Kind: event.Property}, event.Event{Seq: 3, Kind: event.Note})
	if seen != 2 {
		t.Errorf("the trace has %d events, want 2", seen)
	}
}

func TestATraceCannotBeOverwritten(t *testing.T) {
	greedy := &property.Monitor{Name: "greedy", Step: func(trace []event.Event, kept any) (any, bool, error) {
		if old, ok := kept.([]event.Event); ok {
			_ = append(old, event.Event{Seq: 99})
		}
		return trace, true, nil
	}}
	watch := &property.Monitor{Name: "watch", Step: func(trace []event.Event, _ any) (any, bool, error) {
		for i, e := range trace {
			if e.Seq != int64(i)+1 {
				t.Errorf("event %d is seen as %d", i+1, e.Seq)
			}
		}
		return nil, true, nil
	}}
	New(Properties{Monitors: []*property.Monitor{greedy, watch}}).Feed(traceOf("sBabcdE", "none", Returned)...)
}

// randomProperties are pure functions of what they see, some of them stateful, some broken.
func randomProperties(r *rand.Rand) Properties {
	var p Properties
	for i := range 1 + r.IntN(4) {
		n, marks := 1+r.IntN(12), "sBa[b]cEd"
		mark := string(marks[r.IntN(len(marks))])
		m := &property.Monitor{Name: fmt.Sprint("m", i), Init: n, Step: func(trace []event.Event, s any) (any, bool, error) {
			switch left := s.(int) - len(trace)%3; {
			case left < -20:
				return nil, false, errors.New("broken")
			case left == 0:
				return left, true, &property.Violation{Message: "zero"}
			default:
				return left, left%2 == 0, nil
			}
		}}
		if r.IntN(2) == 0 {
			m.On = marked(mark)
		}
		p.Monitors = append(p.Monitors, m)
	}
	for i := range 1 + r.IntN(4) {
		n := r.IntN(6)
		t := &property.Temporal{Name: fmt.Sprint("t", i), Kind: []property.Kind{property.Always, property.Eventually}[r.IntN(2)],
			Holds: func(trace []event.Event) (bool, error) { return (len(trace)+n)%5 != 0 == (n%2 == 0), nil }}
		if r.IntN(2) == 0 {
			t.Window = &property.Window{From: marked("["), To: marked("]")}
		}
		p.Temporal = append(p.Temporal, t)
	}
	return p
}

// A log from disk, fed at once, is judged as the live one that was fed in any pieces.
func TestLiveAndFromDiskAgree(t *testing.T) {
	outcomes := map[string]bool{}
	for i := range 3000 {
		r := rand.New(rand.NewPCG(uint64(i), 0))
		props := randomProperties(r)
		var word strings.Builder
		for range r.IntN(20) {
			word.WriteByte("sBa[b]cEd"[r.IntN(9)])
		}
		kind := Endings()[r.IntN(len(Endings()))]
		events := traceOf(word.String(), "none", kind)
		live, disk := New(props), New(props)
		var early []verdict.Reason
		for rest := events; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			early = append(early, live.Feed(rest[:n]...)...)
			rest = rest[n:]
			// A look at how it would end now must change nothing.
			live.Finish(Ending{Kind: Timeout})
		}
		if got := disk.Feed(events...); !reflect.DeepEqual(got, early) {
			t.Fatalf("seed %d: %+v at once, %+v in pieces", i, got, early)
		}
		judge := func(v *Evaluator) verdict.Verdict {
			in := Input{Ending: endingOf(kind), Events: events}
			in.Reasons, in.Warnings, in.Records = v.Finish(in.Ending)
			for _, rec := range in.Records {
				outcomes[rec.Kind+" "+rec.Result] = true
			}
			return Judge(in)
		}
		if a, b := judge(live), judge(disk); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: live %+v, from disk %+v", i, a, b)
		}
		// What was reported early stays a reason.
		final := judge(live)
		if len(early) > 0 && final.Outcome != verdict.Fail {
			t.Fatalf("seed %d: %+v was reported, then %s", i, early, final.Outcome)
		}
	}
	if len(outcomes) < 9 {
		t.Errorf("the random properties reach too few results: %v", outcomes)
	}
}
