package run

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/link/message"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// messages joins the engine that decides on requests with the connections that carry them, and writes
// down what passes.
type messages struct {
	*inject.Messages
	l *leaf
	// shared tells that no connection can be mediated.
	shared bool

	mu sync.Mutex
	// blind are the connections whose messages can't be told apart any more, with the reason.
	blind map[link.Flow]string
	// bypass has, for each rule that was in force on a blind connection, what is to be said.
	bypass map[string]string
}

func newMessages(l *leaf) *messages {
	return &messages{
		Messages: inject.NewMessages(l.plan.Seed, l.system.find), l: l,
		blind: map[link.Flow]string{}, bypass: map[string]string{},
	}
}

// observed tells whether the messages to an interface are written down without any rule.
func (l *leaf) observed(server, iface string) bool {
	face := l.face(server, iface)
	return face != nil && face.Messages
}

func (l *leaf) face(server, iface string) *spec.Interface {
	for _, s := range l.system.suite.Services {
		for _, f := range s.Interfaces {
			if s.Name == server && f.Name == iface {
				return f
			}
		}
	}
	return nil
}

// Install implements actor.
func (m *messages) Install(rules ...fault.Rule) error {
	if m.shared {
		return link.ErrNeedsOwnedNetwork
	}
	if err := m.Messages.Install(rules...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rules {
		for f, why := range m.blind {
			if r.Message.Pair.Matches(f.Client, f.Server, f.Interface) {
				m.passed(r.ID, f, why)
			}
		}
	}
	return nil
}

// passed notes that a connection passes a rule by; it is called with mu held.
func (m *messages) passed(id string, f link.Flow, why string) {
	if _, known := m.bypass[id]; !known {
		m.bypass[id] = fmt.Sprintf("the messages of %s can't be told apart: %s", f, why)
	}
}

// over forgets a connection that has ended.
func (m *messages) over(f link.Flow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blind, f)
}

// bypasses returns a reason for each rule that connections passed by.
func (m *messages) bypasses() []verdict.Reason {
	rules := m.l.faults.All() // before mu, which is taken by who installs
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []verdict.Reason
	for _, r := range rules {
		why, ok := m.bypass[r.ID]
		if !ok || r.Optional {
			continue
		}
		out = append(out, verdict.Reason{
			Code: verdict.FaultBypassed, Subject: r.ID, Position: r.Position,
			Detail: fmt.Sprintf("%s on %s: %s", r.Effect(), r.Target(), why),
		})
	}
	return out
}

// follow says how the messages of a connection are dealt with.
func (m *messages) follow(f link.Flow) (message.Config, bool) {
	face := m.l.face(f.Server, f.Interface)
	if face == nil || m.shared || !m.l.reach.Speaks(f.Client, f.Server, f.Interface) && !face.Messages {
		return message.Config{}, false
	}
	p, _ := m.l.system.find(face.Protocol)
	speaker, ok := p.(protocol.Speaker)
	if !ok {
		return message.Config{}, false
	}
	c := &conversed{m: m, flow: f, face: face, requests: map[int64]int64{}}
	return message.Config{Conversation: speaker.Converse(), Decide: c.decide, Waits: c.waits, Tell: c.tell}, true
}

// conversed is one connection whose messages are followed. The Conn calls its methods one at a time, except that
// decide may run beside tell.
type conversed struct {
	m    *messages
	flow link.Flow
	face *spec.Interface
	// requests has the events of requests that are not answered; only tell uses it.
	requests map[int64]int64
}

// waits reports whether a rule may act on the connection's requests now.
func (c *conversed) waits() bool {
	f := c.flow
	return len(c.m.InForce(inject.Flow{Client: f.Client, Server: f.Server, Interface: f.Interface})) > 0
}

// decide asks the rules about a request. Their answer holds until they are lifted.
func (c *conversed) decide(_ int64, m *protocol.Message) message.Action {
	f := c.flow
	d := c.m.Decide(inject.Flow{Name: f.String(), Client: f.Client, Server: f.Server, Interface: f.Interface}, m)
	if d.Rule == nil {
		return message.Action{}
	}
	a := d.Rule.Answer
	until := c.m.l.faults.Ended(d.ID)
	if d.Rule.Verb == string(protocol.Hold) {
		until = c.m.l.faults.Gate(d.ID)
	}
	return message.Action{
		Verb: protocol.Verb(d.Rule.Verb), Rule: d.ID, Delay: d.Rule.Delay, How: message.Ending(d.Rule.How),
		Until: until,
		Answer: protocol.Answer{
			Failed: d.Rule.Verb == string(protocol.Error), Status: a.Status, Code: a.Code, Text: a.Text,
			Body: []byte(a.Body), Headers: a.Headers,
		},
	}
}

