package inject

import (
	"fmt"
	"strings"
	"testing"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// words is a protocol whose requests have a word and a case-insensitive name.
type words struct{ protocol.Protocol }

func (words) Messages() protocol.Messages {
	return protocol.Messages{
		Match: []protocol.Field{{Name: "word"}, {Name: "name", Normal: strings.ToLower}},
		Verbs: []protocol.Verb{protocol.Error, protocol.Delay},
	}
}

func (words) Converse() protocol.Conversation { return nil }

func (words) Client(protocol.Dialer, spec.Target) protocol.Client { return nil }

// mute has no messages.
type mute struct{ protocol.Protocol }

func findWords(name string) (protocol.Protocol, bool) {
	p, ok := map[string]protocol.Protocol{"words": words{}, "mute": mute{}}[name]
	return p, ok
}

func messageRuleOf(id, match string, edit ...func(*fault.Rule)) fault.Rule {
	r := fault.Rule{ID: id, Message: &fault.Message{
		Pair: fault.Pair{B: "db", Interface: "main", Directed: true}, Protocol: "words", Verb: "error", Match: map[string]string{},
	}}
	if name, glob, ok := strings.Cut(match, "="); ok {
		r.Message.Match[name] = glob
	}
	for _, f := range edit {
		f(&r)
	}
	return r
}

func flowOf(client string, n int) Flow {
	return Flow{Name: fmt.Sprintf("%s>db.main#%d", client, n), Client: client, Server: "db", Interface: "main"}
}

func said(word string) *protocol.Message {
	return &protocol.Message{Ruled: true, Fields: map[string]string{"word": word, "name": word}}
}

func messagesWith(t *testing.T, rules ...fault.Rule) *Messages {
	t.Helper()
	e := NewMessages(7, findWords)
	if err := e.Install(rules...); err != nil {
		t.Fatal(err)
	}
	return e
}

// pattern has a letter for each request: the rule's, or a dot.
func pattern(e *Messages, f Flow, words ...string) string {
	var b strings.Builder
	for _, w := range words {
		d := e.Decide(f, said(w))
		if d.Rule == nil {
			b.WriteByte('.')
			continue
		}
		b.WriteString(d.ID)
	}
	return b.String()
}

func TestMessageMatch(t *testing.T) {
	client := func(a string) func(*fault.Rule) { return func(r *fault.Rule) { r.Message.Pair.A = a } }
	for _, tc := range []struct {
		rule fault.Rule
		flow Flow
		word string
		want bool
	}{
		{messageRuleOf("r", ""), flowOf("api", 1), "x", true},
		{messageRuleOf("r", "word=x"), flowOf("api", 1), "x", true},
		{messageRuleOf("r", "word=x"), flowOf("api", 1), "X", false},
		{messageRuleOf("r", "name=X*"), flowOf("api", 1), "xyz", true},
		{messageRuleOf("r", "word=*/y*"), flowOf("api", 1), "a/b/y", true},
		{messageRuleOf("r", "", client("api")), flowOf("api", 1), "x", true},
		{messageRuleOf("r", "", client("web")), flowOf("api", 1), "x", false},
		{messageRuleOf("r", ""), Flow{Client: "api", Server: "db", Interface: "other"}, "x", false},
	} {
		e := messagesWith(t, tc.rule)
		if got := e.Decide(tc.flow, said(tc.word)).Rule != nil; got != tc.want {
			t.Errorf("%+v on %v of %s: %v", tc.rule.Message, tc.word, tc.flow.Client, got)
		}
	}
}

func TestMessageLimits(t *testing.T) {
	for _, tc := range []struct {
		name string
		when fault.When
		want string
	}{
		{"all", fault.When{}, "rr.rrr"},
		{"nth", fault.When{Nth: 2}, ".r...."},
		{"after", fault.When{After: 2}, "...rrr"},
		{"every", fault.When{Every: 2}, ".r..r."},
		{"max_fires", fault.When{MaxFires: 2}, "rr...."},
	} {
		set := func(r *fault.Rule) { r.When = tc.when }
		words := []string{"x", "x", "other", "x", "x", "x"}
		e := messagesWith(t, messageRuleOf("r", "word=x", set))
		if got := pattern(e, flowOf("api", 1), words...); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		// A client that uses a connection for each request is counted in the same way, another client for itself.
		e = messagesWith(t, messageRuleOf("r", "word=x", set))
		var got strings.Builder
		for i, w := range words {
			pattern(e, flowOf("web", i), "x")
			got.WriteString(pattern(e, flowOf("api", i), w))
		}
		if got.String() != tc.want {
			t.Errorf("%s, over connections: %s, want %s", tc.name, got.String(), tc.want)
		}
	}
}

// TestMessageDraws: a connection's draws do not depend on what others do meanwhile, nor on how often the rule was installed.
func TestMessageDraws(t *testing.T) {
	half := messageRuleOf("r", "", func(r *fault.Rule) { r.When.Probability = 0.5 })
	many := strings.Fields(strings.Repeat("x ", 64))
	alone := pattern(messagesWith(t, half), flowOf("api", 2), many...)
	if n := strings.Count(alone, "r"); n < 20 || n > 44 {
		t.Errorf("%d of 64", n)
	}
	e := messagesWith(t, half)
	var among strings.Builder
	for range many {
		pattern(e, flowOf("api", 1), "x")
		among.WriteString(pattern(e, flowOf("api", 2), "x"))
		pattern(e, flowOf("web", 3), "x")
	}
	if among.String() != alone {
		t.Errorf("among others: %s\nalone:        %s", among.String(), alone)
	}
	var hits strings.Builder
	for _, d := range e.Decisions() {
		if d.Key == "api>db.main#2" {
			hits.WriteByte(map[bool]byte{true: 'r', false: '.'}[d.Hit])
		}
	}
	if hits.String() != alone {
		t.Errorf("the record: %s", hits.String())
	}
	if other := NewMessages(8, findWords); other.Install(half) != nil || pattern(other, flowOf("api", 2), many...) == alone {
		t.Error("another seed draws the same")
	}
}

func TestMessageOrder(t *testing.T) {
	e := messagesWith(t, messageRuleOf("a", "word=x", func(r *fault.Rule) { r.When.Nth = 2 }), messageRuleOf("b", ""))
	if got := pattern(e, flowOf("api", 1), "x", "x", "y", "x"); got != "babb" {
		t.Error(got)
	}
	e.Lift("b", "unknown")
	if got := pattern(e, flowOf("api", 1), "x", "y"); got != ".." {
		t.Error("after b was lifted:", got)
	}
	if err := e.Install(messageRuleOf("b", "")); err != nil {
		t.Fatal(err)
	}
	if got := pattern(e, flowOf("api", 1), "x"); got != "b" {
		t.Error("after b came back:", got)
	}
	if e.Fired("b") != 0 || e.Acted("b") != 1 || e.Fired("b") != 1 || e.Acted("unknown") != 0 {
		t.Error("fired counts what was carried out")
	}
}

func TestMessageSeen(t *testing.T) {
	e := messagesWith(t, messageRuleOf("r", "word=x"))
	pattern(e, flowOf("api", 1), "a", "b", "a", "c", "d", "x")
	e.Failed("r", fmt.Errorf("why not"))
	seen, failed := e.Seen("r")
	if seen.Requests != 6 || seen.Matched != 1 || strings.Join(seen.Examples, " ") != `word="a" word="b" word="c"` || failed != "why not" {
		t.Errorf("%+v, %q", seen, failed)
	}
}

func TestMessageInstallRefuses(t *testing.T) {
	for _, tc := range []struct {
		edit func(*fault.Rule)
		want string
	}{
		{func(r *fault.Rule) { r.Message.Verb = "drop" }, "words can't drop"},
		{func(r *fault.Rule) { r.Message.Match["key"] = "x" }, "words has no key to match"},
		{func(r *fault.Rule) { r.Message.Protocol = "mute" }, "mute has no messages that can be told apart"},
		{func(r *fault.Rule) { r.Message.Protocol = "none" }, `no protocol "none"`},
		{func(r *fault.Rule) { r.Message = nil }, "not a rule on messages"},
		{func(r *fault.Rule) { r.ID = "first" }, "a rule of that name is in force"},
	} {
		e := messagesWith(t, messageRuleOf("first", ""))
		err := e.Install(messageRuleOf("ok", ""), messageRuleOf("r", "", tc.edit))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
		if len(e.InForce(flowOf("api", 1))) != 1 {
			t.Error("one of the rules is in force")
		}
	}
}

func TestMatchText(t *testing.T) {
	for _, tc := range []struct {
		glob, text string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b\nc", true}, {"a*", "abc", true}, {"a*", "ba", false},
		{"*c", "abc", true}, {"*c", "abcd", false}, {"a*c*e", "abcde", true}, {"a*c*e", "abced", false}, {"a**b", "ab", true},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {`a\`, `a\`, true}, {"a?c", "abc", false}, {"*a*b", "aab", true}, {"*", "*", true},
		{`\**`, "*x", true}, {`*\*`, "x*", true}, {`*\*`, "x*y", false},
	} {
		if got := MatchText(tc.glob, tc.text); got != tc.want {
			t.Errorf("%q fits %q: %v", tc.text, tc.glob, got)
		}
	}
	if MatchText(strings.Repeat("a*", 200)+"b", strings.Repeat("a", 5000)) {
		t.Error("a long text fits")
	}
}
