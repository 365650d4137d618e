// Package reference writes the reference of the language from the table of builtins.
package reference

import (
	"fmt"
	"strings"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/protocol"
)

// Section is a part of the reference: the builtins up to and including Last.
type Section struct{ Title, Text, Last string }

// Sections divides the table, in its order.
func Sections() []Section {
	return []Section{
		{"The system", "What is declared here is started for each leaf, in a network of its own.", "decoder"},
		{"Faults in system calls", "A keyword names a family of calls or one call; deny(), delay(), partial(), hold() or crash() says what happens to them.", "fault_all"},
		{"Faults on connections", "Effects go into rules= of an assumption, or into a call of fault(). They act on established connections too.", "link"},
		{"Faults on requests", "They stand where effects on connections do; the target is an interface whose requests can be told apart. Which fields a request has, and what its answer has, depends on the protocol. delay(), duplicate() and hold(), above, act on requests too.", "drop"},
		{"Scenarios", "", "fault_scenario"},
		{"Unknowns", "What is not known beforehand is named, and each possibility gets a leaf.", "parallel"},
		{"Expectations", "", "expect_hang"},
		{"Matchers", "", "match.never"},
		{"Properties", "", "always"},
		{"Processes and time", "", "sleep"},
		{"Assertions and events", "", "causal_chain"},
		{"Other values", "", "duration"},
		{"Files", "", "load_yaml"},
	}
}

// Page returns the reference in Markdown, of the table of builtins and of the protocols.
func Page(table []*bind.Entry, protocols []protocol.Info) string {
	var b strings.Builder
	b.WriteString("# Spec language\n\n")
	b.WriteString("<!-- Made from internal/starbind by `go test ./internal/starbind -run Reference -update`; do not edit. -->\n\n")
	b.WriteString(referenceIntro)
	i := 0
	for _, s := range Sections() {
		fmt.Fprintf(&b, "## %s\n\n", s.Title)
		if s.Text != "" {
			fmt.Fprintf(&b, "%s\n\n", s.Text)
		}
		for ; i < len(table); i++ {
			writeEntry(&b, table[i])
			if table[i].Name == s.Last {
				i++
				break
			}
		}
	}
	writeMethods(&b)
	writeValues(&b, protocols)
	writeTables(&b)
	return b.String()
}

const referenceIntro = `A spec is a Starlark file: Python's syntax, with for, if and while at the top level too. Files are put together
by load("file.star", "name"), relative to the file that loads, inside the main file's directory. The top level runs
once and declares; functions run later, in the leaves. All values that the top level made are frozen then.

Durations are strings with a unit ("200ms"), probabilities "10%" or 0.1. A mistake is reported with its file, line and
column and, where there is one, the nearest known name, before anything is started.

`

func writeEntry(b *strings.Builder, e *bind.Entry) {
	fmt.Fprintf(b, "### %s\n\n`%s`\n\n", e.Name, signature(e))
	doc := e.Doc
	if doc != "" {
		fmt.Fprintf(b, "%s%s\n\n", strings.ToUpper(doc[:1]), doc[1:])
	}
	fmt.Fprintf(b, "May be used %s.\n\n", e.Phases)
	var rows []string
	for _, p := range e.Params {
		if p.Unsupported {
			continue
		}
		name := "`" + p.Name + "`"
		preset := p.Preset
		switch {
		case p.Variadic:
			name = "`*" + p.Name + "`"
		case p.Required:
			preset = "required"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", name, cellText(p.Kind.Name), cellText(preset), cellText(p.Doc)))
	}
	if e.Rest != nil {
		rows = append(rows, fmt.Sprintf("| `%s=` | %s | | %s |", e.Rest.Label, cellText(e.Rest.Kind.Name), cellText(e.Rest.Doc)))
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "| parameter | is | default | |\n|---|---|---|---|\n%s\n\n", strings.Join(rows, "\n"))
	}
	fmt.Fprintf(b, "```python\n%s\n```\n\n", e.Example)
}

