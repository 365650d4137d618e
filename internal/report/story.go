package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
)

// storyLength is how many events a story has at most; the witness is always among them.
const storyLength = 8

// Story picks the few events of a leaf that explain its verdict: what faults did, what causally led
// to the witness, and the witness. It depends on nothing but its arguments.
func Story(leaf bundle.Leaf, events []event.Event) []event.Event {
	witness := Witness(leaf)
	scores := map[int64]int{}
	var end event.Event
	if witness > 0 && witness <= int64(len(events)) {
		end = events[witness-1]
		scores[witness] = 1000
	}
	for _, e := range events {
		if end.Seq > 0 && e.Seq > end.Seq {
			break
		}
		if s := weight(e); s > 0 {
			scores[e.Seq] = max(scores[e.Seq], s+causal(e, end))
		}
	}
	dropShadows(events, scores)
	dropSteps(events, scores)
	if end.Seq == 0 && !acted(events, scores) {
		// Nothing happened that a story could tell; what the services did anyway explains nothing.
		return nil
	}
	return best(events, scores)
}

// Witness returns the Seq of the event that the first reason names, or 0.
func Witness(leaf bundle.Leaf) int64 {
	for _, r := range leaf.Verdict.Reasons {
		if r.Witness > 0 {
			return r.Witness
		}
	}
	return 0
}

// leakWeight is nothing for chance that no contract forbids: how much there was stands elsewhere.
func leakWeight(e event.Event) int {
	if e.String("code") == "" {
		return 0
	}
	return 65
}

// unmediated describes what a service did that is not mediated: it was refused, or it took chance from somewhere.
func unmediated(f func(string) string) (verb, what string) {
	if f("errno") == "" {
		return f("category"), f("message")
	}
	return "refused", join(f("address"), f("errno"), f("code"))
}

// weight says how much an event of its kind can explain by itself.
func weight(e event.Event) int {
	ruled := e.String("rule") != ""
	switch e.Kind {
	case event.Fault:
		if e.String("op") == "fired" {
			return 60
		}
	case event.Syscall:
		switch {
		case e.String("decision") == "deny":
			return 90
		case ruled && e.String("decision") == "delay":
			return 70
		}
	case event.Link, event.Message:
		return linkWeight(e, ruled)
	case event.Lifecycle:
		if expected, _ := e.Fields["expected"].(bool); e.String("phase") == "exited" && !expected {
			return 80
		}
	case event.Unmet:
		return leakWeight(e)
	case event.StepRecv:
		if ok, set := e.Fields["ok"].(bool); set && !ok {
			return 45
		}
		return 4
	}
	return map[event.Kind]int{event.StepSend: 12, event.Stderr: 20, event.Stdout: 4, event.Note: 4}[e.Kind]
}

func linkWeight(e event.Event, ruled bool) int {
	switch op := e.String("op"); {
	case ruled && op != "connect" && op != "established" && op != "close" && op != "answer":
		return 85
	case op == "refused" || op == "reset" || op == "cut":
		return 50
	case ruled:
		return 25
	}
	return 5
}

// causal adds weight to what led to the witness and takes it from what did not.
func causal(e, witness event.Event) int {
	switch {
	case witness.Seq == 0 || e.Seq == witness.Seq:
		return 0
	case e.Clock.HappensBefore(witness.Clock):
		// The nearer in the log, the likelier it is part of the reason.
		return 15 - min(14, int((witness.Seq-e.Seq)/4))
	}
	return -30
}

// dropShadows leaves out a "fired" that stands directly before or after the call or link event that
// it speaks of: that one says more. A run of the same effect is told once.
func dropShadows(events []event.Event, scores map[int64]int) {
	seen := map[string]bool{}
	for _, e := range events {
		if scores[e.Seq] == 0 || scores[e.Seq] == 1000 {
			continue
		}
		rule := e.String("rule")
		if rule == "" {
			continue
		}
		detailed := e.Kind != event.Fault
		if !detailed && shadowed(events, scores, e) {
			delete(scores, e.Seq)
			continue
		}
		key := fmt.Sprint(e.Kind, rule, e.Service, e.String("op"), e.String("name"), e.String("path"), e.String("errno"))
		if seen[key] {
			delete(scores, e.Seq)
		}
		seen[key] = true
	}
}

