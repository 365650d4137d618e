package starbind

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// linkEntries are the builtins for effects on connections.
func linkEntries(ld *loader) []entry {
	direction := func(words ...string) param {
		return param{Name: "direction", Kind: bind.Choice(words...), Preset: `"both"`, Doc: `the bytes concerned: "up" is from the client to the server`}
	}
	ways := direction("both", "up", "down")
	after := param{Name: "after_bytes", Kind: bind.Int(0, math.MaxInt32), Preset: "0", Doc: "lets so many bytes of the direction pass first"}
	probability := func(required bool) param {
		return param{Name: "probability", Kind: bind.Probability(), Required: required, Preset: "always", Doc: "how many datagrams are hit"}
	}
	rows := []entry{
		linkEntry(fault.Latency, `latency("200ms", jitter = "50ms")`,
			param{Name: "delay", Kind: bind.Duration(), Required: true, Doc: "how much later bytes arrive, one way"},
			param{Name: "jitter", Kind: bind.Duration(), Preset: `"0s"`, Doc: "added, drawn uniformly from [0, jitter)"},
			ways, param{Name: "connect", Kind: bind.Bool(), Preset: "False", Doc: "holds the opening of connections too"}),
		linkEntry(fault.Bandwidth, `bandwidth("1mbit")`,
			param{Name: "rate", Kind: bind.Rate(), Required: true, Doc: `such as "1mbit" or "2MB/s"`}, ways),
		linkEntry(fault.Reset, `reset(after_bytes = 4096)`, after, ways),
		linkEntry(fault.Refuse, `refuse()`),
		linkEntry(fault.TimeOut, `timeout("300ms")`,
			param{Name: "delay", Kind: bind.Duration(), Required: true, Doc: "how long connecting takes before it fails"}),
		linkEntry(fault.Blackhole, `blackhole(direction = "down")`, ways),
		linkEntry(fault.HalfOpen, `half_open()`),
		linkEntry(fault.Cut, `cut(after_bytes = 100, how = "rst")`, after,
			param{Name: "how", Kind: bind.Choice("fin", "rst"), Preset: `"fin"`, Doc: "how the connection ends"}, ways),
		linkEntry(fault.Loss, `loss("10%")`, probability(true), ways),
		linkEntry(fault.Duplicate, `duplicate(count = 2)`,
			param{Name: "count", Kind: bind.Int(1, 1000), Preset: "1", Doc: "how many extra copies are made"}, probability(false), ways),
		linkEntry(fault.Reorder, `reorder(by = 2)`,
			param{Name: "by", Kind: bind.Int(1, 1000), Preset: "1", Doc: "how many datagrams later one arrives"}, probability(false), ways),
	}
	pair := []param{
		{Name: "a", Kind: topology.ServiceKind(), Required: true, Doc: "one service"},
		{Name: "b", Kind: topology.ServiceKind(), Required: true, Doc: "the other"},
	}
	pairWays := param{Name: "direction", Kind: bind.Choice("both", "a_to_b", "b_to_a"), Preset: `"both"`, Doc: "which bytes are lost"}
	for i := range rows {
		if rows[i].Name == string(fault.Duplicate) {
			duplicatesRequests(&rows[i], ld)
		}
	}
	return append(rows,
		entry{
			Name: "partition", Phases: bind.AtLoad | bind.InBody, Pure: true, Acts: bind.OnConnections, Reach: bind.InjectsPartition,
			Doc:     "cuts two services off from each other, as with a pulled cable, on new and on established connections. It is a rule; with run it is in force while a function runs and returns the function's result.",
			Example: `partition(n1, n2, direction = "a_to_b", run = lambda: sleep("2s"))`,
			Params: append(append([]param{}, pair[0], pair[1], pairWays,
				param{Name: "run", Kind: bind.Function(0), Doc: "in a scenario: what to do meanwhile"}), append(limitParams("connection"), ruleParams()...)...),
			Do: do(doPartition),
		},
		entry{
			Name: "partition_start", Phases: bind.InBody, Reach: bind.InjectsPartition,
			Doc:     "cuts two services off from each other until partition_stop or the end of the body.",
			Example: `partition_start(n1, n2)`,
			Params:  append(append([]param{}, pair...), pairWays),
			Do:      do(doPartitionStart),
		},
		entry{
			Name: "partition_stop", Phases: bind.InBody,
			Doc:     "heals what partition_start cut.",
			Example: `partition_stop(n1, n2)`,
			Params:  pair,
			Do:      do(doPartitionStop),
		},
		entry{
			Name: "link", Phases: bind.AtLoad | bind.InBody, Reach: bind.InjectsLink,
			Doc:     "names the connections from one service to another, or to one of its interfaces.",
			Example: `latency("200ms", on = link(api, db.pg))`,
			Params: []param{
				{Name: "client", Kind: topology.ServiceKind(), Required: true, Doc: "the service that connects"},
				{Name: "server", Kind: aTarget(), Required: true, Doc: "the service or interface that it connects to"},
			},
			Do: do(func(c *call) (starlark.Value, error) {
				to := arg[target](c, "server")
				p := fault.Pair{A: arg[string](c, "client"), B: to.service, Interface: to.iface, Directed: true}
				return &linkValue{named("link", p.A+" -> "+to.service), p}, nil
			}),
		})
}