func cellText(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// signature is the entry as it is called.
func signature(e *bind.Entry) string {
	var parts []string
	variadic := false
	for _, p := range e.Params {
		switch {
		case p.Unsupported:
		case p.Variadic:
			parts = append(parts, "*"+p.Name)
			variadic = true
		case p.Required && !variadic:
			parts = append(parts, p.Name)
		default:
			parts = append(parts, p.Name+"=")
		}
	}
	if e.Rest != nil {
		parts = append(parts, e.Rest.Label+"=...")
	}
	return e.Name + "(" + strings.Join(parts, ", ") + ")"
}

// writeMethods describes the methods of events and traces.
func writeMethods(b *strings.Builder) {
	for _, part := range []struct {
		title, text string
		entries     []bind.Entry
	}{
		{"Methods of a trace", "A trace is what events() and its like return, and what a function of the trace gets: a list of events that does not change.", oracle.TraceMethods()},
		{"Methods of an event", "Orders of three kinds: seq is the order in which Squall saw things, at_ms the time of that, and the vector clocks say what can have led to what.", oracle.EventMethods()},
	} {
		fmt.Fprintf(b, "## %s\n\n%s\n\n", part.title, part.text)
		for _, e := range part.entries {
			writeEntry(b, &e)
		}
	}
}

func writeValues(b *strings.Builder, protocols []protocol.Info) {
	b.WriteString(`## Services, interfaces and steps

A service's interfaces are its attributes (` + "`db.pg`" + `); a service with one interface has that interface's attributes too
(` + "`api.get()`" + `). An interface has ` + "`addr`" + ` ("name:port"), ` + "`host`, `port`, `name`, `protocol`" + `, all strings, and the steps of its
protocol. Every step takes ` + "`timeout`" + ` too, and returns a response: ` + "`status`, `ok`, `body`, `data`" + ` (the body, decoded
as JSON, or None), ` + "`error`, `timed_out` (the step's own time ran out without an answer), `duration_ms`, `fields`" + `.

| protocol | step | |
|---|---|---|
`)
	for _, p := range protocols {
		for _, m := range p.Methods {
			var args []string
			for _, a := range m.Params {
				if !a.Required {
					a.Name += "="
				}
				args = append(args, a.Name)
			}
			fmt.Fprintf(b, "| %s | `%s(%s)` | %s |\n", p.Name, m.Name, strings.Join(args, ", "), cellText(m.Doc))
		}
	}
	writeRequests(b, protocols)
	b.WriteString(`
## Events

An event has ` + "`type`, `service`, `seq`, `at_ms`, `fields`, `data`" + ` (the decoded JSON line, or all fields), every field by its name
(` + "`event.status`, `event[\"status\"]`, `event.get(\"status\")`" + `; as an attribute, a field that the event lacks is None) and
the methods above. The members of a JSON line on standard output or error are fields.

| type | fields | |
|---|---|---|
`)
	for _, row := range event.Schema() {
		var names []string
		for _, f := range row.Fields {
			names = append(names, f.Name)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", row.Kind, strings.Join(names, ", "), cellText(row.Doc))
	}
}

// writeRequests lists what rules can do to requests.
func writeRequests(b *strings.Builder, protocols []protocol.Info) {
	b.WriteString(`
## Requests

What a rule on requests can match, and what answers have.

| protocol | a request's | |
|---|---|---|
`)
	for _, p := range protocols {
		if p.Messages == nil {
			continue
		}
		for _, f := range p.Messages.Match {
			fmt.Fprintf(b, "| %s | `%s` | %s |\n", p.Name, f.Name, cellText(f.Doc))
		}
	}
	b.WriteString("\n| protocol | an answer's | |\n|---|---|---|\n")
	for _, p := range protocols {
		if p.Messages == nil {
			continue
		}
		for _, f := range p.Messages.Answer {
			fmt.Fprintf(b, "| %s | `%s` | %s |\n", p.Name, f.Name, cellText(f.Doc))
		}
	}
	b.WriteString("\n| protocol | verbs |\n|---|---|\n")
	for _, p := range protocols {
		if p.Messages != nil {
			fmt.Fprintf(b, "| %s | %s |\n", p.Name, bind.Words(p.Messages.Verbs))
		}
	}
}

func writeTables(b *strings.Builder) {
	b.WriteString("\n## Families of system calls\n\n| family | calls | applies to | |\n|---|---|---|---|\n")
	for _, f := range fault.Families() {
		var on []string
		for _, d := range f.On {
			on = append(on, string(d))
		}
		if len(on) == 0 {
			on = []string{"any"}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", f.Name, strings.Join(f.Calls, ", "), strings.Join(on, ", "), f.Doc)
	}
	b.WriteString("\n## Errors\n\n")
	var names []string
	for _, e := range fault.Errnos() {
		names = append(names, e.Name)
	}
	b.WriteString(strings.Join(names, ", ") + "\n")
}
