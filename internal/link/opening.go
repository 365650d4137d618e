package link

import (
	"time"

	"github.com/squallhq/squall/fault"
)

// Opening says how a connection is to be opened.
type Opening struct {
	// Verb is what becomes of it, after Delay.
	Verb OpeningVerb
	// Delay is how long the opening is withheld before the verb is carried out.
	Delay time.Duration
	// Rules are the rules that made it so.
	Rules []string
	// Changed is closed when rules change; where the verb is Silent, ask again then.
	Changed <-chan struct{}
}

// OpeningVerb is what becomes of a connection that is being opened.
type OpeningVerb uint8

// The verbs of openings.
const (
	// Admit lets the connection be made.
	Admit OpeningVerb = iota
	// Refuse answers ECONNREFUSED.
	Refuse
	// TimeOut gives ETIMEDOUT.
	TimeOut
	// Silent gives no answer while the rules last.
	Silent
)

// Open gives a new connection its identity. It is called in the order of connecting, and once for
// each connect of a client, whatever becomes of it.
func (n *Network) Open(client, server, iface string) Flow {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := Flow{Client: client, Server: server, Interface: iface}
	n.opened[f]++
	f.N = n.opened[f]
	return f
}

// Opening decides on the opening of a stream connection by the rules in force now. It is called in the
// order of connecting too, as the limits of all rules on the connection are decided here. Silent goes before
// time-out and that before refusal, as a segment has to pass the cable before anybody answers. The
// rules that decided count as fired: the caller carries the decision out.
func (n *Network) Opening(f Flow) Opening {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := Opening{Changed: n.changed}
	var slow []*ruleState
	var why *ruleState
	for _, st := range n.active {
		if !st.matches(f) || !st.row().Stream || !st.hitsFlow(f) || !st.row().Connect {
			continue
		}
		if d := openingDelay(st, f); d > 0 {
			o.Delay += d
			slow = append(slow, st)
		}
		if verb := openingVerb(st.rule.Link.Effect.Kind); verb > o.Verb {
			o.Verb, why = verb, st
		}
	}
	switch o.Verb {
	case Silent:
		o.Delay, slow = 0, nil
	case TimeOut:
		o.Delay, slow = why.rule.Link.Effect.Delay, nil
	}
	if why != nil {
		slow = append(slow, why)
	}
	for _, st := range slow {
		o.Rules = append(o.Rules, st.rule.ID)
		if count, first := st.fireOnce(place{Flow: f}); first {
			n.emit(Record{Op: OpFired, Flow: f, Rule: st.rule.ID, Count: count})
		}
	}
	return o
}

// openingVerb is what a rule in force makes of an opening.
func openingVerb(k fault.LinkKind) OpeningVerb {
	switch {
	case k == fault.Refuse:
		return Refuse
	case k == fault.TimeOut:
		return TimeOut
	case isSilent(k):
		return Silent
	}
	return Admit
}

// openingDelay is what a latency adds to the handshake: once for each way that it covers.
func openingDelay(st *ruleState, f Flow) time.Duration {
	e := st.rule.Link.Effect
	if e.Kind != fault.Latency || !e.Connect {
		return 0
	}
	var sum time.Duration
	for _, way := range []fault.Direction{fault.Up, fault.Down} {
		if !st.covers(f.Client, way) {
			continue
		}
		sum += e.Delay
		if e.Jitter > 0 {
			draw := Draws(st.seed, st.rule.ID, f.String(), way)
			sum += time.Duration(draw(0, "connect") * float64(e.Jitter))
		}
	}
	return sum
}
