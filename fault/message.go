package fault

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Message is a rule on the requests of the connections to one interface.
type Message struct {
	// Pair is directed and names the interface; A is who connects, "" for any.
	Pair Pair `json:"pair"`
	// Protocol is the interface's.
	Protocol string `json:"protocol"`
	// Match has a glob for each field that a request must have so; * stands for anything.
	Match map[string]string `json:"match,omitempty"`
	// Verb is what is done: a protocol.Verb.
	Verb string `json:"verb"`
	// Delay is how long a request is delayed.
	Delay time.Duration `json:"delay_ns,omitempty"`
	// How says how a connection ends whose request is dropped: "close", "reset" or "silence".
	How string `json:"how,omitempty"`
	// Answer is what is answered in the server's place.
	Answer Answer `json:"answer,omitzero"`
}

// Answer is what a rule answers in a server's place. Which fields count depends on the protocol.
type Answer struct {
	Status  int               `json:"status,omitempty"`
	Code    string            `json:"code,omitempty"`
	Text    string            `json:"text,omitempty"`
	Body    string            `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Given lists the names of the fields that are set, as protocol.Messages names them.
func (a Answer) Given() []string {
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"status", a.Status != 0}, {"code", a.Code != ""}, {"text", a.Text != ""},
		{"body", a.Body != ""}, {"headers", len(a.Headers) > 0},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

// Limits says what is looked for, in the words of the spec: path="/orders*", or "" for any request.
func (m *Message) Limits() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m.Match)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, m.Match[name]))
	}
	return strings.Join(parts, ", ")
}

func (m *Message) target() string {
	client := m.Pair.A
	if client == "" {
		client = "*"
	}
	return client + " -> " + m.Pair.B + "." + m.Pair.Interface
}

// effect says what the rule does in the words of the spec.
func (m *Message) effect() string {
	var args []string
	if m.Delay > 0 {
		args = append(args, fmt.Sprintf("%q", m.Delay.String()))
	}
	if limits := m.Limits(); limits != "" {
		args = append(args, limits)
	}
	a := m.Answer
	for _, name := range a.Given() {
		v := map[string]any{"status": a.Status, "code": a.Code, "text": a.Text, "body": a.Body, "headers": a.Headers}[name]
		switch v := v.(type) {
		case string:
			args = append(args, fmt.Sprintf("%s=%q", name, short(v)))
		case int:
			args = append(args, fmt.Sprintf("%s=%d", name, v))
		default:
			args = append(args, name+"=...")
		}
	}
	if m.How != "" && m.How != "close" {
		args = append(args, fmt.Sprintf("how=%q", m.How))
	}
	return fmt.Sprintf("%s(%s)", m.Verb, strings.Join(args, ", "))
}

// short cuts a text for a line of a report.
func short(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}
