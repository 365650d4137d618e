package link

import (
	"math"
	"time"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
)

// Never is the time of what is withheld until its rule ends.
const Never time.Duration = math.MaxInt64

// Kind is the sort of a Packet.
type Kind uint8

// The kinds of packets.
const (
	// Data is a delivery: what one read brought, or one datagram.
	Data Kind = iota
	// Fin says that the sender will send no more.
	Fin
	// Rst says that the sender has reset the connection.
	Rst
)

// Packet is what travels through stages.
type Packet struct {
	Kind Kind
	Data []byte
	// Index counts the deliveries of a flow's direction from 0. Parts of one delivery share it.
	Index int64
}

// Verb is what becomes of a packet.
type Verb uint8

// The verbs.
const (
	// Pass hands it on.
	Pass Verb = iota
	// Drop loses it.
	Drop
	// Reset ends the connection with RST at both ends.
	Reset
	// Finish ends the connection with FIN at both ends.
	Finish
)

// Outcome is a decision: what becomes of a packet, and when.
type Outcome struct {
	At     time.Duration
	Verb   Verb
	Packet Packet
	// Rule is the rule that decided on a verb other than Pass.
	Rule string
}

// Stage carries out one rule on one direction of one flow. It is a pure state machine: the caller
// supplies time, which never goes back, and chance is a function of the seed and the packet's index.
type Stage interface {
	// Take receives a packet at a time. It reports whether the rule acted on it.
	Take(at time.Duration, p Packet) bool
	// Next tells when the next outcome is due; false says that there is none before Take or Lift.
	Next() (time.Duration, bool)
	// Give takes the next outcome out.
	Give() Outcome
	// Lift ends the rule and returns what it withheld, in order.
	Lift() []Packet
	// Held is the number of data bytes withheld.
	Held() int
}

// Draw returns a number in [0, 1) for a packet's index and the use that it is put to.
type Draw func(index int64, use string) float64

// Draws returns the draw of a rule on a direction of a flow.
func Draws(s seed.Seed, rule, flow string, way fault.Direction) Draw {
	return func(index int64, use string) float64 {
		return s.Float(index, "link", rule, flow, string(way), use)
	}
}

// Setting is what a stage is made for.
type Setting struct {
	Draw Draw
	// Datagram says that packets are datagrams and stay whole.
	Datagram bool
	// Hit decides for a datagram whether the rule's limits and the effect's probability select it; nil
	// leaves only the probability, drawn by the stage.
	Hit func(index int64) bool
	// Began is when the rule began.
	Began time.Duration
	// Carried says that the connection had moved bytes when the rule began.
	Carried bool
}

// NewStage returns the stage of an effect, or nil for one that acts only on the opening of connections.
func NewStage(rule string, e fault.LinkEffect, s Setting) Stage {
	hit := s.Hit
	if hit == nil {
		hit = func(index int64) bool {
			return e.Probability <= 0 || e.Probability >= 1 || s.Draw(index, "effect") < e.Probability
		}
	}
	var st Stage
	switch e.Kind {
	case fault.Latency:
		st = &latency{delay: e.Delay, jitter: e.Jitter, draw: s.Draw}
	case fault.Bandwidth:
		st = newBandwidth(rule, e.BytesPerSecond, s.Datagram)
	case fault.Blackhole, fault.HalfOpen, fault.Partition:
		st = &gate{rule: rule, lossy: s.Datagram}
	case fault.Reset:
		st = newEnding(rule, Reset, e.AfterBytes, s)
	case fault.Cut:
		verb := Reset
		if e.How == "fin" || e.How == "" {
			verb = Finish
		}
		st = newEnding(rule, verb, e.AfterBytes, s)
	case fault.Loss:
		return &loss{rule: rule, hit: hit}
	case fault.Duplicate:
		return &duplicate{copies: max(e.Count, 1), hit: hit}
	case fault.Reorder:
		return &reorder{count: max(e.Count, 1), hit: hit}
	default:
		return nil
	}
	if s.Hit != nil {
		st = &sift{Stage: st, hit: s.Hit}
	}
	return st
}

// rank is the place of an effect in the order of composition.
func rank(k fault.LinkKind) int {
	switch k {
	case fault.Loss:
		return 0
	case fault.Duplicate:
		return 1
	case fault.Reorder:
		return 2
	case fault.Bandwidth:
		return 3
	case fault.Latency:
		return 4
	case fault.Cut:
		return 6
	case fault.Reset:
		return 7
	}
	return 5
}

// queue holds the outcomes of a stage in the order in which they leave.
type queue struct {
	items []Outcome
	bytes int
}

func (q *queue) put(o Outcome) {
	q.items = append(q.items, o)
	q.bytes += len(o.Packet.Data)
}

// pass lets a packet leave at a time, but not before those ahead of it.
func (q *queue) pass(at time.Duration, p Packet) {
	if n := len(q.items); n > 0 {
		at = max(at, q.items[n-1].At)
	}
	q.put(Outcome{At: at, Packet: p})
}

func (q *queue) Next() (time.Duration, bool) {
	if len(q.items) == 0 || q.items[0].At == Never {
		return 0, false
	}
	return q.items[0].At, true
}

func (q *queue) Give() Outcome {
	o := q.items[0]
	q.items[0] = Outcome{}
	q.items = q.items[1:]
	if len(q.items) == 0 {
		q.items = nil
	}
	q.bytes -= len(o.Packet.Data)
	return o
}

func (q *queue) Lift() []Packet {
	var out []Packet
	for _, o := range q.items {
		if o.Verb == Pass {
			out = append(out, o.Packet)
		}
	}
	q.items, q.bytes = nil, 0
	return out
}

func (q *queue) Held() int { return q.bytes }
