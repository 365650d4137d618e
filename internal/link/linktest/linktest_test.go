package linktest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/seed"
)

func on(id string, e fault.LinkEffect, d ...fault.Direction) fault.Rule {
	l := &fault.Link{Pair: fault.Pair{A: "client", B: "server"}, Effect: e}
	if len(d) > 0 {
		l.Direction = d[0]
	}
	return fault.Rule{ID: id, Link: l}
}

const ms = time.Millisecond

// TestStages is the table of what each effect does, alone and with others.
func TestStages(t *testing.T) {
	latency := on("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 20 * ms})
	rate := on("rate", fault.LinkEffect{Kind: fault.Bandwidth, BytesPerSecond: 1000})
	partition := on("part", fault.LinkEffect{Kind: fault.Partition})
	for _, tc := range []struct {
		name     string
		rules    []fault.Rule
		datagram bool
		script   string
		want     string
	}{
		{"no rule", nil, false, `
			0ms up send 10
			1ms down send 5
			1ms up fin`, `
			0s up recv 10
			1ms down recv 5
			1ms up fin`},
		{"latency withholds each delivery once and keeps order", []fault.Rule{latency}, false, `
			0ms up send 1
			5ms up send 2
			5ms up fin`, `
			20ms up recv 1
			25ms up recv 2
			25ms up fin`},
		{"latency one way", []fault.Rule{on("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 20 * ms}, fault.AToB)}, false, `
			0ms up send 1
			down send 2`, `
			0s down recv 2
			20ms up recv 1`},
		{"lifted latency lets go at once", []fault.Rule{latency}, false, `
			0ms up send 1
			5ms lift slow
			6ms up send 2`, `
			5ms up recv 1
			6ms up recv 2`},
		{"two latencies add up, the end of one leaves the other", []fault.Rule{latency, on("more", fault.LinkEffect{Kind: fault.Latency, Delay: 50 * ms})}, false, `
			0ms up send 1
			100ms up send 2
			110ms lift slow`, `
			70ms up recv 1
			160ms up recv 2`},
		{"bandwidth in portions of 10 ms, idle time is not saved up", []fault.Rule{rate}, false, `
			0ms up send 25
			100ms up send 10`, `
			10ms up recv 10
			20ms up recv 10
			25ms up recv 5
			110ms up recv 10`},
		{"bandwidth, then latency", []fault.Rule{latency, rate}, false, `
			0ms up send 20
			up fin`, `
			30ms up recv 10
			40ms up recv 10
			40ms up fin`},
		{"RST overtakes what the rate has kept back, not what is on the wire", []fault.Rule{latency, rate}, false, `
			0ms up send 30
			15ms up rst`, `
			30ms up recv 10
			35ms up rst`},
		{"partition holds, and heals in order", []fault.Rule{partition}, false, `
			0ms up send 1
			1ms up send 2
			2ms up fin
			50ms lift part
			51ms down send 3`, `
			50ms up recv 1
			50ms up recv 2
			50ms up fin
			51ms down recv 3`},
		{"partition takes what a latency let go of", []fault.Rule{latency, partition}, false, `
			0ms up send 1
			10ms install part
			15ms up send 2
			60ms lift part`, `
			60ms up recv 1
			60ms up recv 2`},
		{"never lifted, never heard", []fault.Rule{on("part", fault.LinkEffect{Kind: fault.Blackhole}, fault.Down)}, false, `
			0ms down send 7
			0ms up send 3`, `
			0s up recv 3
			0s down holds 7`},
		{"overlapping partitions", []fault.Rule{partition, on("hole", fault.LinkEffect{Kind: fault.Blackhole})}, false, `
			0ms up send 1
			10ms lift part
			20ms lift hole`, `
			20ms up recv 1`},
		{"reset on the first byte of a new connection", []fault.Rule{on("r", fault.LinkEffect{Kind: fault.Reset})}, false, `
			5ms up send 1
			6ms up send 1`, `
			5ms up rst to both by r`},
		{"reset at once on one that has carried bytes", []fault.Rule{on("r", fault.LinkEffect{Kind: fault.Reset})}, false, `
			0ms up send 1
			5ms install r
			6ms up send 1`, `
			0s up recv 1
			5ms up rst to both by r`},
		{"reset counts what was delivered", []fault.Rule{latency, on("r", fault.LinkEffect{Kind: fault.Reset, AfterBytes: 15}, fault.Up)}, false, `
			0ms up send 10
			5ms up send 10
			30ms down send 1`, `
			20ms up recv 10
			25ms up recv 5
			25ms up rst to both by r`},
		{"a reset does not pass a partition", []fault.Rule{partition, on("r", fault.LinkEffect{Kind: fault.Reset, AfterBytes: 5})}, false, `
			0ms up send 10
			40ms lift part`, `
			40ms up recv 5
			40ms up rst to both by r`},
		{"cut by FIN", []fault.Rule{on("c", fault.LinkEffect{Kind: fault.Cut, AfterBytes: 4, How: "fin"}, fault.Down)}, false, `
			0ms up send 10
			1ms down send 6`, `
			0s up recv 10
			1ms down recv 4
			1ms down fin to both by c`},
		{"cut by RST, exactly at its bytes", []fault.Rule{on("c", fault.LinkEffect{Kind: fault.Cut, AfterBytes: 6, How: "rst"}, fault.Down)}, false, `
			1ms down send 6`, `
			1ms down recv 6
			1ms down rst to both by c`},
		{"a cut that is not reached", []fault.Rule{on("c", fault.LinkEffect{Kind: fault.Cut, AfterBytes: 6}, fault.Down)}, false, `
			1ms down send 5
			2ms down fin`, `
			1ms down recv 5
			2ms down fin`},
		{"every datagram lost", []fault.Rule{on("l", fault.LinkEffect{Kind: fault.Loss, Probability: 1}, fault.Up)}, true, `
			0ms up send 5
			0ms down send 6`, `
			0s up drop 5 #0 by l
			0s down recv 6 #0`},
		{"datagrams of a partition are lost", []fault.Rule{partition}, true, `
			0ms up send 5
			10ms lift part
			11ms up send 6`, `
			0s up drop 5 #0 by part
			11ms up recv 6 #1`},
		{"copies travel through the latency", []fault.Rule{on("d", fault.LinkEffect{Kind: fault.Duplicate, Count: 2}), latency}, true, `
			0ms up send 5`, `
			20ms up recv 5 #0
			20ms up recv 5 #0
			20ms up recv 5 #0`},
		{"a lost datagram is not doubled", []fault.Rule{on("d", fault.LinkEffect{Kind: fault.Duplicate}), on("l", fault.LinkEffect{Kind: fault.Loss})}, true, `
			0ms up send 5`, `
			0s up drop 5 #0 by l`},
		{"nobody overtakes the last: patience ends", []fault.Rule{on("o", fault.LinkEffect{Kind: fault.Reorder, Count: 2})}, true, `
			0ms up send 5`, `
			100ms up recv 5 #0`},
		{"a full queue loses datagrams", []fault.Rule{rate}, true, `
			0ms up send 2000
			0ms up send 48
			0ms up send 1`, `
			2s up recv 2000 #0
			2.048s up recv 48 #1
			2.048s up drop 1 #2 by rate`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, Setup{Seed: 1, Rules: tc.rules, Datagram: tc.datagram}, tc.script, tc.want)
		})
	}
}

func check(t *testing.T, s Setup, script, want string) {
	t.Helper()
	got, err := Run(s, script)
	if err != nil {
		t.Fatal(err)
	}
	if squeeze(got) != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", squeeze(got), squeeze(want))
	}
}

func squeeze(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) > 0 {
			lines = append(lines, strings.Join(f, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// TestReorderIsOvertaken looks for a seed's first late datagram and counts who overtakes it.
func TestReorderIsOvertaken(t *testing.T) {
	rules := []fault.Rule{on("o", fault.LinkEffect{Kind: fault.Reorder, Probability: 0.1, Count: 3})}
	got, err := Run(Setup{Seed: 3, Rules: rules, Datagram: true}, sends(200))
	if err != nil {
		t.Fatal(err)
	}
	order := indices(got)
	if len(order) != 200 {
		t.Fatalf("%d of 200 arrived", len(order))
	}
	late := 0
	for place, index := range order {
		switch by := place - index; {
		case by > 3+3: // neighbours that are late too may add some
			t.Errorf("#%d is late by %d", index, by)
		case by >= 3:
			late++
		}
	}
	if late < 8 || late > 35 {
		t.Errorf("%d of 200 late at probability 0.1", late)
	}
}

func sends(n int) string {
	var script strings.Builder
	for i := range n {
		fmt.Fprintf(&script, "%dms up send 10\n", i)
	}
	return script.String()
}

func indices(out string) []int {
	var order []int
	for line := range strings.Lines(out) {
		var at, way string
		var size, index int
		if n, _ := fmt.Sscanf(line, "%s %s recv %d #%d", &at, &way, &size, &index); n == 4 {
			order = append(order, index)
		}
	}
	return order
}

func TestSameSeedSameOutcome(t *testing.T) {
	rules := []fault.Rule{
		on("l", fault.LinkEffect{Kind: fault.Loss, Probability: 0.2}),
		on("d", fault.LinkEffect{Kind: fault.Duplicate, Probability: 0.2, Count: 1}),
		on("o", fault.LinkEffect{Kind: fault.Reorder, Probability: 0.2, Count: 2}),
		on("j", fault.LinkEffect{Kind: fault.Latency, Delay: 5 * ms, Jitter: 10 * ms}),
	}
	play := func(s seed.Seed) string {
		got, err := Run(Setup{Seed: s, Rules: rules, Datagram: true}, sends(300))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := play(7)
	if play(7) != first {
		t.Error("the same seed gave different outcomes")
	}
	if play(8) == first {
		t.Error("another seed gave the same outcome")
	}
	if lost := strings.Count(play(7), "drop"); lost < 35 || lost > 90 {
		t.Errorf("%d of 300 lost at probability 0.2", lost)
	}
}

// TestJitterIsDrawnForEachDelivery looks at deliveries far apart, whose order needs no keeping.
func TestJitterIsDrawnForEachDelivery(t *testing.T) {
	st := link.NewStage("j", fault.LinkEffect{Kind: fault.Latency, Delay: 5 * ms, Jitter: 10 * ms},
		link.Setting{Draw: link.Draws(1, "j", FlowName, fault.Up)})
	var low, high int
	for i := range int64(100) {
		at := time.Duration(i) * time.Second
		st.Take(at, link.Packet{Index: i})
		switch d := st.Give().At - at; {
		case d < 5*ms || d >= 15*ms:
			t.Fatalf("#%d is late by %v", i, d)
		case d < 10*ms:
			low++
		default:
			high++
		}
	}
	if low < 30 || high < 30 {
		t.Errorf("%d short and %d long delays of 100", low, high)
	}
}

// TestBandwidthIsExact compares the arrival of the last byte with bytes over rate, for rates that
// don't divide a second and transfers that take hours.
func TestBandwidthIsExact(t *testing.T) {
	for _, rate := range []int64{1, 7, 999, 1000, 64 << 10, 1<<20 + 1, 3 << 30} {
		st := link.NewStage("r", fault.LinkEffect{Kind: fault.Bandwidth, BytesPerSecond: rate}, link.Setting{})
		var total int64
		var last, at time.Duration
		for i := range 200 {
			size := 1 + (i*7919)%min(int(rate)*3, 1<<20)
			st.Take(at, link.Packet{Data: make([]byte, size)})
			total += int64(size)
			for next, ok := st.Next(); ok; next, ok = st.Next() {
				st.Give()
				if next < last {
					t.Fatalf("rate %d: time goes back", rate)
				}
				last = next
			}
			at = last / 2 // always before the wire is free
		}
		want := time.Duration(float64(total) / float64(rate) * 1e9)
		if d := last - want; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("rate %d: %d bytes took %v, want %v", rate, total, last, want)
		}
	}
}

func TestBadScriptsAreErrors(t *testing.T) {
	for _, script := range []string{"0ms send 1", "0ms up", "0ms up jump 1", "5ms up send 1\n1ms up send 1", "0ms lift x", "0ms up send x"} {
		if out, err := Run(Setup{}, script); err == nil {
			t.Errorf("%q gave %q", script, out)
		}
	}
}