// dropSteps keeps, of the steps that went well, the last request that led to the end of the story.
func dropSteps(events []event.Event, scores map[int64]int) {
	last := int64(0)
	for _, e := range events {
		if e.Kind == event.StepSend && scores[e.Seq] >= 20 {
			last = e.Seq
		}
	}
	for _, e := range events {
		if e.Kind == event.StepSend && e.Seq != last && scores[e.Seq] < 1000 {
			delete(scores, e.Seq)
		}
	}
}

func shadowed(events []event.Event, scores map[int64]int, e event.Event) bool {
	for seq := max(1, e.Seq-3); seq <= min(int64(len(events)), e.Seq+3); seq++ {
		o := events[seq-1]
		if o.Kind != event.Fault && o.String("rule") == e.String("rule") && scores[o.Seq] > 50 {
			return true
		}
	}
	return false
}

func acted(events []event.Event, scores map[int64]int) bool {
	for _, e := range events {
		if scores[e.Seq] >= 40 {
			return true
		}
	}
	return false
}

func best(events []event.Event, scores map[int64]int) []event.Event {
	seqs := slices.SortedFunc(maps.Keys(scores), func(a, b int64) int {
		if d := scores[b] - scores[a]; d != 0 {
			return d
		}
		return int(b - a)
	})
	// Below this an event is only scenery; the witness with one or two causes is story enough.
	seqs = slices.DeleteFunc(seqs, func(s int64) bool { return scores[s] < 20 })
	seqs = seqs[:min(len(seqs), storyLength)]
	slices.Sort(seqs)
	story := make([]event.Event, 0, len(seqs))
	for _, s := range seqs {
		story = append(story, events[s-1])
	}
	return story
}

// Describe says in one line what an event is, without its number and lane: its verb, what it
// concerns, and what came of it.
func Describe(e event.Event) (verb, what string) {
	f := e.String
	switch e.Kind {
	case event.Syscall:
		return f("name"), join(f("path"), f("errno"), aside(e))
	case event.Link:
		return f("op"), join(ends(e), f("errno"), aside(e))
	case event.Message:
		return messageText(e)
	case event.Stdout, event.Stderr:
		return string(e.Kind), f("line")
	case event.Fault:
		what := join(f("rule"), f("effect"))
		if n := e.Int("fired"); n > 0 {
			what = join(what, "("+times(n)+")")
		}
		return f("op"), what
	case event.StepSend:
		return f("method"), join(f("target"), compact(e.Fields["args"]))
	case event.StepRecv:
		return "answer", join(f("target"), number(e.Int("status")), f("error"), f("body"))
	case event.Lifecycle, event.Body:
		what := join(f("outcome"), f("signal"))
		if _, ok := e.Fields["code"]; ok {
			what = join(what, fmt.Sprintf("code %d", e.Int("code")))
		}
		return f("phase"), what
	case event.Choice:
		return "choice", f("name") + " = " + cmp.Or(f("option"), fmt.Sprintf("%d of %d", e.Int("index"), e.Int("of")))
	case event.Property:
		return f("result"), join(f("name"), f("message"))
	case event.Unmet:
		return unmediated(f)
	case event.Note:
		return "note", join(f("code"), f("message"))
	}
	return string(e.Kind), compact(e.Fields)
}

func aside(e event.Event) string {
	if e.String("rule") == "" {
		return ""
	}
	switch {
	case e.String("decision") == "allow":
		return ""
	case e.Int("index") > 0:
		return "(injected, fired " + times(e.Int("index")) + ")"
	}
	return "(injected)"
}

func times(n int64) string {
	if n == 1 {
		return "1 time"
	}
	return fmt.Sprintf("%d times", n)
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

func compact(v any) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
