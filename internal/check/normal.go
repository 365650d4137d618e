package check

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/seed"
)

// NormalForm returns what two runs of the same leaf with the same seed have in common, one line a
// fact, so that they can be compared and hashed.
//
// It is the happens-before graph of the mediated events, followed by the decisions:
//
//   - Mediated events are those of kind body, step_send, step_recv, choice, fault, syscall and link
//     within the body; before the body, those that name a rule; of kind message those that say that a rule
//     acted, as what else passes may be anything; and how each property was decided.
//     What programs print, their processes and notes are left out. So are a connection's close, whose
//     moment is the programs' own, and connections made before the body, which depend on how often
//     a program tries until its peer is up.
//   - Each event belongs to a stream, in which order counts: the scenario's own acts; a rule's acts
//     on one service; one direction of a connection; the messages of a connection; a property. Between streams only causes count
//     (Event.After), so that how concurrent streams interleave leaves no trace. Every event of the
//     body comes after its begin and before its end.
//   - Times, process ids, byte counts, answers' bodies, and numbers of events are left out.
//   - Lines stand in the one order that respects the graph and otherwise takes the smallest stream
//     first: it reads in the order of causes, and the first difference is a first cause.
//   - Decisions are sorted by rule, key (service, or flow and direction) and index.
func NormalForm(events []event.Event, decisions []bundle.Decision) []string {
	g := graphOf(events)
	lines := g.linear()
	sorted := slices.Clone(decisions)
	slices.SortStableFunc(sorted, func(a, b bundle.Decision) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Index, b.Index))
	})
	for _, d := range sorted {
		lines = append(lines, fmt.Sprintf("decision %s %s %d hit=%v", strconv.Quote(d.Rule), strconv.Quote(d.Key), d.Index, d.Hit))
	}
	return lines
}

// Hash returns a short name for a normal form.
func Hash(lines []string) string { return seed.ID(32, lines...) }

// node is a mediated event in the graph.
type node struct {
	stream string
	// index counts within the stream, from 1.
	index int
	text  string
	// effects are what follows; waits counts causes that are not placed yet.
	effects []*node
	waits   int
}

func (n *node) name() string { return n.stream + "#" + strconv.Itoa(n.index) }

type graph struct {
	nodes   []*node
	bySeq   map[int64]*node
	streams map[string]*node
	// passed has the causes of events that are not mediated.
	passed map[int64][]*node
}

func graphOf(events []event.Event) *graph {
	g := &graph{bySeq: map[int64]*node{}, streams: map[string]*node{}, passed: map[int64][]*node{}}
	var begin, end *node
	for _, e := range events {
		if !mediated(e, begin != nil, end != nil) {
			if causes := g.causes(e); len(causes) > 0 {
				g.passed[e.Seq] = causes
			}
			continue
		}
		n := g.add(e)
		switch {
		case isBody(e, "begin"):
			begin = n
		case isBody(e, "end"):
			end = n
			for _, other := range g.nodes {
				if !strings.HasPrefix(other.stream, "property/") {
					g.edge(other, n)
				}
			}
		case e.Kind == event.Property:
			// When a decision was written down does not matter.
		case begin != nil:
			g.edge(begin, n)
		}
	}
	return g
}

// mediated tells which events count, by where they stand to the body.
func mediated(e event.Event, begun, ended bool) bool {
	switch e.Kind {
	case event.Body:
		return true
	case event.Property:
		return true
	case event.Fault:
		return !ended || e.String("op") == "lifted"
	case event.Message:
		return !ended && e.String("op") == "fired"
	case event.Syscall, event.Link:
		if e.Kind == event.Syscall && e.String("rule") == "" {
			return false // it is only observed
		}
		if ended || e.String("op") == "close" {
			return false
		}
		return begun || e.String("rule") != ""
	case event.StepSend, event.StepRecv, event.Choice:
		return begun && !ended
	}
	return false
}

// add puts an event at the end of its stream, after its causes.
func (g *graph) add(e event.Event) *node {
	n := &node{stream: streamOf(e), index: 1, text: textOf(e)}
	if prev := g.streams[n.stream]; prev != nil {
		n.index = prev.index + 1
		g.edge(prev, n)
	}
	g.streams[n.stream] = n
	g.nodes = append(g.nodes, n)
	g.bySeq[e.Seq] = n
	var names []string
	for _, c := range g.causes(e) {
		if c.stream != n.stream {
			g.edge(c, n)
			names = append(names, c.name())
		}
	}
	slices.Sort(names)
	n.text = n.name() + " " + n.text
	if len(names) > 0 {
		n.text += " after " + strings.Join(names, " ")
	}
	return n
}

