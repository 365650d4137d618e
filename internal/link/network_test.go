package link

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
)

// journal collects records.
type journal struct {
	mu   sync.Mutex
	recs []Record
}

func (j *journal) add(r Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recs = append(j.recs, r)
}

func (j *journal) ops() []Op {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Op
	for _, r := range j.recs {
		out = append(out, r.Op)
	}
	return out
}

func rule(id string, e fault.LinkEffect) fault.Rule {
	return fault.Rule{ID: id, Link: &fault.Link{Pair: fault.Pair{A: "api", B: "db"}, Effect: e}}
}

func toward(r fault.Rule, d fault.Direction) fault.Rule {
	r.Link.Direction = d
	return r
}

func TestFlowsAreNumberedByPairAndInterface(t *testing.T) {
	n := New(Config{})
	var got []string
	for _, f := range [][3]string{{"api", "db", "pg"}, {"api", "db", "pg"}, {"api", "db", "admin"}, {"db", "api", "pg"}, {"api", "db", "pg"}} {
		got = append(got, n.Open(f[0], f[1], f[2]).String())
	}
	want := []string{"api>db.pg#1", "api>db.pg#2", "api>db.admin#1", "db>api.pg#1", "api>db.pg#3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestLimits opens eight connections under a refusal with limits and lists those that are refused.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		when fault.When
		want []int
	}{
		{fault.When{}, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{fault.When{Nth: 3}, []int{3}},
		{fault.When{After: 6}, []int{7, 8}},
		{fault.When{Every: 3}, []int{3, 6}},
		{fault.When{After: 1, Every: 3}, []int{4, 7}},
		{fault.When{MaxFires: 2}, []int{1, 2}},
		{fault.When{Every: 2, MaxFires: 3}, []int{2, 4, 6}},
		{fault.When{Probability: 1}, []int{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		n := New(Config{Seed: 1})
		r := rule("r", fault.LinkEffect{Kind: fault.Refuse})
		r.When = tc.when
		if err := n.Install(r); err != nil {
			t.Fatal(err)
		}
		var got []int
		for i := 1; i <= 8; i++ {
			if n.Opening(n.Open("api", "db", "pg")).Verb == Refuse {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: refused %v, want %v", tc.when, got, tc.want)
		}
		if n.Fired("r") != len(tc.want) {
			t.Errorf("%+v: fired %d, want %d", tc.when, n.Fired("r"), len(tc.want))
		}
	}
}

// Flows of one pair draw the same whatever other pairs do meanwhile, and whenever.
func TestProbabilityIsDrawnPerFlow(t *testing.T) {
	play := func(s seed.Seed, noise bool) []bundle.Decision {
		n := New(Config{Seed: s})
		r := rule("r", fault.LinkEffect{Kind: fault.Refuse})
		r.Link.Pair = fault.Pair{B: "db"}
		r.When.Probability = 0.5
		if err := n.Install(r); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if noise && i%3 == 0 {
				n.Opening(n.Open("worker", "db", "pg"))
			}
			n.Opening(n.Open("api", "db", "pg"))
		}
		return slices.DeleteFunc(n.Decisions(), func(d bundle.Decision) bool { return !strings.HasPrefix(d.Key, "api") })
	}
	quiet := play(40, false)
	hits := 0
	for _, d := range quiet {
		if d.Hit {
			hits++
		}
	}
	if len(quiet) != 100 || hits < 35 || hits > 65 {
		t.Errorf("%d of %d hit at probability 0.5", hits, len(quiet))
	}
	if !reflect.DeepEqual(quiet, play(40, true)) {
		t.Error("another flow changed the draws")
	}
	if reflect.DeepEqual(quiet, play(41, false)) {
		t.Error("another seed gave the same draws")
	}
}

func TestOpening(t *testing.T) {
	ms := time.Millisecond
	latency := rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 30 * ms, Connect: true})
	for _, tc := range []struct {
		name  string
		rules []fault.Rule
		want  Opening
	}{
		{"no rule", nil, Opening{Verb: Admit}},
		{"bytes only", []fault.Rule{rule("b", fault.LinkEffect{Kind: fault.Latency, Delay: ms})}, Opening{Verb: Admit}},
		{"another pair", []fault.Rule{{ID: "x", Link: &fault.Link{Pair: fault.Pair{A: "api", B: "cache"}, Effect: fault.LinkEffect{Kind: fault.Refuse}}}}, Opening{Verb: Admit}},
		{"latency, both ways", []fault.Rule{latency}, Opening{Verb: Admit, Delay: 60 * ms, Rules: []string{"slow"}}},
		{"latency, one way", []fault.Rule{toward(rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 30 * ms, Connect: true}), fault.Up)}, Opening{Verb: Admit, Delay: 30 * ms, Rules: []string{"slow"}}},
		{"refuse after latency", []fault.Rule{rule("no", fault.LinkEffect{Kind: fault.Refuse}), latency}, Opening{Verb: Refuse, Delay: 60 * ms, Rules: []string{"slow", "no"}}},
		{"timeout before refuse", []fault.Rule{rule("no", fault.LinkEffect{Kind: fault.Refuse}), rule("t", fault.LinkEffect{Kind: fault.TimeOut, Delay: 300 * ms}), latency}, Opening{Verb: TimeOut, Delay: 300 * ms, Rules: []string{"t"}}},
		{"partition before all", []fault.Rule{rule("t", fault.LinkEffect{Kind: fault.TimeOut, Delay: 300 * ms}), rule("p", fault.LinkEffect{Kind: fault.Partition})}, Opening{Verb: Silent, Rules: []string{"p"}}},
	} {
		n := New(Config{})
		if err := n.Install(tc.rules...); err != nil {
			t.Fatal(err)
		}
		f := n.Open("api", "db", "pg")
		got := n.Opening(f)
		changed := got.Changed
		got.Changed = nil
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
		for _, id := range got.Rules {
			n.Opening(f) // asked again: still one
			if n.Fired(id) != 1 {
				t.Errorf("%s: %s fired %d", tc.name, id, n.Fired(id))
			}
		}
		n.Lift("t", "p")
		select {
		case <-changed:
		default:
			t.Errorf("%s: a change was not announced", tc.name)
		}
	}
}

