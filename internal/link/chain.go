package link

import (
	"slices"
	"time"

	"github.com/squallhq/squall/fault"
)

// Chain composes the stages in force on one direction of one flow. Like them it is pure: time comes
// from the caller. It is not safe for concurrent use.
type Chain struct {
	slots []slot
	out   queue
	// acted is told of each packet that a rule acted on.
	acted func(rule string, kind fault.LinkKind, p Packet)
}

type slot struct {
	rule  string
	kind  fault.LinkKind
	stage Stage
}

// NewChain returns a chain without stages. Acted, which may be nil, is told of each packet that a
// rule acted on.
func NewChain(acted func(rule string, kind fault.LinkKind, p Packet)) *Chain {
	if acted == nil {
		acted = func(string, fault.LinkKind, Packet) {}
	}
	return &Chain{acted: acted}
}

// Add puts a rule's stage in its place. What is withheld already stays where it is, and meets the
// new stage if its place lies ahead.
func (c *Chain) Add(rule string, kind fault.LinkKind, s Stage) {
	i := len(c.slots)
	for i > 0 && rank(c.slots[i-1].kind) > rank(kind) {
		i--
	}
	c.slots = slices.Insert(c.slots, i, slot{rule, kind, s})
}

// Remove ends a rule: what its stage withheld goes on at once. It returns how many bytes those were.
func (c *Chain) Remove(at time.Duration, rule string) int {
	i := slices.IndexFunc(c.slots, func(s slot) bool { return s.rule == rule })
	if i < 0 {
		return 0
	}
	c.run(at)
	held := c.slots[i].stage.Held()
	packets := c.slots[i].stage.Lift()
	c.slots = slices.Delete(c.slots, i, i+1)
	for _, p := range packets {
		c.enter(i, at, p)
	}
	return held
}

// Push sends a packet into the chain.
func (c *Chain) Push(at time.Duration, p Packet) {
	c.run(at)
	c.enter(0, at, p)
}

// Pop takes out the next outcome that is due by now.
func (c *Chain) Pop(now time.Duration) (Outcome, bool) {
	c.run(now)
	if len(c.out.items) == 0 {
		return Outcome{}, false
	}
	return c.out.Give(), true
}

// Next tells when the next outcome may be due; false says not before another Push or Remove.
func (c *Chain) Next() (time.Duration, bool) {
	if at, ok := c.out.Next(); ok {
		return at, true
	}
	_, at, ok := c.first()
	return at, ok
}

// resetDue reports whether a Rst has come through all stages by now.
func (c *Chain) resetDue(now time.Duration) bool {
	c.run(now)
	return slices.ContainsFunc(c.out.items, func(o Outcome) bool { return o.Packet.Kind == Rst })
}

// Bare reports that there are no stages, and nothing on its way.
func (c *Chain) Bare() bool { return len(c.slots) == 0 && len(c.out.items) == 0 }

// Held is the number of data bytes on their way.
func (c *Chain) Held() int {
	n := c.out.Held()
	for _, s := range c.slots {
		n += s.stage.Held()
	}
	return n
}

// Room tells how many bytes may still be pushed where limit bytes may be on their way; a rate limit
// allows fewer, so that the sender feels it.
func (c *Chain) Room(limit int) int {
	room := limit - c.Held()
	for _, s := range c.slots {
		if b, ok := s.stage.(*bandwidth); ok {
			room = min(room, b.window()-b.Held())
		}
	}
	return room
}

// enter hands a packet to the i-th stage, or out.
func (c *Chain) enter(i int, at time.Duration, p Packet) {
	if i == len(c.slots) {
		c.out.pass(at, p)
		return
	}
	s := c.slots[i]
	if s.stage.Take(at, p) {
		c.acted(s.rule, s.kind, p)
	}
}

// first finds the stage whose outcome is due first. Of equal ones it is the one nearest to the
// receiver, whose packets are ahead.
func (c *Chain) first() (int, time.Duration, bool) {
	best, when := -1, Never
	for i := len(c.slots) - 1; i >= 0; i-- {
		if at, ok := c.slots[i].stage.Next(); ok && at < when {
			best, when = i, at
		}
	}
	return best, when, best >= 0
}

// run moves packets from stage to stage up to now, each at its own time.
func (c *Chain) run(now time.Duration) {
	for {
		i, at, ok := c.first()
		if !ok || at > now {
			return
		}
		o := c.slots[i].stage.Give()
		if o.Verb == Pass {
			c.enter(i+1, at, o.Packet)
			continue
		}
		if n := len(c.out.items); n > 0 {
			o.At = max(o.At, c.out.items[n-1].At)
		}
		c.out.put(o)
	}
}