// causes returns the mediated events that an event follows; causes that are not mediated are passed
// through to theirs.
func (g *graph) causes(e event.Event) []*node {
	var out []*node
	seen := map[*node]bool{}
	for _, seq := range e.After {
		if seq >= e.Seq {
			continue
		}
		if n := g.bySeq[seq]; n != nil && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
		for _, n := range g.passed[seq] {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}

func (g *graph) edge(from, to *node) {
	if from != to {
		from.effects = append(from.effects, to)
		to.waits++
	}
}

// linear returns the lines in the order that NormalForm describes. Edges lead from earlier to later
// events only, so every node gets its turn.
func (g *graph) linear() []string {
	var ready nodeHeap
	for _, n := range g.nodes {
		if n.waits == 0 {
			heap.Push(&ready, n)
		}
	}
	lines := make([]string, 0, len(g.nodes))
	for ready.Len() > 0 {
		n := heap.Pop(&ready).(*node)
		lines = append(lines, n.text)
		for _, e := range n.effects {
			if e.waits--; e.waits == 0 {
				heap.Push(&ready, e)
			}
		}
	}
	return lines
}

type nodeHeap []*node

func (h nodeHeap) Len() int { return len(h) }
func (h nodeHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].stream, h[j].stream), cmp.Compare(h[i].index, h[j].index)) < 0
}
func (h nodeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *nodeHeap) Push(x any)   { *h = append(*h, x.(*node)) }
func (h *nodeHeap) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	*h = (*h)[:last]
	return n
}

// streamOf names the sequence in which an event's place counts.
func streamOf(e event.Event) string {
	switch e.Kind {
	case event.Syscall:
		return "syscall/" + e.Service + "/" + e.String("rule")
	case event.Link:
		return strings.TrimSuffix("link/"+e.String("flow")+"/"+e.String("direction"), "/")
	case event.Message:
		return "message/" + e.String("flow")
	case event.Fault:
		if e.String("op") == "fired" {
			return "fault/" + e.Service + "/" + e.String("rule")
		}
	case event.Property:
		return "property/" + e.String("name")
	}
	return "driver"
}

// textOf renders the fields that do not vary between runs.
func textOf(e event.Event) string {
	var keep []string
	switch e.Kind {
	case event.Body:
		keep = []string{"phase", "outcome"}
	case event.StepSend:
		keep = []string{"target", "protocol", "method", "args"}
	case event.StepRecv:
		keep = []string{"target", "method", "status", "ok", "error"}
	case event.Choice:
		keep = []string{"name", "index", "of"}
	case event.Fault:
		keep = []string{"op", "rule", "effect"}
	case event.Syscall:
		keep = []string{"name", "path", "on", "decision", "errno"}
	case event.Link:
		keep = []string{"op", "client", "server", "interface", "direct", "errno", "rule"}
	case event.Message:
		keep = []string{"client", "server", "interface", "rule", "verb"}
	case event.Property:
		keep = []string{"result"}
	}
	var b strings.Builder
	b.WriteString(string(e.Kind))
	for _, name := range keep {
		v, ok := e.Fields[name]
		if !ok || v == nil || v == "" {
			continue
		}
		fmt.Fprintf(&b, " %s=%s", name, canonical(e, name, v))
	}
	return b.String()
}

var procDir = regexp.MustCompile(`^/proc/[0-9]+(/task/[0-9]+)?`)

// canonical renders a value as JSON: the same whether it comes from a live log or from disk, where
// every number is a float64.
func canonical(e event.Event, name string, v any) string {
	if s, ok := v.(string); ok && name == "path" {
		s = procDir.ReplaceAllString(s, "/proc/PID")
		if pid := e.Int("pid"); pid > 0 {
			s = replaceNumber(s, strconv.FormatInt(pid, 10), "PID")
		}
		return strconv.Quote(s)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return strconv.Quote(fmt.Sprint(v))
	}
	return string(out)
}

// replaceNumber replaces a number where it is not part of a longer one.
func replaceNumber(s, number, with string) string {
	digit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	var b strings.Builder
	for i := 0; i < len(s); {
		if strings.HasPrefix(s[i:], number) && !digit(i-1) && !digit(i+len(number)) {
			b.WriteString(with)
			i += len(number)
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// Divergence is the first difference between two normal forms.
type Divergence struct {
	// Line counts from 1.
	Line int
	// Want and Got are the lines there; "" where one form has ended.
	Want, Got string
}

// Diverge compares a recorded normal form with a new one; nil means that they are equal.
func Diverge(want, got []string) *Divergence {
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g || (i < len(want)) != (i < len(got)) {
			return &Divergence{Line: i + 1, Want: w, Got: g}
		}
	}
	return nil
}
