package starbind

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/calls"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/protocol"
)

// messageEffect is what a rule does to requests. The target says for which interface, and so in which protocol.
type messageEffect struct {
	verb   protocol.Verb
	match  []bind.Keyword
	delay  time.Duration
	how    string
	answer fault.Answer
	// given are the fields of the answer that the spec names.
	given []bind.Keyword
	// refused are keywords that mean nothing for requests.
	refused []bind.Keyword
}

// messageEntries are the builtins for effects on requests. delay, hold and duplicate, which act on other things too,
// stand with those on calls and on connections.
func messageEntries(ld *loader) []entry {
	row := func(verb protocol.Verb, doc, example string, params ...param) entry {
		return entry{
			Name: string(verb), Phases: bind.AtLoad | bind.InBody, Pure: true, Acts: bind.OnMessages,
			Doc:     doc + " It is a rule for requests to an interface.",
			Example: example,
			Params:  append(params, messageParams()...),
			Rest:    matchKeywords(ld),
			Do:      do(func(c *call) (starlark.Value, error) { return c.messageEffect(verb), nil }),
		}
	}
	return []entry{
		row(protocol.Error, "answers requests in the server's place with the protocol's own error; the server never sees them.",
			`conflict = fault_assumption("conflict", target = db.pg, rules = [error(query = "INSERT*", code = "40001")])`, answerParams(ld)...),
		row(protocol.Respond, "answers requests in the server's place with a result; the server never sees them.",
			`fault(api.http, response(path = "/stock*", body = "{\"left\": 0}"), run = lambda: web.post(path = "/orders"))`, answerParams(ld)...),
		row(protocol.Drop, "loses requests, and with each of them its connection.",
			`fault(api.http, drop(method = "POST", how = "reset"), run = lambda: web.post(path = "/orders"))`,
			param{Name: "how", Kind: bind.Choice("close", "reset", "silence"), Preset: `"close"`, Doc: "what the client sees of the end: FIN, RST, or nothing at all"}),
	}
}

// messageParams are the options that effects on requests share.
func messageParams() []param {
	var out []param
	for _, p := range syscallParams() {
		switch p.Name {
		case "on", "path", "mode":
			continue
		case "label":
			p.Preset = "the effect's name"
		}
		p.Doc = strings.ReplaceAll(p.Doc, "call", "request")
		out = append(out, p)
	}
	return out
}

// answerParams are the fields of an answer, with what each is in which protocol.
func answerParams(ld *loader) []param {
	kinds := map[string]kind{"status": bind.Int(1, 999), "headers": headerMap()}
	var out []param
	for _, name := range []string{"status", "code", "text", "body", "headers"} {
		k, special := kinds[name]
		if !special {
			k = bind.String()
		}
		var docs []string
		for _, p := range ld.Protocols {
			for _, f := range answerFields(p) {
				if f.Name == name {
					docs = append(docs, p.Name+": "+f.Doc)
				}
			}
		}
		doc := strings.Join(docs, "; ")
		if doc == "" {
			doc = "a field of the answer"
		}
		out = append(out, param{Name: name, Kind: k, Doc: doc})
	}
	return out
}

func headerMap() kind {
	return bind.Scalar("a dict of strings", func(v starlark.Value) (any, bool) {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, false
		}
		out := map[string]string{}
		for _, item := range d.Items() {
			name, isName := starlark.AsString(item[0])
			text, isText := starlark.AsString(item[1])
			if !isName || !isText {
				return nil, false
			}
			out[name] = text
		}
		return out, true
	})
}

func answerFields(p protocol.Info) []protocol.Field {
	if p.Messages == nil {
		return nil
	}
	return p.Messages.Answer
}

