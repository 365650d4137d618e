package event

import (
	"testing"
	"time"
)

func TestClocksFollowCauses(t *testing.T) {
	l := NewLog(func() time.Duration { return 0 })
	a := l.Append("a", Note, nil)
	b := l.Append("b", Note, nil)
	c := l.Append("b", Note, nil, a.Seq)
	if a.Clock.HappensBefore(b.Clock) || b.Clock.HappensBefore(a.Clock) {
		t.Errorf("a %v and b %v must be concurrent", a.Clock, b.Clock)
	}
	if !a.Clock.HappensBefore(c.Clock) || !b.Clock.HappensBefore(c.Clock) {
		t.Errorf("a %v and b %v must precede c %v", a.Clock, b.Clock, c.Clock)
	}
	if c.Clock.HappensBefore(c.Clock) {
		t.Error("an event must not precede itself")
	}
}

func TestSinceWakes(t *testing.T) {
	l := NewLog(func() time.Duration { return 0 })
	got, changed := l.Since(0)
	if len(got) != 0 {
		t.Fatalf("empty log has %d events", len(got))
	}
	l.Append("a", Note, nil)
	select {
	case <-changed:
	default:
		t.Fatal("an append must close the channel")
	}
	if got, _ = l.Since(0); len(got) != 1 || got[0].Seq != 1 {
		t.Fatalf("got %v", got)
	}
}

func TestSchemaHasEachKindOnce(t *testing.T) {
	seen := map[Kind]bool{}
	for _, r := range Schema() {
		if seen[r.Kind] || r.Doc == "" {
			t.Errorf("kind %q is repeated or has no doc", r.Kind)
		}
		seen[r.Kind] = true
	}
}
