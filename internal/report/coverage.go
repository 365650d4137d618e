package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/verdict"
)

// coverage is what the run exercised, and what it did not.
type coverage struct {
	Links []linkCoverage
	Rules []ruleCoverage
	// Tried and Untried are classes of fault, by the families' names.
	Tried, Untried []string
	NotTested      []string
}

type linkCoverage struct {
	From, To string
	// Connections is how many there were; Leaves in how many leaves; Faulted in how many a rule acted.
	Connections, Leaves, Faulted int
}

type ruleCoverage struct {
	Assumption, Effect, Target string
	// Fired is over all leaves; In is in how many of Of leaves it fired.
	Fired, In, Of int
	Optional      bool
}

type linkKey struct{ from, to string }

// surveyor collects coverage leaf by leaf.
type surveyor struct {
	plan    bundle.Plan
	links   map[linkKey]*linkCoverage
	reached map[string]bool
}

// newSurveyor begins with every link that the plan promises.
func newSurveyor(p bundle.Plan) *surveyor {
	s := &surveyor{plan: p, links: map[linkKey]*linkCoverage{}, reached: map[string]bool{}}
	interfaces := map[string][]string{}
	for _, service := range p.Services {
		for _, i := range service.Interfaces {
			interfaces[service.Name] = append(interfaces[service.Name], service.Name+"."+i.Name)
		}
	}
	for _, service := range p.Services {
		for _, server := range service.DependsOn {
			for _, to := range interfaces[server] {
				s.link(service.Name, to)
			}
		}
	}
	return s
}

func (s *surveyor) link(from, to string) *linkCoverage {
	key := linkKey{from, to}
	if s.links[key] == nil {
		s.links[key] = &linkCoverage{From: from, To: to}
	}
	return s.links[key]
}

// leaf adds what one leaf exercised.
func (s *surveyor) leaf(events []event.Event) {
	connected, faulted := map[linkKey]bool{}, map[linkKey]bool{}
	for _, e := range events {
		switch e.Kind {
		case event.Link:
			to := e.String("server")
			if i := e.String("interface"); i != "" {
				to += "." + i
			}
			key := linkKey{e.String("client"), to}
			l := s.link(key.from, key.to)
			s.reached[to] = true
			if e.String("op") == "connect" {
				l.Connections++
			}
			connected[key] = true
			if actedOn(e) || e.String("rule") != "" {
				faulted[key] = true
			}
		case event.Message:
			if actedOn(e) {
				key := linkKey{e.String("client"), e.String("server") + "." + e.String("interface")}
				s.link(key.from, key.to)
				faulted[key] = true
			}
		case event.StepSend:
			key := linkKey{event.Driver, e.String("target")}
			s.link(key.from, key.to).Connections++
			s.reached[key.to] = true
			connected[key] = true
		}
	}
	for key := range connected {
		s.links[key].Leaves++
	}
	for key := range faulted {
		s.links[key].Faulted++
	}
}

