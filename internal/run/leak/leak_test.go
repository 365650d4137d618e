package leak

import (
	"testing"

	"github.com/squallhq/squall/spec"
)

func services(ok ...spec.Nondeterminism) []*spec.Service {
	return []*spec.Service{{Name: "a", NondeterministicOK: ok}, {Name: "b"}}
}

func TestLevel(t *testing.T) {
	all := spec.Nondeterminisms()
	two := func(b *Book) {
		for range 2 {
			b.Of("a").Add(spec.Random)
			b.Of("b").Add(spec.OutsideIO)
		}
		b.Of("b").Add(spec.Random)
	}
	for _, c := range []struct {
		name     string
		contract spec.Determinism
		ok       []spec.Nondeterminism
		blind    string
		use      func(*Book)
		want     string
	}{
		{"nothing used", spec.Determinism{}, nil, "", nil, "L1 DEGRADED(clock and rand: what the vDSO answers is not seen)"},
		{"clocks allowed", spec.Determinism{Allow: []spec.Nondeterminism{spec.Clock}}, nil, "", nil, "L1 DEGRADED(rand: what the vDSO answers is not seen)"},
		{"all allowed", spec.Determinism{Level: "L1", Allow: all}, nil, "", two, "L1 HELD"},
		{"allowed to one service only", spec.Determinism{Allow: []spec.Nondeterminism{spec.Clock}}, all, "", two, "L1 DEGRADED(rand: what the vDSO answers is not seen; rand: b once; network: b 2 times)"},
		{"used", spec.Determinism{}, nil, "", two, "L1 DEGRADED(clock and rand: what the vDSO answers is not seen; rand: a 2 times, b once; network: b 2 times)"},
		{"clocks not looked at", spec.Determinism{}, nil, "since so", nil, "L1 DEGRADED(clock: not looked at, since so; rand: what the vDSO answers is not seen)"},
		{"clocks not looked at, but allowed", spec.Determinism{Allow: all}, nil, "since so", nil, "L1 HELD"},
		{"the plan alone", spec.Determinism{Level: "L0"}, nil, "", two, "L0 HELD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBook(c.contract, services(c.ok...), c.blind)
			if c.use != nil {
				c.use(b)
			}
			if level, reason := b.Level(); level+" "+reason != c.want {
				t.Errorf("got  %s %s\nwant %s", level, reason, c.want)
			}
		})
	}
}

func TestStrict(t *testing.T) {
	b := NewBook(spec.Determinism{Level: "L1", Strict: true, Allow: []spec.Nondeterminism{spec.DNS}}, services(), "")
	a := b.Of("a")
	if a.Add(spec.DNS) || a.Add(spec.ForeignFS) || b.Broken() || len(b.Reasons()) > 0 {
		t.Fatal("what is allowed, or cannot leak, counts")
	}
	if !a.Add(spec.Children) || a.Add(spec.Children) {
		t.Fatal("the first use is not the first")
	}
	a.First(spec.Children, "a ran date", 7)
	if r := b.Reasons(); !b.Broken() || len(r) != 1 || r[0].Witness != 7 || r[0].Subject != "a" || r[0].Detail != "a ran date" {
		t.Fatalf("got %+v", r)
	}
	b.Close()
	if b.Of("b").Add(spec.Random) || len(b.Records()) != 1 {
		t.Fatal("what comes after the end is counted")
	}
}
