// Package linktest runs link rules over a scripted list of sends in virtual time.
//
// A script is text, so that a golden test reads as what happens on the wire:
//
//	0ms    up   send 10        a delivery of 10 bytes from the client
//	5ms    down send 300
//	8ms    up   fin            the client ends its way; rst resets
//	10ms        lift slow      a rule ends; install puts one of the given rules in force
//	40ms        end            looks no further
//
// Rules are in force from the start unless the script installs them. Directions without a time
// share the time of the line before.
package linktest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/seed"
)

// Setup is what a script runs under.
type Setup struct {
	Seed seed.Seed
	// Rules act on the one flow, from "client" to "server"; their pairs are not looked at, their
	// directions are Up, Down or Both.
	Rules []fault.Rule
	// Datagram makes sends datagrams.
	Datagram bool
}

// FlowName is the flow of every script.
const FlowName = "client>server.main#1"

// Run plays a script and returns what came out, one line an outcome: time, direction, and the bytes
// that arrived, or what else became of them. A malformed script is an error.
func Run(s Setup, script string) (string, error) {
	r := &run{setup: s, chains: map[fault.Direction]*link.Chain{}, next: map[fault.Direction]int64{}}
	for _, way := range ways() {
		r.chains[way] = link.NewChain(nil)
	}
	steps, err := parse(script)
	if err != nil {
		return "", err
	}
	scripted := map[string]bool{}
	for _, st := range steps {
		if st.verb == "install" {
			scripted[st.arg] = true
		}
	}
	for _, rule := range s.Rules {
		if !scripted[rule.ID] {
			r.install(0, rule)
		}
	}
	for _, st := range steps {
		r.until(st.at)
		if r.over {
			break
		}
		if err := r.step(st); err != nil {
			return "", err
		}
		r.until(st.at)
	}
	if len(steps) == 0 || steps[len(steps)-1].verb != "end" {
		r.until(link.Never - 1)
	}
	for _, way := range ways() {
		if n := r.chains[way].Held(); n > 0 && !r.over {
			r.print(r.now, way, fmt.Sprintf("holds %d", n))
		}
	}
	return r.out.String(), nil
}

func ways() []fault.Direction { return []fault.Direction{fault.Up, fault.Down} }

type run struct {
	setup   Setup
	chains  map[fault.Direction]*link.Chain
	next    map[fault.Direction]int64
	carried bool
	now     time.Duration
	over    bool
	out     strings.Builder
}

type step struct {
	at   time.Duration
	way  fault.Direction
	verb string
	arg  string
}

func parse(script string) ([]step, error) {
	var steps []step
	var at time.Duration
	for i, line := range strings.Split(script, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if d, err := time.ParseDuration(words[0]); err == nil {
			if d < at {
				return nil, fmt.Errorf("linktest: line %d: time goes back", i+1)
			}
			at, words = d, words[1:]
		}
		st := step{at: at}
		if len(words) > 0 && (words[0] == "up" || words[0] == "down") {
			st.way, words = fault.Direction(words[0]), words[1:]
		}
		if len(words) == 0 || len(words) > 2 {
			return nil, fmt.Errorf("linktest: line %d: want [time] [up|down] verb [argument]", i+1)
		}
		st.verb = words[0]
		if len(words) == 2 {
			st.arg = words[1]
		}
		steps = append(steps, st)
	}
	return steps, nil
}

func (r *run) step(st step) error {
	chain := r.chains[st.way]
	switch st.verb {
	case "send", "fin", "rst":
		if chain == nil {
			return fmt.Errorf("linktest: %s needs a direction", st.verb)
		}
		p := link.Packet{Index: r.next[st.way]}
		r.next[st.way]++
		switch st.verb {
		case "fin":
			p.Kind = link.Fin
		case "rst":
			p.Kind = link.Rst
		default:
			n, err := strconv.Atoi(st.arg)
			if err != nil {
				return fmt.Errorf("linktest: send: %w", err)
			}
			p.Data = make([]byte, n)
		}
		chain.Push(st.at, p)
	case "install", "lift":
		for _, rule := range r.setup.Rules {
			if rule.ID != st.arg {
				continue
			}
			if st.verb == "install" {
				r.install(st.at, rule)
			} else {
				r.lift(st.at, rule)
			}
			return nil
		}
		return fmt.Errorf("linktest: no rule %q", st.arg)
	case "end":
	default:
		return fmt.Errorf("linktest: unknown verb %q", st.verb)
	}
	return nil
}

func (r *run) install(at time.Duration, rule fault.Rule) {
	for _, way := range ways() {
		if !rule.Link.Direction.Covers(rule.Link.Pair, "client", way) {
			continue
		}
		st := link.NewStage(rule.ID, rule.Link.Effect, link.Setting{
			Draw:     link.Draws(r.setup.Seed, rule.ID, FlowName, way),
			Datagram: r.setup.Datagram,
			Began:    at,
			Carried:  r.carried,
		})
		if st != nil {
			r.chains[way].Add(rule.ID, rule.Link.Effect.Kind, st)
		}
	}
}

func (r *run) lift(at time.Duration, rule fault.Rule) {
	for _, way := range ways() {
		r.chains[way].Remove(at, rule.ID)
	}
}

// until lets the chains run up to a time, outcomes of both directions in the order of time.
func (r *run) until(end time.Duration) {
	for !r.over {
		best, when := fault.Direction(""), end
		for _, way := range ways() {
			if at, ok := r.chains[way].Next(); ok && at <= end && (best == "" || at < when) {
				best, when = way, at
			}
		}
		if best == "" {
			return
		}
		r.now = max(r.now, when)
		if o, ok := r.chains[best].Pop(r.now); ok {
			r.outcome(best, o)
		}
	}
}

func (r *run) outcome(way fault.Direction, o link.Outcome) {
	n := len(o.Packet.Data)
	switch {
	case o.Verb == link.Drop:
		r.print(r.now, way, fmt.Sprintf("drop %d #%d by %s", n, o.Packet.Index, o.Rule))
	case o.Verb == link.Reset, o.Verb == link.Finish:
		what := map[link.Verb]string{link.Reset: "rst", link.Finish: "fin"}[o.Verb]
		r.print(r.now, way, fmt.Sprintf("%s to both by %s", what, o.Rule))
		r.over = true
	case o.Packet.Kind == link.Fin:
		r.print(r.now, way, "fin")
	case o.Packet.Kind == link.Rst:
		r.print(r.now, way, "rst")
		r.over = true
	case r.setup.Datagram:
		r.print(r.now, way, fmt.Sprintf("recv %d #%d", n, o.Packet.Index))
		r.carried = true
	default:
		r.print(r.now, way, fmt.Sprintf("recv %d", n))
		r.carried = true
	}
}

func (r *run) print(at time.Duration, way fault.Direction, what string) {
	fmt.Fprintf(&r.out, "%-8s %-4s %s\n", at, way, what)
}