// maxField bounds a field of an event.
const maxField = 2048

// tell writes down what became of a request.
func (c *conversed) tell(e message.Event) {
	fields := map[string]any{}
	for _, m := range []*protocol.Message{e.Request, e.Answer} {
		if m == nil {
			continue
		}
		for name, v := range m.Fields {
			fields[name] = strings.ToValidUTF8(v[:min(len(v), maxField)], "\uFFFD")
		}
	}
	f := c.flow
	fields["client"], fields["server"], fields["interface"] = f.Client, f.Server, f.Interface
	fields["protocol"], fields["flow"] = c.face.Protocol, f.String()
	if e.Index > 0 {
		fields["index"] = e.Index
	}
	if e.Rule != "" {
		fields["rule"], fields["verb"] = e.Rule, string(e.Verb)
	}
	op := string(e.Op)
	switch e.Op {
	case message.Acted:
		op = "fired"
		fields["fired"] = int64(c.m.Acted(e.Rule))
	case message.Answered:
		fields["duration_ms"] = int64(e.Duration / time.Millisecond)
	case message.Failed:
		fields["message"] = e.Err.Error()
		c.m.Failed(e.Rule, e.Err)
	case message.Blind:
		fields["message"] = e.Err.Error()
		c.lost(e.Err)
	}
	fields["op"] = op
	log := c.m.l.log
	// What its sender printed or wrote before stands before it.
	c.m.l.drain()
	seq := log.Append(f.Client, event.Message, fields, c.causes(e)...).Seq
	switch {
	case e.Op == message.Request && !e.Request.Silent:
		c.requests[e.Index] = seq
	case e.Op == message.Answered:
		delete(c.requests, e.Index)
	}
}

// causes are the request, the connection's opening, and the rule's installation.
func (c *conversed) causes(e message.Event) []int64 {
	var out []int64
	if seq := c.requests[e.Index]; seq > 0 {
		out = append(out, seq)
	} else if seq := c.m.l.system.net.openedBy(c.flow); seq > 0 {
		out = append(out, seq)
	}
	if e.Rule != "" {
		out = append(out, c.m.l.faults.Since(e.Rule))
	}
	return out
}

// lost notes that the connection can't be followed any more, and which rules it passes by.
func (c *conversed) lost(why error) {
	f := c.flow
	ids := c.m.InForce(inject.Flow{Client: f.Client, Server: f.Server, Interface: f.Interface})
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.blind[f] = why.Error()
	for _, id := range ids {
		c.m.passed(id, f, why.Error())
	}
}

// Decisions returns what the limits decided.
func (m *messages) Decisions() []bundle.Decision { return m.Messages.Decisions() }

// whyNoMessage says what passed instead of the requests that a rule waits for.
func (l *leaf) whyNoMessage(r fault.Rule) string {
	seen, failed := l.system.messages.Seen(r.ID)
	m := r.Message
	switch {
	case failed != "":
		return fmt.Sprintf("%s matched, but %s", count(seen.Matched, "request"), failed)
	case seen.Requests == 0:
		return l.whyNoRequest(r)
	case seen.Matched == 0:
		return fmt.Sprintf("%s seen, none matched %s; there was %s", count(seen.Requests, "request"), m.Limits(), strings.Join(seen.Examples, "; "))
	}
	limits := strings.Join(limitsOf(r.When), ", ")
	return fmt.Sprintf("%s seen, %d matched%s, but it hits none of these (%s)", count(seen.Requests, "request"), seen.Matched, orNothing(" ", m.Limits()), limits)
}

// whyNoRequest says why a rule saw no request at all.
func (l *leaf) whyNoRequest(r fault.Rule) string {
	p := r.Message.Pair
	connections, own := 0, false
	for _, e := range l.log.All() {
		switch {
		case e.Kind == event.Link && e.String("op") == "connect" && p.Matches(e.String("client"), e.String("server"), e.String("interface")):
			connections++
		case e.Kind == event.StepSend && e.String("target") == p.B+"."+p.Interface:
			own = true
		}
	}
	switch {
	case connections > 0:
		return fmt.Sprintf("%s %s, but no request passed while it was in force", count(connections, "connection"), r.Target())
	case own:
		return fmt.Sprintf("no connection %s in this leaf but the scenario's own, which no rule hits", r.Target())
	}
	return fmt.Sprintf("no connection %s in this leaf", r.Target())
}

func orNothing(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