func TestInstallRefusesWhatItCannotDo(t *testing.T) {
	n := New(Config{})
	good := rule("a", fault.LinkEffect{Kind: fault.Latency})
	for name, rules := range map[string][]fault.Rule{
		"no link":        {{ID: "x"}},
		"unknown effect": {rule("x", fault.LinkEffect{Kind: "fog"})},
		"twice at once":  {good, good},
	} {
		if err := n.Install(rules...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := n.Install(good); err != nil {
		t.Errorf("a refused install left something: %v", err)
	}
	if err := n.Install(good); err == nil {
		t.Error("twice: no error")
	}
	if len(n.Matching("db", "api", "http")) != 1 || len(n.Matching("api", "cache", "x")) != 0 {
		t.Error("Matching")
	}
	n.Lift("a", "unknown")
	if len(n.Matching("api", "db", "pg")) != 0 {
		t.Error("lifted, and matches")
	}
}

// wire is one end of a connection in memory, whose time is synctest's.
type wire struct {
	*io.PipeReader
	*io.PipeWriter
	mu     sync.Mutex
	linger bool
	quiet  bool
}

func wires() (a, b *wire) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return &wire{PipeReader: r1, PipeWriter: w2}, &wire{PipeReader: r2, PipeWriter: w1}
}

func (w *wire) CloseWrite() error { return w.PipeWriter.Close() }

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.linger {
		w.PipeReader.CloseWithError(errReset)
		return w.PipeWriter.CloseWithError(errReset)
	}
	w.PipeReader.Close()
	return w.PipeWriter.Close()
}

func (w *wire) SetLinger(int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.linger = true
	return nil
}

func (w *wire) silence(on bool) error { w.quiet = on; return nil }
func (w *wire) withheld() bool        { return false }
func (w *wire) anew() error           { return nil }

var _ silencer = (*wire)(nil)

var errReset = errors.New("reset")

// rig relays one flow of wires in a bubble.
type rig struct {
	*Network
	journal
	client, server *wire
}

func newRig(t *testing.T, rules ...fault.Rule) *rig {
	t.Helper()
	r := &rig{}
	r.Network = New(Config{Seed: 1, Record: r.add})
	if err := r.Install(rules...); err != nil {
		t.Fatal(err)
	}
	var c, s *wire
	r.client, c = wires()
	s, r.server = wires()
	if err := r.Relay(r.Open("api", "db", "pg"), c, s); err != nil {
		t.Fatal(err)
	}
	return r
}

// arrivals reads to the end and lists when how much came.
func arrivals(c io.Reader, start time.Time) string {
	var out []string
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			out = append(out, fmt.Sprintf("%v:%d", time.Since(start), n))
		}
		if err != nil {
			return strings.Join(append(out, fmt.Sprintf("%v:%v", time.Since(start), err)), " ")
		}
	}
}

