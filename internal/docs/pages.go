package main

import (
	"fmt"
	"strings"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/cli"
	"github.com/squallhq/squall/internal/starbind"
	"github.com/squallhq/squall/verdict"
)

const made = "<!-- Made by `go run ./internal/docs`; do not edit. -->\n\n"

// pages returns each page by the name of its file.
func pages() (map[string]string, error) {
	commands, err := cli.Reference()
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	return map[string]string{
		"spec.md":    starbind.Reference(squall.Protocols()),
		"reasons.md": reasons(),
		"faults.md":  faults(),
		"events.md":  events(),
		"cli.md":     "# Command line\n\n" + made + commandsIntro + strings.TrimRight(commands, "\n") + "\n",
	}, nil
}

const commandsIntro = `Every command exits with 0, 1 or 2; [verdicts](../verdicts.md) says what they mean for which command. Colour and motion appear on a
terminal only; in a pipe the same text comes as plain lines. ` + "`NO_COLOR`" + ` turns colour off.

`

func reasons() string {
	var b strings.Builder
	b.WriteString("# Reasons\n\n" + made)
	b.WriteString("The first reason of a leaf is the one to read. [Verdicts](../verdicts.md) says how they are put in order.\n")
	for _, part := range []struct {
		outcome verdict.Outcome
		title   string
	}{
		{verdict.Fail, "Reasons for FAIL"},
		{verdict.Inconclusive, "Reasons for INCONCLUSIVE"},
		{verdict.Pass, "Warnings, which leave a PASS a PASS"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| code | what happened | mend |\n|---|---|---|\n", part.title)
		for _, r := range verdict.Codes() {
			if r.Outcome == part.outcome {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Code, cell(r.Sentence), cell(r.Mend))
			}
		}
	}
	return b.String()
}

func faults() string {
	var b strings.Builder
	b.WriteString("# Tables of faults\n\n" + made)
	b.WriteString("What they mean in practice stands in [faults](../faults.md).\n\n")
	b.WriteString("## Families of system calls\n\nA family's name is the keyword of a rule: `write = deny(\"ENOSPC\")`. So is the name of a single call: `pwrite64 = deny(\"EIO\")`.\n\n")
	b.WriteString("| family | meaning | calls | applies to, unless `on=` says otherwise | looks at `path=` |\n|---|---|---|---|---|\n")
	for _, f := range fault.Families() {
		var on []string
		for _, d := range f.On {
			on = append(on, string(d))
		}
		kinds := strings.Join(on, ", ")
		if kinds == "" {
			kinds = "any"
		}
		looks := "the name that the program gives"
		switch {
		case f.Path >= 0:
		case f.Descriptor >= 0 && kinds == string(fault.File):
			looks = "the open file's"
		default:
			looks = "no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, cell(f.Doc), strings.Join(f.Calls, ", "), kinds, looks)
	}
	b.WriteString("\n## Errors that deny() can give\n\n| name | number |\n|---|---|\n")
	for _, e := range fault.Errnos() {
		fmt.Fprintf(&b, "| `%s` | %d |\n", e.Name, e.Number)
	}
	b.WriteString("\n## Effects on connections\n\n| effect | meaning | streams | datagrams | acts on the opening | needs a network that Squall owns |\n|---|---|---|---|---|---|\n")
	for _, k := range fault.LinkKinds() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", k.Kind, cell(k.Doc), yes(k.Stream), yes(k.Datagram), yes(k.Connect), yes(k.OwnedNetwork))
	}
	return b.String()
}

func events() string {
	var b strings.Builder
	b.WriteString("# Events\n\n" + made + eventsIntro)
	for _, r := range event.Schema() {
		fmt.Fprintf(&b, "## %s\n\n%s.\n\n| field | is | |\n|---|---|---|\n", r.Kind, sentence(r.Doc))
		for _, f := range r.Fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, f.Type, cell(f.Doc))
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

const eventsIntro = `What happens in a leaf becomes events, numbered from 1 without a gap. Every event has ` + "`seq`" + `, the time since the leaf's start, a ` + "`kind`" + `,
a lane (` + "`service`" + `: a service's name, or ` + "`driver`" + ` for the scenario), a vector clock, the events that it follows from (` + "`after`" + `), and the
fields of its kind. A field that does not apply is left out. In a bundle they are ` + "`events/<leaf>.ndjson.zst`" + `, one JSON object a line; the
schema is [event.json](schema/event.json).

`

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