// matchKeywords are the keywords that say which requests are meant, in all protocols.
func matchKeywords(ld *loader, but ...string) *rest {
	known := func() []string {
		var names []string
		for _, p := range ld.Protocols {
			if p.Messages == nil {
				continue
			}
			for _, f := range p.Messages.Match {
				if !slices.Contains(but, f.Name) {
					names = append(names, f.Name)
				}
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	return &rest{
		Label: "<field>", Check: true, Known: known, Kind: bind.String(),
		Doc: "of requests: a glob that this field of a request must fit, * stands for anything; which fields there are depends on the protocol",
	}
}

// matches are the globs of a call, with those that stand among its parameters.
func (c *call) matches(params ...string) []bind.Keyword {
	out := slices.Clone(c.Rest)
	for _, name := range params {
		if v, ok := c.Args[name]; ok {
			out = append(out, bind.Keyword{Name: name, Value: v, At: c.Site.KeywordSpan(name)})
		}
	}
	return out
}

// refusedByMessages are the keywords of a call that mean nothing for requests.
func refusedByMessages(c *call) []bind.Keyword {
	var out []bind.Keyword
	names := []string{"errno", "on", "mode", "link"}
	if c.Entry.Name == string(protocol.Duplicate) {
		names = []string{"count", "direction"}
	}
	for _, name := range names {
		if c.Has(name) {
			out = append(out, bind.Keyword{Name: name, At: c.Site.KeywordSpan(name)})
		}
	}
	return out
}

func (c *call) messageEffect(verb protocol.Verb) *linkRule {
	m := &messageEffect{
		verb: verb, match: c.matches(), how: arg[string](c, "how"),
		answer: fault.Answer{
			Status: arg[int](c, "status"), Code: arg[string](c, "code"), Text: arg[string](c, "text"),
			Body: arg[string](c, "body"), Headers: arg[map[string]string](c, "headers"),
		},
	}
	if verb == protocol.Drop && m.how == "" {
		m.how = "close"
	}
	for _, name := range []string{"status", "code", "text", "body", "headers"} {
		if c.Has(name) {
			m.given = append(m.given, bind.Keyword{Name: name, At: c.Site.KeywordSpan(name)})
		}
	}
	return &linkRule{opaque: named("rule", string(verb)+"(...)"), message: m, ruleOptions: c.options()}
}

// onMessages is a delay or a hold as a rule for requests.
func (e *syscallEffect) onMessages() *linkRule {
	return &linkRule{opaque: named("rule", string(e.message.verb)+"(...)"), message: e.message, ruleOptions: e.ruleOptions}
}

// name is what the spec calls the effect.
func (r *linkRule) name() string {
	switch {
	case r.effect.Kind != "":
		return string(r.effect.Kind)
	case r.process != nil:
		name, _, _ := strings.Cut(r.process.Action, " ")
		return name
	}
	return string(r.message.verb)
}

// homeless says that a rule has no connections to act on.
func (r *linkRule) homeless() string {
	if r.effect.Kind == "" {
		return r.name() + ": says not of which interface: give it a target"
	}
	return r.name() + ": says not between whom: give the assumption target=, or the rule on=link(...)"
}

// actsOnDatagrams reports whether an effect that has two meanings has the one for connections and datagrams.
func (c *call) actsOnDatagrams(e *linkRule, p fault.Pair) bool {
	if e.effect.Kind == "" {
		return false
	}
	faces := c.env.loader.facesOf(p)
	return len(e.message.match) == 0 && !slices.ContainsFunc(faces, func(i *topology.Interface) bool {
		return !c.env.loader.protocols[i.Decl.Protocol].Datagram
	})
}

// facesOf returns the interfaces of the pair's server that it means.
func (ld *loader) facesOf(p fault.Pair) []*topology.Interface {
	s := ld.topology.Service(p.B)
	if s == nil {
		return nil
	}
	var out []*topology.Interface
	for _, i := range s.Interfaces {
		if p.Interface == "" || p.Interface == i.Decl.Name {
			out = append(out, i)
		}
	}
	return out
}

// messageRule makes a rule on requests. Where its target is declared later, the protocol is found at the end.
func (c *call) messageRule(ids *namer, e *linkRule, p fault.Pair, assumption string) (fault.Rule, bool) {
	m := &fault.Message{
		Pair: p, Verb: string(e.message.verb), Delay: e.message.delay, How: e.message.how, Answer: e.message.answer,
		Match: map[string]string{},
	}
	for _, kw := range e.message.match {
		m.Match[kw.Name], _ = kw.Value.(string)
	}
	w := e.when
	if e.drawn != (fault.When{}) {
		w = e.drawn
	}
	r := fault.Rule{
		ID: ids.name(orElse(e.label, e.name())), Assumption: assumption, Message: m, When: w,
		Optional: e.optional, During: e.during, Position: source.PlaceOf(e.at.Start).String(),
	}
	ld := c.env.loader
	report := func(at source.Span, near, message string) { c.Report(at, near, e.name()+": "+message) }
	if ld.topology.Service(p.B) == nil && p.B != "" {
		ld.decls.later = append(ld.decls.later, func() { ld.settleMessage(e, m, report) })
		return r, true
	}
	return r, ld.settleMessage(e, m, report)
}

// settleMessage finds the interface of a rule on requests and checks that its protocol can do what the rule wants.
func (ld *loader) settleMessage(e *linkRule, m *fault.Message, report func(at source.Span, near, message string)) bool {
	faces := ld.facesOf(m.Pair)
	if len(faces) > 1 {
		var names []string
		for _, i := range faces {
			names = append(names, m.Pair.B+"."+i.Decl.Name)
		}
		report(e.at, "", fmt.Sprintf("acts on the requests to one interface, and %s has several; name one of %s", m.Pair.B, strings.Join(names, ", ")))
		return false
	}
	if len(faces) == 0 {
		if ld.topology.Service(m.Pair.B) != nil || m.Pair.B == "" {
			report(e.at, "", "acts on the requests to an interface, and the target has none")
		}
		return false // a service that does not exist is reported where it is named
	}
	face := faces[0].Decl
	m.Protocol, m.Pair.Interface, m.Pair.Directed = face.Protocol, face.Name, true
	return e.message.suits(ld.protocols[face.Protocol], e.at, report)
}

// suits reports what a protocol can't do of an effect.
func (m *messageEffect) suits(p protocol.Info, at source.Span, report func(at source.Span, near, message string)) bool {
	if p.Messages == nil {
		report(at, "", fmt.Sprintf("%s has no messages that can be told apart; effects on connections act on it, such as latency()", p.Name))
		return false
	}
	can := p.Messages
	ok := true
	wrong := func(at source.Span, near, format string, args ...any) {
		report(at, near, fmt.Sprintf(format, args...))
		ok = false
	}
	if !slices.Contains(can.Verbs, m.verb) {
		wrong(at, "", "%s can't do that to a request; it can %s", p.Name, bind.Words(can.Verbs))
		return false
	}
	names := fieldNames(can.Match)
	for _, kw := range m.match {
		if !slices.Contains(names, kw.Name) {
			wrong(kw.At, source.Nearest(kw.Name, names), "a request to %s has no %s; a rule can match %s", p.Name, kw.Name, bind.Words(names))
		}
	}
	answer := fieldNames(can.Answer)
	for _, kw := range m.given {
		if !slices.Contains(answer, kw.Name) {
			wrong(kw.At, source.Nearest(kw.Name, answer), "an answer of %s has no %s; it has %s", p.Name, kw.Name, bind.Words(answer))
		}
	}
	for _, kw := range m.refused {
		wrong(kw.At, "", "%s= means nothing for requests to an interface (%s)", kw.Name, p.Name)
	}
	return ok
}

func fieldNames(fields []protocol.Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Name)
	}
	return out
}

// ofCalls reports what a delay or a hold of system calls can't have.
func (c *call) ofCalls(e *syscallEffect, path string) {
	for _, kw := range e.message.match {
		if kw.Name != "path" {
			c.Report(kw.At, "", fmt.Sprintf("%s: %s= is for requests to an interface, and this is a system call", e.message.verb, kw.Name))
		}
	}
	if path == "" {
		return
	}
	if err := calls.CheckGlob(path); err != nil {
		c.Report(e.at, "", string(e.message.verb)+": "+err.Error())
	}
}