func TestRelayKeepsVirtualTime(t *testing.T) {
	slow := rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 20 * time.Millisecond})
	rate := rule("rate", fault.LinkEffect{Kind: fault.Bandwidth, BytesPerSecond: 1000})
	for _, tc := range []struct {
		name  string
		rules []fault.Rule
		want  string
	}{
		{"bare", nil, "0s:10 5ms:20 5ms:EOF"},
		{"latency", []fault.Rule{slow}, "20ms:10 25ms:20 25ms:EOF"},
		{"bandwidth", []fault.Rule{rate}, "10ms:10 20ms:10 30ms:10 30ms:EOF"},
		{"both", []fault.Rule{slow, rate}, "30ms:10 40ms:10 50ms:10 50ms:EOF"},
		{"cut", []fault.Rule{rule("c", fault.LinkEffect{Kind: fault.Cut, AfterBytes: 15, How: "fin"})}, "0s:10 5ms:5 5ms:EOF"},
		{"reset", []fault.Rule{slow, rule("r", fault.LinkEffect{Kind: fault.Reset, AfterBytes: 15})}, "20ms:10 25ms:5 25ms:reset"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, tc.rules...)
			start := time.Now()
			go func() {
				r.client.Write(make([]byte, 10))
				time.Sleep(5 * time.Millisecond)
				r.client.Write(make([]byte, 20))
				r.client.CloseWrite()
			}()
			if got := arrivals(r.server, start); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
			}
			r.Close()
		})
	}
}

func TestRulesChangeInMidConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		go func() {
			for range 6 {
				r.client.Write([]byte("x"))
				time.Sleep(10 * time.Millisecond)
			}
			r.client.CloseWrite()
		}()
		go func() {
			time.Sleep(15 * time.Millisecond)
			r.Install(rule("p", fault.LinkEffect{Kind: fault.Partition}))
			time.Sleep(20 * time.Millisecond)
			r.Lift("p")
		}()
		if got, want := arrivals(r.server, start), "0s:1 10ms:1 35ms:1 35ms:1 40ms:1 50ms:1 60ms:EOF"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if r.Fired("p") != 1 {
			t.Errorf("fired %d", r.Fired("p"))
		}
		want := []Op{OpEstablished, OpInstalled, OpFired, OpStall, OpHeal, OpLifted}
		if got := r.ops(); !slices.Equal(got, want) {
			t.Errorf("records %v, want %v", got, want)
		}
		r.Close()
	})
}

// A sender on a slow link is held back by what the link can take, and no more waits than that.
func TestBandwidthIsFeltByTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rule("rate", fault.LinkEffect{Kind: fault.Bandwidth, BytesPerSecond: 100 << 10}))
		go io.Copy(io.Discard, r.server)
		start := time.Now()
		for range 500 {
			r.client.Write(make([]byte, 1<<10))
		}
		// 500 KiB at 100 KiB/s, less the window and one read of the relay.
		if d := time.Since(start); d < 4600*time.Millisecond || d > 5*time.Second {
			t.Errorf("writing took %v", d)
		}
		r.Close()
	})
}

// A receiver that does not read stops the sender, also where the relay delays.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: time.Second}))
		sent := 0
		go func() {
			for {
				n, err := r.client.Write(make([]byte, 64<<10))
				sent += n
				if err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if sent > maxHeld+2*lastBuffer || sent < maxHeld/2 {
			t.Errorf("took %d bytes", sent)
		}
		r.Close()
	})
}

func TestResetLimitsArePerConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{})
		r := rule("r", fault.LinkEffect{Kind: fault.Reset, AfterBytes: 1})
		r.When.Nth = 2
		if err := n.Install(r); err != nil {
			t.Fatal(err)
		}
		var ends []string
		for range 3 {
			client, c := wires()
			s, server := wires()
			if err := n.Relay(n.Open("api", "db", "pg"), c, s); err != nil {
				t.Fatal(err)
			}
			go func() {
				client.Write([]byte("hello"))
				client.CloseWrite()
			}()
			ends = append(ends, arrivals(server, time.Now()))
		}
		if want := []string{"0s:5 0s:EOF", "0s:1 0s:reset", "0s:5 0s:EOF"}; !slices.Equal(ends, want) {
			t.Errorf("got %q", ends)
		}
		n.Close()
	})
}

func TestClosedNetworkTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{})
		n.Close()
		_, c := wires()
		s, _ := wires()
		if err := n.Relay(n.Open("api", "db", "pg"), c, s); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// What was withheld stays ahead of what comes after the rule, also while the receiver does not read.
func TestLiftedRuleKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: time.Hour}))
		for _, s := range []string{"a", "b", "c"} {
			r.client.Write([]byte(s))
		}
		synctest.Wait()
		r.Lift("slow")
		go func() {
			r.client.Write([]byte("d"))
			r.client.CloseWrite()
		}()
		synctest.Wait()
		if got, err := io.ReadAll(r.server); string(got) != "abcd" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		r.Close()
	})
}