// duplicatesRequests makes the effect one on requests too.
func duplicatesRequests(e *entry, ld *loader) {
	e.Doc += " On an interface whose requests can be told apart, it sends requests to the server twice; the client gets the first answer."
	e.Acts |= bind.OnMessages
	e.Rest = matchKeywords(ld)
	for i := range e.Params {
		e.Params[i].Doc = strings.ReplaceAll(e.Params[i].Doc, "datagram", "datagram or request")
	}
}

// limitParams are the limits of effects on connections. What an effect is on, each connection or each datagram, is counted.
func limitParams(what string) []param {
	var out []param
	for _, p := range syscallParams() {
		switch p.Name {
		case "probability":
			if what == "datagram" {
				continue // it is part of these effects
			}
		case "nth", "after", "every", "max_fires":
		default:
			continue
		}
		p.Doc = strings.ReplaceAll(p.Doc, "call", what)
		out = append(out, p)
	}
	return out
}

// linkEntry is a builtin for one kind of effect. Its doc comes from the table of kinds.
func linkEntry(k fault.LinkKind, example string, params ...param) entry {
	row, _ := fault.LinkKindOf(k)
	sorts, counted := "connections", "connection"
	switch {
	case row.Datagram && row.Stream:
		sorts, counted = "connections and datagrams", "connection or datagram"
	case row.Datagram:
		sorts, counted = "datagrams", "datagram"
	}
	return entry{
		Name: string(k), Phases: bind.AtLoad | bind.InBody, Pure: true, Acts: bind.OnConnections,
		Doc:     row.Doc + ". It is a rule for " + sorts + ".",
		Example: example,
		Params: append(append(params,
			param{Name: "on", Kind: aLink(), Preset: "the target's", Doc: "the connections concerned: link()"}), append(limitParams(counted), ruleParams()...)...),
		Do: do(func(c *call) (starlark.Value, error) { return linkEffect(c, k), nil }),
	}
}

// ruleParams are the options that effects on connections share.
func ruleParams() []param {
	return []param{
		{Name: "optional", Kind: bind.Bool(), Preset: "False", Doc: "a leaf may pass although the rule never fired"},
		{Name: "during", Kind: bind.Choice("body", "start"), Preset: `"body"`, Doc: `"start" puts it in force before the programs run`},
		{Name: "label", Kind: bind.Name(), Preset: "the effect's name", Doc: "its name in records"},
	}
}

func aLink() kind {
	return bind.Scalar("a link()", func(v starlark.Value) (any, bool) {
		l, ok := v.(*linkValue)
		return l, ok
	})
}

