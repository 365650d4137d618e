// Package mediate follows the messages on the connections of a leaf and has the rules decide on them.
package mediate

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
	"github.com/squallhq/squall/internal/run/rules"
	"github.com/squallhq/squall/internal/seed"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Config is what the messages of a leaf are followed with.
type Config struct {
	Suite *spec.Suite
	Seed  seed.Seed
	Find  func(string) (protocol.Protocol, bool)
	Log   *event.Log
	// Shared tells that no connection can be mediated.
	Shared bool
	// Speaks reports whether a rule may act on the messages of a connection.
	Speaks func(client, server, iface string) bool
	// Rules returns the rules in force, Opened the event of a connection's connect.
	Rules  func() *rules.Set
	Opened func(link.Flow) int64
	// Drain brings into the log what the services have printed so far.
	Drain func()
}

// Messages joins the engine that decides on requests with the connections that carry them, and writes
// down what passes.
type Messages struct {
	*inject.Messages
	cfg Config

	mu sync.Mutex
	// blind are the connections whose messages can't be told apart any more, with the reason.
	blind map[link.Flow]string
	// bypass has, for each rule that was in force on a blind connection, what is to be said.
	bypass map[string]string
}

// New returns the messages of a leaf in which nothing has passed.
func New(cfg Config) *Messages {
	return &Messages{
		Messages: inject.NewMessages(cfg.Seed, cfg.Find), cfg: cfg,
		blind: map[link.Flow]string{}, bypass: map[string]string{},
	}
}

// Observed tells whether the messages to an interface are written down without any rule.
func (m *Messages) Observed(server, iface string) bool {
	face := m.face(server, iface)
	return face != nil && face.Messages
}

func (m *Messages) face(server, iface string) *spec.Interface {
	for _, s := range m.cfg.Suite.Services {
		for _, f := range s.Interfaces {
			if s.Name == server && f.Name == iface {
				return f
			}
		}
	}
	return nil
}

// Install implements rules.Actor.
func (m *Messages) Install(rules ...fault.Rule) error {
	if m.cfg.Shared {
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
func (m *Messages) passed(id string, f link.Flow, why string) {
	if _, known := m.bypass[id]; !known {
		m.bypass[id] = fmt.Sprintf("the messages of %s can't be told apart: %s", f, why)
	}
}

// Over forgets a connection that has ended.
func (m *Messages) Over(f link.Flow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blind, f)
}

// Bypasses returns a reason for each rule that connections passed by.
func (m *Messages) Bypasses() []verdict.Reason {
	rules := m.cfg.Rules().All() // before mu, which is taken by who installs
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

// Follow says how the messages of a connection are dealt with.
func (m *Messages) Follow(f link.Flow) (message.Config, bool) {
	face := m.face(f.Server, f.Interface)
	if face == nil || m.cfg.Shared || !m.cfg.Speaks(f.Client, f.Server, f.Interface) && !face.Messages {
		return message.Config{}, false
	}
	p, _ := m.cfg.Find(face.Protocol)
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
	m    *Messages
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
	until := c.m.cfg.Rules().Ended(d.ID)
	if d.Rule.Verb == string(protocol.Hold) {
		until = c.m.cfg.Rules().Gate(d.ID)
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
	log := c.m.cfg.Log
	// What its sender printed or wrote before stands before it.
	c.m.cfg.Drain()
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
	} else if seq := c.m.cfg.Opened(c.flow); seq > 0 {
		out = append(out, seq)
	}
	if e.Rule != "" {
		out = append(out, c.m.cfg.Rules().Since(e.Rule))
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
func (m *Messages) Decisions() []bundle.Decision { return m.Messages.Decisions() }
