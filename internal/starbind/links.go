package starbind

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
)

// linkEntries are the builtins for effects on connections.
func linkEntries() []entry {
	direction := func(words ...string) param {
		return param{name: "direction", kind: aChoice(words...), preset: `"both"`, doc: `the bytes concerned: "up" is from the client to the server`}
	}
	ways := direction("both", "up", "down")
	after := param{name: "after_bytes", kind: anInt(0, math.MaxInt32), preset: "0", doc: "lets so many bytes of the direction pass first"}
	probability := func(required bool) param {
		return param{name: "probability", kind: aProbability(), required: required, preset: "always", doc: "how many datagrams are hit"}
	}
	rows := []entry{
		linkEntry(fault.Latency, `latency("200ms", jitter = "50ms")`,
			param{name: "delay", kind: aDuration(), required: true, doc: "how much later bytes arrive, one way"},
			param{name: "jitter", kind: aDuration(), preset: `"0s"`, doc: "added, drawn uniformly from [0, jitter)"},
			ways, param{name: "connect", kind: aBool(), preset: "False", doc: "holds the opening of connections too"}),
		linkEntry(fault.Bandwidth, `bandwidth("1mbit")`,
			param{name: "rate", kind: aRate(), required: true, doc: `such as "1mbit" or "2MB/s"`}, ways),
		linkEntry(fault.Reset, `reset(after_bytes = 4096)`, after, ways),
		linkEntry(fault.Refuse, `refuse()`),
		linkEntry(fault.TimeOut, `timeout("300ms")`,
			param{name: "delay", kind: aDuration(), required: true, doc: "how long connecting takes before it fails"}),
		linkEntry(fault.Blackhole, `blackhole(direction = "down")`, ways),
		linkEntry(fault.HalfOpen, `half_open()`),
		linkEntry(fault.Cut, `cut(after_bytes = 100, how = "rst")`, after,
			param{name: "how", kind: aChoice("fin", "rst"), preset: `"fin"`, doc: "how the connection ends"}, ways),
		linkEntry(fault.Loss, `loss("10%")`, probability(true), ways),
		linkEntry(fault.Duplicate, `duplicate(count = 2)`,
			param{name: "count", kind: anInt(1, 1000), preset: "1", doc: "how many extra copies are made"}, probability(false), ways),
		linkEntry(fault.Reorder, `reorder(by = 2)`,
			param{name: "by", kind: anInt(1, 1000), preset: "1", doc: "how many datagrams later one arrives"}, probability(false), ways),
	}
	pair := []param{
		{name: "a", kind: aService(), required: true, doc: "one service"},
		{name: "b", kind: aService(), required: true, doc: "the other"},
	}
	pairWays := param{name: "direction", kind: aChoice("both", "a_to_b", "b_to_a"), preset: `"both"`, doc: "which bytes are lost"}
	return append(rows,
		entry{
			name: "partition", phases: atLoad | inBody, pure: true, reach: injectsPartition,
			doc:     "cuts two services off from each other, as with a pulled cable, on new and on established connections. It is a rule; with run it is in force while a function runs and returns the function's result.",
			example: `partition(n1, n2, direction = "a_to_b", run = lambda: sleep("2s"))`,
			params: append(append([]param{}, pair[0], pair[1], pairWays,
				param{name: "run", kind: aFunction(0), doc: "in a scenario: what to do meanwhile"}), ruleParams()...),
			do: doPartition,
		},
		entry{
			name: "partition_start", phases: inBody, reach: injectsPartition,
			doc:     "cuts two services off from each other until partition_stop or the end of the body.",
			example: `partition_start(n1, n2)`,
			params:  append(append([]param{}, pair...), pairWays),
			do:      doPartitionStart,
		},
		entry{
			name: "partition_stop", phases: inBody,
			doc:     "heals what partition_start cut.",
			example: `partition_stop(n1, n2)`,
			params:  pair,
			do:      doPartitionStop,
		},
		entry{
			name: "link", phases: atLoad | inBody, reach: injectsLink,
			doc:     "names the connections from one service to another, or to one of its interfaces.",
			example: `latency("200ms", on = link(api, db.pg))`,
			params: []param{
				{name: "client", kind: aService(), required: true, doc: "the service that connects"},
				{name: "server", kind: aTarget(), required: true, doc: "the service or interface that it connects to"},
			},
			do: func(c *call) (starlark.Value, error) {
				to := arg[target](c, "server")
				p := fault.Pair{A: arg[string](c, "client"), B: to.service, Interface: to.iface, Directed: true}
				return &linkValue{opaque{"link", p.A + " -> " + to.service}, p}, nil
			},
		})
}

// linkEntry is a builtin for one kind of effect. Its doc comes from the table of kinds.
func linkEntry(k fault.LinkKind, example string, params ...param) entry {
	row, _ := fault.LinkKindOf(k)
	sorts := "connections"
	switch {
	case row.Datagram && row.Stream:
		sorts = "connections and datagrams"
	case row.Datagram:
		sorts = "datagrams"
	}
	return entry{
		name: string(k), phases: atLoad | inBody, pure: true,
		doc:     row.Doc + ". It is a rule for " + sorts + ".",
		example: example,
		params: append(append(params,
			param{name: "on", kind: aLink(), preset: "the target's", doc: "the connections concerned: link()"}), ruleParams()...),
		do: func(c *call) (starlark.Value, error) { return linkEffect(c, k), nil },
	}
}