func aLinkRule() kind {
	return bind.Scalar("an effect on connections, such as latency()", func(v starlark.Value) (any, bool) {
		if e, ok := v.(*syscallEffect); ok && e.message != nil {
			return e.onMessages(), true
		}
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
	if c.Has("delay") && e.Delay == 0 && e.Jitter == 0 {
		c.Errorf(c.Where("delay"), "", "a delay of nothing has no effect")
	}
	r := &linkRule{
		opaque: named("rule", string(k)+"(...)"), effect: e,
		direction: directionOf(c), ruleOptions: c.options(),
	}
	if k == fault.Duplicate {
		r.message = &messageEffect{verb: protocol.Duplicate, match: c.matches(), refused: refusedByMessages(c)}
		r.drawn = r.when
	}
	if row, _ := fault.LinkKindOf(k); !row.Stream {
		r.when.Probability = 0 // it is part of the effect
	} else {
		r.effect.Probability = 0 // it chooses connections
	}
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
		c.Errorf(c.Where("b"), "", "a service can't be cut off from itself")
	}
	return &linkRule{
		opaque: named("rule", fmt.Sprintf("partition(%s, %s)", a, b)), effect: fault.LinkEffect{Kind: fault.Partition},
		direction: directionOf(c), pair: &fault.Pair{A: a, B: b}, ruleOptions: c.options(),
	}
}

// linkRules turns effects into rules on the connections that they, or the call's target, name.
func (c *call) linkRules(ids *namer, tgt target, assumption string, effects []*linkRule) []fault.Rule {
	var rules []fault.Rule
	for _, e := range effects {
		if e.process != nil {
			if r, ok := c.processRule(ids, e, tgt, assumption); ok {
				rules = append(rules, r)
			}
			continue
		}
		pair := e.pair
		if pair == nil {
			if tgt.service == "" {
				if !c.TriedAndFailed("target") {
					c.Report(e.at, "", e.homeless())
				}
				continue
			}
			pair = &fault.Pair{A: arg[string](c, "source"), B: tgt.service, Interface: tgt.iface, Directed: true}
		}
		c.checkSockets(e, *pair)
		if e.message != nil && !c.actsOnDatagrams(e, *pair) {
			if r, ok := c.messageRule(ids, e, *pair, assumption); ok {
				rules = append(rules, r)
			}
			continue
		}
		c.checkSort(e, *pair)
		rules = append(rules, fault.Rule{
			ID: ids.name(orElse(e.label, string(e.effect.Kind))), Assumption: assumption,
			Link: &fault.Link{Pair: *pair, Direction: e.direction, Effect: e.effect}, When: e.when,
			Optional: e.optional, During: e.during, Position: source.PlaceOf(e.at.Start).String(),
		})
	}
	return rules
}

// checkSort reports an effect that can't act on any interface of the pair's server.
func (c *call) checkSort(e *linkRule, p fault.Pair) {
	row, ok := fault.LinkKindOf(e.effect.Kind)
	s := c.env.loader.topology.Service(p.B)
	if !ok || s == nil || !p.Directed || (row.Stream && row.Datagram) || len(s.Interfaces) == 0 {
		return
	}
	var seen []string
	for _, i := range s.Interfaces {
		if p.Interface != "" && p.Interface != i.Decl.Name {
			continue
		}
		if info := c.env.loader.protocols[i.Decl.Protocol]; (info.Datagram && row.Datagram) || (!info.Datagram && row.Stream) {
			return
		}
		seen = append(seen, fmt.Sprintf("%s.%s (%s)", p.B, i.Decl.Name, i.Decl.Protocol))
	}
	sort := "connections"
	if row.Datagram {
		sort = "datagrams"
	}
	c.Report(e.at, "", fmt.Sprintf("%s: acts on %s only, and %s has none", e.effect.Kind, sort, strings.Join(seen, ", ")))
}

// checkSockets reports an effect on a pair that has Unix sockets only, once both services are declared.
func (c *call) checkSockets(e *linkRule, p fault.Pair) {
	d, t := &c.env.loader.decls, c.env.loader.topology
	report := func(i *spec.Interface) {
		c.Report(e.at, "", fmt.Sprintf("%s: %s.%s is the Unix socket %s; no rule acts on its connections, which services make to it directly", e.name(), i.Service, i.Name, i.Path))
	}
	check := func() {
		found := socketsOnly(t, p.B, p.Interface)
		if !p.Directed && found != nil && t.Service(p.A) != nil && len(t.Service(p.A).Interfaces) > 0 && socketsOnly(t, p.A, "") == nil {
			return // the other way there are connections
		}
		if found != nil {
			report(found)
		}
	}
	if p.B != "" && t.Service(p.B) == nil && c.env.when == bind.AtLoad {
		d.later = append(d.later, check)
		return
	}
	check()
}

// socketsOnly returns an interface of those meant, where all of them are Unix sockets.
func socketsOnly(t *topology.Topology, name, iface string) *spec.Interface {
	s := t.Service(name)
	if s == nil {
		return nil
	}
	var found *spec.Interface
	for _, i := range s.Interfaces {
		if iface != "" && i.Decl.Name != iface {
			continue
		}
		if i.Decl.Path == "" {
			return nil
		}
		found = i.Decl
	}
	return found
}
