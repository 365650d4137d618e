package squall

import (
	"fmt"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/all"
	"github.com/squallhq/squall/spec"
)

// coverage returns what can go wrong in a system, part by part, and how many leaves try it. A leaf that may only
// inject something, because its code can reach it, counts too.
//
// The links are those that declarations tell: what a service depends on or names in its arguments and
// environment. What else it may connect to is refused while it runs, and reported there.
func coverage(p *plan.Plan) []bundle.PlanCoverage {
	var out []bundle.PlanCoverage
	add := func(c bundle.PlanCoverage, tries func(*plan.Leaf) bool) {
		for _, l := range p.Leaves {
			if tries(l) {
				c.Leaves++
			}
		}
		out = append(out, c)
	}
	for _, s := range p.Suite.Services {
		for _, name := range plan.TalksTo(p.Suite, s) {
			for _, to := range p.Suite.Services {
				if to.Name == name {
					links(s, to, add)
				}
			}
		}
	}
	for _, s := range p.Suite.Services {
		add(bundle.PlanCoverage{Service: s.Name, Class: "disk"}, func(l *plan.Leaf) bool {
			return slices.ContainsFunc(l.Reach().Calls(s.Name), onFiles)
		})
		add(bundle.PlanCoverage{Service: s.Name, Class: "process"}, func(l *plan.Leaf) bool {
			return slices.Contains(l.Scenario.ActsOn, s.Name) || slices.Contains(l.Scenario.ActsOn, "") ||
				slices.ContainsFunc(l.Rules(), func(r fault.Rule) bool { return r.Process != nil && r.Process.Service == s.Name })
		})
	}
	return out
}

// links adds the faults between two services, interface by interface.
func links(from, to *spec.Service, add func(bundle.PlanCoverage, func(*plan.Leaf) bool)) {
	for _, i := range to.Interfaces {
		at := bundle.PlanCoverage{Service: to.Name, From: from.Name, Interface: i.Name}
		at.Class = "connections"
		add(at, func(l *plan.Leaf) bool { return l.Reach().Relays(from.Name, to.Name, i.Name) })
		if proto, ok := all.Find(i.Protocol); ok {
			if s, speaks := proto.(protocol.Speaker); speaks && slices.Contains(s.Messages().Verbs, protocol.Delay) {
				at.Class = "messages"
				add(at, func(l *plan.Leaf) bool { return l.Reach().Speaks(from.Name, to.Name, i.Name) })
			}
		}
	}
}

// onFiles reports whether a system call belongs to a family that is about files.
func onFiles(call string) bool {
	f, ok := fault.FamilyOf(call)
	return ok && (slices.Contains(f.On, fault.File) || f.Path >= 0)
}

// Suggest returns lines for the end of a specification that try what no leaf of a plan tries; "" where every part is
// tried, or where no scenario has a name in the specification's text.
func Suggest(p bundle.Plan) string {
	names := map[string]string{}
	for _, s := range p.Services {
		names[s.Name] = s.Ref
	}
	var faults, lines, flows []string
	var scenarios []string
	for _, s := range p.Scenarios {
		if s.Ref != "" {
			scenarios = append(scenarios, s.Ref)
		}
	}
	if len(scenarios) == 0 {
		return ""
	}
	for _, c := range p.Coverage {
		if c.Leaves > 0 || names[c.Service] == "" || c.From != "" && names[c.From] == "" {
			continue
		}
		if c.Class == "process" {
			flow := word(scenarios[0] + "_without_" + c.Service)
			flows = append(flows, fmt.Sprintf("def %s():\n    kill(%s)\n    return %s()\n\nscenario(%s, expect = lambda r: assert_true(r != None))\n", flow, names[c.Service], scenarios[0], flow))
			continue
		}
		name, text := suggestion(c, names)
		faults = append(faults, name)
		lines = append(lines, text)
	}
	if len(faults)+len(flows) == 0 {
		return ""
	}
	out := strings.Join(append(lines, flows...), "\n")
	if len(faults) > 0 {
		out += fmt.Sprintf("\nfault_matrix(\n    scenarios = [%s],\n    faults = [%s],\n    default_expect = lambda r: assert_true(r != None),\n)\n",
			strings.Join(scenarios, ", "), strings.Join(faults, ", "))
	}
	return out
}

// suggestion returns the line that tries a part, and the name that it declares.
func suggestion(c bundle.PlanCoverage, names map[string]string) (name, line string) {
	target := names[c.Service]
	switch c.Class {
	case "disk":
		name = word("suggested_" + c.Service + "_disk_full")
		return name, fmt.Sprintf("%s = fault_assumption(%q, target = %s, write = deny(\"ENOSPC\"))\n", name, name, target)
	case "messages":
		name = word("suggested_" + c.From + "_" + c.Service + "_" + c.Interface + "_slow_answers")
		return name, fmt.Sprintf("%s = fault_assumption(%q, target = %s.%s, source = %s, rules = [delay(\"300ms\")])\n", name, name, target, c.Interface, names[c.From])
	}
	name = word("suggested_" + c.From + "_" + c.Service + "_" + c.Interface + "_refused")
	return name, fmt.Sprintf("%s = fault_assumption(%q, target = %s.%s, source = %s, rules = [refuse()])\n", name, name, target, c.Interface, names[c.From])
}

// word makes an identifier of a name.
func word(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "-", "_"), ".", "_") }
