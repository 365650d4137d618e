package report

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
)

// payload is what the page needs to draw one leaf. Events stand in columns, and their fields as
// text: a page of 100,000 events then opens without making as many objects.
type payload struct {
	ID      string   `json:"id"`
	Lanes   []string `json:"lanes"`
	Kinds   []string `json:"kinds"`
	Links   []string `json:"links"`
	At      []int64  `json:"at"`
	Lane    []int    `json:"lane"`
	Kind    []int    `json:"kind"`
	Link    []int    `json:"link"`
	Fault   []int    `json:"fault"`
	Verb    []string `json:"verb"`
	What    []string `json:"what"`
	Fields  []string `json:"fields"`
	Witness int64    `json:"witness"`
	traceExtras
}

type traceExtras struct {
	// Cause lists, by Seq, the direct causes on other lanes.
	Cause   map[int64][]int64 `json:"cause"`
	Story   []int64           `json:"story"`
	Windows []window          `json:"windows"`
	Logs    map[string]string `json:"logs"`
}

// window is the time during which a rule was in force.
type window struct {
	Rule   string `json:"rule"`
	Effect string `json:"effect"`
	From   int64  `json:"from"`
	// To is the Seq of the lifting, or 0.
	To    int64 `json:"to"`
	Fired int64 `json:"fired"`
}

// logLimit bounds how much of the end of a service's output a page shows.
const logLimit = 256 << 10

func newPayload(p bundle.Plan, leaf bundle.Leaf, r *bundle.Reader) (payload, error) {
	events, err := r.Events(leaf.ID)
	if err != nil {
		return payload{}, err
	}
	out := payload{ID: leaf.ID, Lanes: lanes(p, events), Links: []string{}, Kinds: []string{}, Witness: Witness(leaf)}
	n := len(events)
	out.At, out.Lane, out.Kind = make([]int64, n), make([]int, n), make([]int, n)
	out.Link, out.Fault = make([]int, n), make([]int, n)
	out.Verb, out.What, out.Fields = make([]string, n), make([]string, n), make([]string, n)
	out.Cause = causes(events)
	index := map[string]int{}
	place := func(list *[]string, prefix, name string) int {
		i, ok := index[prefix+name]
		if !ok {
			i = len(*list)
			index[prefix+name] = i
			*list = append(*list, name)
		}
		return i
	}
	laneOf := map[string]int{}
	for i, name := range out.Lanes {
		laneOf[name] = i
	}
	for i, e := range events {
		out.At[i] = e.At.Microseconds()
		out.Lane[i] = laneOf[e.Service]
		out.Kind[i] = place(&out.Kinds, "kind ", string(e.Kind))
		out.Link[i] = -1
		if link := linkOf(e); link != "" {
			out.Link[i] = place(&out.Links, "link ", link)
		}
		if actedOn(e) && !(e.Kind == event.Fault && told(events, e)) {
			out.Fault[i] = 1
		}
		out.Verb[i], out.What[i] = Describe(e)
		if len(e.Fields) > 0 {
			b, err := json.Marshal(e.Fields)
			if err != nil {
				return payload{}, err
			}
			out.Fields[i] = string(b)
		}
	}
	out.Windows = windows(events)
	out.Story = []int64{}
	for _, e := range Story(leaf, events) {
		out.Story = append(out.Story, e.Seq)
	}
	return out, out.addLogs(leaf.ID, r)
}

func (p *payload) addLogs(leaf string, r *bundle.Reader) error {
	p.Logs = map[string]string{}
	for _, service := range r.Logs(leaf) {
		b, err := r.Log(leaf, service)
		if err != nil {
			return err
		}
		if len(b) > logLimit {
			b = append([]byte("… the beginning is left out; the bundle has it\n"), b[len(b)-logLimit:]...)
		}
		p.Logs[service] = strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return nil
}

// lanes are the driver and the services in the plan's order, then whatever else has events.
func lanes(p bundle.Plan, events []event.Event) []string {
	out := []string{event.Driver}
	seen := map[string]bool{event.Driver: true}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	// Who asks stands above who answers.
	for _, s := range slices.Backward(p.Services) {
		add(s.Name)
	}
	for _, e := range events {
		add(e.Service)
	}
	return out
}

func linkOf(e event.Event) string {
	if client, server := e.String("client"), e.String("server"); e.Kind == event.Link && client != "" {
		return client + " → " + server
	}
	if target := e.String("target"); e.Kind == event.StepSend || e.Kind == event.StepRecv {
		service, _, _ := strings.Cut(target, ".")
		return event.Driver + " → " + service
	}
	return ""
}

// actedOn reports whether an event shows a fault at work.
func actedOn(e event.Event) bool {
	switch e.Kind {
	case event.Fault:
		return e.String("op") == "fired"
	case event.Syscall:
		d := e.String("decision")
		return d == "deny" || d == "delay"
	case event.Link:
		return linkWeight(e, e.String("rule") != "") >= 80
	case event.Message:
		return e.String("op") == "fired"
	}
	return false
}

// told reports whether the call or link event that a "fired" speaks of stands beside it: a fault
// that acted once is to be one mark.
func told(events []event.Event, fired event.Event) bool {
	for seq := max(1, fired.Seq-3); seq <= min(int64(len(events)), fired.Seq+3); seq++ {
		o := events[seq-1]
		if o.Kind != event.Fault && o.String("rule") == fired.String("rule") && actedOn(o) {
			return true
		}
	}
	return false
}

// causes finds, from the vector clocks, which event of another lane each event waited for.
func causes(events []event.Event) map[int64][]int64 {
	out := map[int64][]int64{}
	onLane := map[string][]int64{}
	before := map[string]event.Clock{}
	for _, e := range events {
		var direct []event.Event
		for lane, n := range e.Clock {
			if lane != e.Service && n > max(0, before[e.Service][lane]) && n <= int64(len(onLane[lane])) {
				direct = append(direct, events[onLane[lane][n-1]-1])
			}
		}
		for _, a := range direct {
			implied := slices.ContainsFunc(direct, func(b event.Event) bool {
				return b.Seq != a.Seq && b.Clock[a.Service] >= a.Clock[a.Service]
			})
			if !implied {
				out[e.Seq] = append(out[e.Seq], a.Seq)
			}
		}
		slices.Sort(out[e.Seq])
		onLane[e.Service] = append(onLane[e.Service], e.Seq)
		before[e.Service] = e.Clock
	}
	for seq, list := range out {
		if len(list) == 0 {
			delete(out, seq)
		}
	}
	return out
}

func windows(events []event.Event) []window {
	out := []window{}
	open := map[string]int{}
	for _, e := range events {
		if e.Kind != event.Fault {
			continue
		}
		rule := e.String("rule")
		switch e.String("op") {
		case "installed":
			open[rule] = len(out)
			out = append(out, window{Rule: rule, Effect: e.String("effect"), From: e.Seq})
		case "fired":
			if i, ok := open[rule]; ok {
				out[i].Fired = max(out[i].Fired, e.Int("fired"))
			}
		case "lifted":
			if i, ok := open[rule]; ok {
				out[i].To, out[i].Fired = e.Seq, max(out[i].Fired, e.Int("fired"))
				delete(open, rule)
			}
		}
	}
	return out
}
