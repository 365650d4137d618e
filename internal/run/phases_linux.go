package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/internal/run/ready"
	"github.com/squallhq/squall/internal/run/wire"
	"github.com/squallhq/squall/verdict"
)

// stopLimit bounds the end of a leaf, whatever its services do.
const stopLimit = 20 * time.Second

// during returns the rules that are in force in a phase.
func during(rules []fault.Rule, phase string) []fault.Rule {
	var out []fault.Rule
	for _, r := range rules {
		if r.During == phase || r.During == "" && phase == "body" {
			out = append(out, r)
		}
	}
	return out
}

// start starts the services, each once those that it depends on are ready. It returns why the leaf
// cannot go on, or nil.
func (l *leaf) start(ctx context.Context) *verdict.Reason {
	limit := wire.Patience
	for _, s := range l.services {
		limit += ready.Limit(s.Service)
		if s.Seed != nil {
			limit += l.timeout()
		}
	}
	l.alive.Expect(limit, fmt.Sprintf("the services were neither ready nor given up within %s", limit))
	if l.job.Shared {
		if why := l.taken(); why != nil {
			return why
		}
	}
	if rules := during(l.plan.Rules(), "start"); len(rules) > 0 {
		if _, err := l.faults.Install(rules); err != nil {
			why := uninstallable(err)
			return &verdict.Reason{Code: verdict.Code(why.Code), Detail: why.Detail, Subject: why.Subject, Position: why.Position}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up := map[string]chan struct{}{}
	for _, s := range l.system.suite.Services {
		up[s.Name] = make(chan struct{})
	}
	turns := l.turns()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first *verdict.Reason
	for _, decl := range l.system.suite.Services {
		s := l.services[decl.Name]
		wg.Go(func() {
			for _, d := range s.DependsOn {
				select {
				case <-up[d]:
				case <-ctx.Done():
					return
				}
			}
			why := s.begin(ctx, turns)
			if why == nil {
				close(up[s.Name])
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = why
			}
			cancel()
		})
	}
	wg.Wait()
	return first
}

// taken says what cannot be had on the machine's own network and files. A service that found its port taken
// would end, and what is tried on it would be answered by whoever has the port.
func (l *leaf) taken() *verdict.Reason {
	type place struct {
		port     int
		datagram bool
	}
	owners := map[place]string{}
	if v := l.system.suite.Volumes; len(v) > 0 {
		return &verdict.Reason{
			Code: verdict.NeedsNamespaces, Subject: v[0].Service, Position: v[0].Position,
			Detail: fmt.Sprintf("%s has a volume at %s, which takes files of the leaf's own", v[0].Service, v[0].Target),
		}
	}
	for _, decl := range l.system.suite.Services {
		for _, face := range decl.Interfaces {
			if face.Path != "" {
				return &verdict.Reason{
					Code: verdict.NeedsNamespaces, Subject: decl.Name, Position: face.Position,
					Detail: fmt.Sprintf("%s listens at the Unix socket %s, which takes files of the leaf's own", decl.Name, face.Path),
				}
			}
			at := place{face.Port, face.Protocol == "udp"}
			if other := owners[at]; other != "" && other != decl.Name {
				return &verdict.Reason{
					Code: verdict.NeedsNamespaces, Subject: decl.Name, Position: face.Position,
					Detail: fmt.Sprintf("%s and %s both listen at port %d, which takes a network for each", other, decl.Name, face.Port),
				}
			}
			owners[at] = decl.Name
			look := l.services[decl.Name].network.Listening
			if at.datagram {
				look = l.services[decl.Name].network.Bound
			}
			if v4, v6 := look(face.Port); v4 || v6 {
				return &verdict.Reason{
					Code: verdict.PortTaken, Subject: decl.Name, Position: face.Position,
					Detail: fmt.Sprintf("%s: port %d is taken by another program of this machine", decl.Name, face.Port),
				}
			}
		}
	}
	return nil
}

// stop ends the services, dependants first, and reads their output to the end.
func (l *leaf) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	l.alive.Expect(stopLimit+wire.Patience, fmt.Sprintf("the services were not at their end within %s", stopLimit+wire.Patience))
	defer l.alive.Expect(0, "")
	for _, c := range l.clients {
		_ = c.Close()
	}
	l.system.net.heal()
	l.faults.Heal()
	l.system.processes.Close()
	for _, layer := range l.layers() {
		var wg sync.WaitGroup
		for _, s := range layer {
			wg.Go(func() { s.stop(ctx) })
		}
		wg.Wait()
	}
}

// layers returns the services in the order of stopping: first those that nothing depends on.
func (l *leaf) layers() [][]*service {
	depth := map[string]int{}
	var visit func(name string) int
	visit = func(name string) int {
		if d, ok := depth[name]; ok {
			return d
		}
		d := 0
		for _, other := range l.services {
			if slices.Contains(other.DependsOn, name) {
				d = max(d, visit(other.Name)+1)
			}
		}
		depth[name] = d
		return d
	}
	var out [][]*service
	for _, decl := range l.system.suite.Services {
		d := visit(decl.Name)
		for len(out) <= d {
			out = append(out, nil)
		}
		out[d] = append(out[d], l.services[decl.Name])
	}
	return out
}

// done judges the leaf.
func (l *leaf) done(end outcome, duration time.Duration) wire.Done {
	_ = l.violated()
	reasons, warnings, records := l.judge.props.Finish(end.Ending)
	for _, r := range records {
		l.log.Append(event.Driver, event.Property, map[string]any{
			"name": r.Name, "result": r.Result, "message": r.Message, "witness": r.Witness,
		})
	}
	in := check.Input{
		Ending: end.Ending, Expected: end.expected && !l.judge.unjudged.Load(), Expect: end.expect, Asserted: l.judge.asserted.Load(),
		Reasons: slices.Concat(end.reasons, l.faults.Bypasses(), l.system.messages.Bypasses(), l.choices.reason(), l.judge.leaks.Reasons(), reasons), Warnings: warnings, Records: records, Events: l.log.All(),
	}
	rules := l.faults.Records()
	for _, r := range rules {
		in.Rules = append(in.Rules, check.Rule{RuleRecord: r, Why: l.why(r)})
	}
	v := check.Judge(in)
	decisions := slices.Concat(l.system.inject.Decisions(), l.system.net.decisions(), l.system.messages.Decisions())
	events := l.log.All()
	return wire.Done{
		Decisions: decisions, Met: l.choices.met(), Waits: l.choices.waits(), Idle: !l.operations.Load(), Unmet: l.choices.unmet(),
		Leaf: bundle.Leaf{
			ID: l.plan.ID, Scenario: l.plan.Scenario.Name, Assumption: l.plan.AssumptionName(),
			Seed: uint64(l.plan.Seed), Verdict: v, Duration: duration, Phases: l.phases, Rules: rules,
			Properties: records, Choices: l.choices.records(), Result: end.result, Events: len(events),
			Assurance: l.assurance(),
			Trace:     check.Hash(check.NormalForm(events, decisions)),
		},
	}
}

// why says why a rule never fired, as far as the log knows.
func (l *leaf) why(r bundle.RuleRecord) string {
	if r.Fired > 0 {
		return ""
	}
	rule, ok := l.faults.Rule(r.ID)
	if !ok {
		return ""
	}
	if rule.Syscall != nil {
		return l.whyNoCall(rule)
	}
	if rule.Message != nil {
		return l.whyNoMessage(rule)
	}
	if rule.Process != nil {
		return l.system.processes.Why(rule.ID)
	}
	n := 0
	for _, e := range l.log.All() {
		if e.Kind == event.Link && e.String("op") == "connect" &&
			rule.Link.Pair.Matches(e.String("client"), e.String("server"), e.String("interface")) {
			n++
		}
	}
	if n == 0 {
		return fmt.Sprintf("no connection %s in this leaf", r.Target)
	}
	return fmt.Sprintf("%d connections %s, but nothing passed that it acts on while it was in force", n, r.Target)
}

// whyNoCall says what the service did instead of the calls that a rule waits for.
func (l *leaf) whyNoCall(r fault.Rule) string {
	rule := r.Syscall
	s := l.services[rule.Service]
	if s == nil {
		return "there is no service " + rule.Service
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, call := range rule.Calls {
		n += s.seen[call]
	}
	if lost := s.lost[r.ID]; lost > 0 {
		return fmt.Sprintf("%s ended, or was interrupted, before the fault reached it (%d times)", rule.Service, lost)
	}
	if n == 0 {
		return fmt.Sprintf("%s made no such call while the fault was in force", rule.Service)
	}
	return fmt.Sprintf("%s made %d such calls, none of which it selects%s", rule.Service, n, selects(r))
}

// selects says what a rule looks for beside the call.
func selects(r fault.Rule) string {
	var parts []string
	var on []string
	for _, d := range r.Syscall.On {
		on = append(on, string(d))
	}
	add := func(ok bool, format string, v any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(len(on) > 0, "on %s", strings.Join(on, " or "))
	add(r.Syscall.Path != "", "path %s", r.Syscall.Path)
	add(r.Syscall.Partial > 0, "more than %d bytes", r.Syscall.Partial)
	if r.Syscall.Link != nil {
		parts = append(parts, "on "+r.Syscall.Link.String())
	}
	parts = append(parts, limitsOf(r.When)...)
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// limitsOf says in words which of the matching operations a rule hits.
func limitsOf(w fault.When) []string {
	var parts []string
	add := func(ok bool, format string, v any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(w.Nth > 0, "only the %dth", w.Nth)
	add(w.After > 0, "after the first %d", w.After)
	add(w.Every > 0, "each %dth", w.Every)
	add(w.Probability > 0 && w.Probability < 1, "with probability %g", w.Probability)
	return parts
}