func (s *surveyor) result(v bundle.Verdicts) coverage {
	var c coverage
	for _, l := range s.links {
		c.Links = append(c.Links, *l)
	}
	slices.SortFunc(c.Links, func(a, b linkCoverage) int {
		return cmp.Or(cmp.Compare(b.Leaves, a.Leaves), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	c.Rules = ruleSurvey(s.plan, v)
	c.Tried, c.Untried = classes(s.plan, c.Rules)
	c.NotTested = s.notTested(v, c)
	return c
}

func ruleSurvey(p bundle.Plan, v bundle.Verdicts) []ruleCoverage {
	type key struct{ assumption, effect, target string }
	index := map[key]int{}
	var out []ruleCoverage
	for _, leaf := range v.Leaves {
		for _, r := range leaf.Rules {
			k := key{r.Assumption, r.Effect, r.Target}
			i, ok := index[k]
			if !ok {
				i = len(out)
				index[k] = i
				out = append(out, ruleCoverage{Assumption: r.Assumption, Effect: r.Effect, Target: r.Target, Optional: r.Optional})
			}
			out[i].Of++
			out[i].Fired += r.Fired
			if r.Fired > 0 {
				out[i].In++
			}
		}
	}
	for _, a := range p.Assumptions {
		if !slices.ContainsFunc(out, func(r ruleCoverage) bool { return r.Assumption == a.Name }) {
			for _, effect := range a.Effects {
				out = append(out, ruleCoverage{Assumption: a.Name, Effect: effect})
			}
		}
	}
	return out
}

// classes sorts all kinds of fault into those that acted in this run and those that did not.
func classes(p bundle.Plan, rules []ruleCoverage) (tried, untried []string) {
	acted := map[string]bool{}
	for _, r := range rules {
		name, _, _ := strings.Cut(r.Effect, "(")
		name, _, _ = strings.Cut(name, "=")
		if f, ok := fault.FamilyOf(name); ok && r.Fired > 0 {
			for _, family := range fault.Families() {
				if slices.Contains(family.Calls, f.Calls[0]) {
					acted[family.Name] = true
				}
			}
		}
		if r.Fired > 0 {
			acted[name] = true
		}
	}
	add := func(name string) {
		if acted[name] {
			tried = append(tried, name)
		} else {
			untried = append(untried, name)
		}
	}
	for _, f := range fault.Families() {
		add(f.Name)
	}
	for _, k := range fault.LinkKinds() {
		add(string(k.Kind))
	}
	return tried, untried
}

// notTested says in sentences what a PASS of this run does not speak about.
func (s *surveyor) notTested(v bundle.Verdicts, c coverage) []string {
	out := openLeaves(v)
	for _, r := range c.Rules {
		switch {
		case r.Of == 0:
			out = append(out, fmt.Sprintf("The assumption %s: no leaf has its rule %s.", r.Assumption, r.Effect))
		case r.In == 0:
			out = append(out, fmt.Sprintf("%s on %s: it never fired, in %s.", r.Effect, r.Target, plural(r.Of, "leaf", "leaves")))
		}
	}
	for _, l := range c.Links {
		if l.Leaves == 0 {
			out = append(out, fmt.Sprintf("The link %s → %s: no leaf connected over it.", l.From, l.To))
		}
	}
	for _, service := range s.plan.Services {
		for _, i := range service.Interfaces {
			if to := service.Name + "." + i.Name; !s.reached[to] {
				out = append(out, fmt.Sprintf("The interface %s: neither a scenario nor a service reached it.", to))
			}
		}
	}
	out = append(out, unchecked(v)...)
	if n := missingCells(s.plan); n > 0 {
		out = append(out, plural(n, "cell", "cells")+" of the matrix: no leaf was planned there.")
	}
	return append(out, levelLimits(v)...)
}

func openLeaves(v bundle.Verdicts) []string {
	var out []string
	undecided := 0
	for _, leaf := range v.Leaves {
		switch {
		case interrupted(leaf):
			undecided++
		case leaf.Verdict.Outcome == verdict.Inconclusive:
			out = append(out, fmt.Sprintf("%s under %s: nothing is known there (%s).", leaf.Scenario, leaf.Assumption, leaf.Verdict.Reasons[0].Code))
		}
	}
	if undecided > 0 {
		out = append(out, plural(undecided, "leaf", "leaves")+": the run was stopped before they were decided.")
	}
	return out
}

// unchecked names the properties that were never put to the test, and counts leaves without any.
func unchecked(v bundle.Verdicts) []string {
	var out []string
	hit := triggered(v)
	seen := map[string]bool{}
	bare := 0
	for _, leaf := range v.Leaves {
		for _, p := range leaf.Properties {
			if !hit[p.Name] && !seen[p.Name] {
				seen[p.Name] = true
				out = append(out, fmt.Sprintf("The %s %s: what it watches for occurred in no leaf.", p.Kind, p.Name))
			}
		}
		if slices.ContainsFunc(leaf.Verdict.Warnings, func(r verdict.Reason) bool { return r.Code == verdict.NoAssertions }) {
			bare++
		}
	}
	if bare > 0 {
		out = append(out, plural(bare, "leaf", "leaves")+": nothing is checked there but that the scenario returned.")
	}
	return out
}

func missingCells(p bundle.Plan) int {
	g := newGrid(p)
	missing := 0
	for _, scenario := range g.scenarios {
		for _, a := range g.assumptions {
			if len(g.cells[cellKey{scenario, a}]) == 0 {
				missing++
			}
		}
	}
	return missing
}

// levelLimits says what the level of determinism leaves open.
func levelLimits(v bundle.Verdicts) []string {
	levels := map[string]string{}
	for _, leaf := range v.Leaves {
		if leaf.Level != "" {
			levels[leaf.Level] = leaf.LevelReason
		}
	}
	var out []string
	for _, level := range []string{"L0", "L1"} {
		if reason, ok := levels[level]; ok {
			line := "Other interleavings of threads and services: at " + level + " each leaf ran in one order that the machine chose"
			if reason != "" {
				line += " (" + reason + ")"
			}
			out = append(out, line+".")
		}
	}
	return out
}