// ruleParams are the options that effects on connections share.
func ruleParams() []param {
	return []param{
		{name: "optional", kind: aBool(), preset: "False", doc: "a leaf may pass although the rule never fired"},
		{name: "during", kind: aChoice("body", "start"), preset: `"body"`, doc: `"start" puts it in force before the programs run`},
		{name: "label", kind: aName(), preset: "the effect's name", doc: "its name in records"},
	}
}

func aLink() kind {
	return scalar("a link()", func(v starlark.Value) (any, bool) {
		l, ok := v.(*linkValue)
		return l, ok
	})
}

func aLinkRule() kind {
	return scalar("an effect on connections, such as latency()", func(v starlark.Value) (any, bool) {
		r, ok := v.(*linkRule)
		return r, ok
	})
}

func linkEffect(c *call, k fault.LinkKind) *linkRule {
	e := fault.LinkEffect{
		Kind: k, Delay: arg[time.Duration](c, "delay"), Jitter: arg[time.Duration](c, "jitter"),
		Connect: arg[bool](c, "connect"), BytesPerSecond: arg[int64](c, "rate"),
		AfterBytes: int64(arg[int](c, "after_bytes")), How: arg[string](c, "how"),
		Probability: arg[float64](c, "probability"), Count: arg[int](c, "count") + arg[int](c, "by"),
	}
	if (k == fault.Duplicate || k == fault.Reorder) && e.Count == 0 {
		e.Count = 1
	}
	if k == fault.Cut && e.How == "" {
		e.How = "fin"
	}
	if c.has("delay") && e.Delay == 0 && e.Jitter == 0 {
		c.errorf(c.where("delay"), "", "a delay of nothing has no effect")
	}
	r := &linkRule{
		opaque: opaque{"rule", string(k) + "(...)"}, effect: e,
		direction: directionOf(c), ruleOptions: c.options(),
	}
	r.when.Probability = 0 // it is part of the effect
	if l := arg[*linkValue](c, "on"); l != nil {
		r.pair = &l.pair
	}
	return r
}

func directionOf(c *call) fault.Direction {
	return fault.Direction(orElse(arg[string](c, "direction"), string(fault.Both)))
}

func partitionRule(c *call) *linkRule {
	a, b := arg[string](c, "a"), arg[string](c, "b")
	if a == b {
		c.errorf(c.where("b"), "", "a service can't be cut off from itself")
	}
	return &linkRule{
		opaque: opaque{"rule", fmt.Sprintf("partition(%s, %s)", a, b)}, effect: fault.LinkEffect{Kind: fault.Partition},
		direction: directionOf(c), pair: &fault.Pair{A: a, B: b}, ruleOptions: c.options(),
	}
}

// linkRules turns effects into rules on the connections that they, or the call's target, name.
func (c *call) linkRules(ids *namer, tgt target, assumption string, effects []*linkRule) []fault.Rule {
	var rules []fault.Rule
	for _, e := range effects {
		pair := e.pair
		if pair == nil {
			if tgt.service == "" {
				if !c.triedAndFailed("target") {
					c.report(e.at, "", fmt.Sprintf("%s: says not between whom: give the assumption target=, or the rule on=link(...)", e.effect.Kind))
				}
				continue
			}
			pair = &fault.Pair{A: arg[string](c, "source"), B: tgt.service, Interface: tgt.iface, Directed: true}
		}
		c.checkSort(e, *pair)
		rules = append(rules, fault.Rule{
			ID: ids.name(orElse(e.label, string(e.effect.Kind))), Assumption: assumption,
			Link: &fault.Link{Pair: *pair, Direction: e.direction, Effect: e.effect}, When: e.when,
			Optional: e.optional, During: e.during, Position: placeOf(e.at.start).String(),
		})
	}
	return rules
}

// checkSort reports an effect that can't act on any interface of the pair's server.
func (c *call) checkSort(e *linkRule, p fault.Pair) {
	row, ok := fault.LinkKindOf(e.effect.Kind)
	s := c.env.loader.decls.service(p.B)
	if !ok || s == nil || !p.Directed || (row.Stream && row.Datagram) || len(s.ifaces) == 0 {
		return
	}
	var seen []string
	for _, i := range s.ifaces {
		if p.Interface != "" && p.Interface != i.decl.Name {
			continue
		}
		if info := c.env.loader.protocols[i.decl.Protocol]; (info.Datagram && row.Datagram) || (!info.Datagram && row.Stream) {
			return
		}
		seen = append(seen, fmt.Sprintf("%s.%s (%s)", p.B, i.decl.Name, i.decl.Protocol))
	}
	sort := "connections"
	if row.Datagram {
		sort = "datagrams"
	}
	c.report(e.at, "", fmt.Sprintf("%s: acts on %s only, and %s has none", e.effect.Kind, sort, strings.Join(seen, ", ")))
}
