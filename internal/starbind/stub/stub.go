// Package stub writes the language of specifications as a Python stub file, from which editors
// that know Python complete names, show documentation and find misspelled parameters.
package stub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/protocol"
)

// Language is what a stub file describes.
type Language struct {
	// Builtins are all names that a spec finds; a dotted one is a member of a namespace.
	Builtins []*bind.Entry
	// Trace and Event are the methods of traces and events, as "trace.name" and "event.name".
	Trace, Event []*bind.Entry
	Protocols    []protocol.Info
}

const head = `# The names that a Squall specification finds, for editors. Made by squall stubs.
from typing import Any, Callable

`

// values are the classes whose attributes no table has.
const values = `class Response:
    """What a step on an interface returns."""
    status: int
    ok: bool
    body: str
    data: Any
    error: str
    timed_out: bool
    duration_ms: int
    fields: Any

class Service:
    """A program of the system. Its interfaces are its attributes; with one interface, that interface's attributes too."""
    name: str
    def __getattr__(self, name: str) -> Any: ...

`

// File returns the stub file.
func File(l Language) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString(values)
	class(&b, "Event", "Something that happened. Every field is an attribute, None where the event lacks it.", []string{
		"type: str", "service: str", "seq: int", "at_ms: float", "fields: Any", "data: Any", "def get(self, name: str, default: Any = ...) -> Any: ...", "def __getitem__(self, name: str) -> Any: ...",
		"def __getattr__(self, name: str) -> Any: ...",
	}, l.Event)
	class(&b, "Trace", "Events, oldest first; it does not change.", []string{
		"def __len__(self) -> int: ...", "def __iter__(self) -> Any: ...", "def __getitem__(self, at: Any) -> Any: ...",
	}, l.Trace)
	steps(&b, l.Protocols)
	var spaces []string
	members := map[string][]*bind.Entry{}
	for _, e := range l.Builtins {
		space, _, dotted := strings.Cut(e.Name, ".")
		switch {
		case !dotted:
			function(&b, "", e.Name, "", e)
			continue
		case members[space] == nil:
			spaces = append(spaces, space)
		}
		members[space] = append(members[space], e)
	}
	for _, space := range spaces {
		fmt.Fprintf(&b, "class %s:\n", space)
		for _, e := range members[space] {
			b.WriteString("    @staticmethod\n")
			function(&b, "    ", strings.TrimPrefix(e.Name, space+"."), "", e)
		}
	}
	b.WriteString("def load(file: str, *names: str, **renamed: str) -> None:\n    \"\"\"Brings names from another file of the specification, or from a file @squall/... that is part of Squall.\"\"\"\n")
	return b.String()
}

// class writes a class with members that are written out and methods from a table.
func class(b *strings.Builder, name, doc string, members []string, methods []*bind.Entry) {
	fmt.Fprintf(b, "class %s:\n    %s\n", name, quoted(doc))
	for _, m := range members {
		fmt.Fprintf(b, "    %s\n", m)
	}
	for _, e := range methods {
		_, method, _ := strings.Cut(e.Name, ".")
		function(b, "    ", method, "self", e)
	}
	b.WriteString("\n")
}

// steps writes an interface with the steps of all protocols: which one it has, a checker of Python cannot know, so
// the parameters of steps that several protocols have are left open.
func steps(b *strings.Builder, protocols []protocol.Info) {
	b.WriteString("class Interface:\n    \"\"\"Where a service listens, with the steps of its protocol.\"\"\"\n    addr: str\n    host: str\n    port: str\n    path: str\n    name: str\n    protocol: str\n")
	docs := map[string][]string{}
	params := map[string][]string{}
	var names []string
	for _, p := range protocols {
		for _, m := range p.Methods {
			if docs[m.Name] == nil {
				names = append(names, m.Name)
			}
			docs[m.Name] = append(docs[m.Name], p.Name+": "+m.Doc)
			for _, a := range m.Params {
				if arg := a.Name + ": Any = ..."; !slices.Contains(params[m.Name], arg) {
					params[m.Name] = append(params[m.Name], arg)
				}
			}
		}
	}
	for _, name := range names {
		args := append([]string{"self"}, params[name]...)
		fmt.Fprintf(b, "    def %s(%s, timeout: str = ...) -> Response:\n        %s\n", name, strings.Join(args, ", "), quoted(strings.Join(docs[name], "; ")))
	}
	b.WriteString("    def __getattr__(self, name: str) -> Any: ...\n\n")
}

// function writes a builtin. first is a parameter that stands before its own, or "". Once one may be left out, those
// that follow may too: Python has it so.
func function(b *strings.Builder, indent, name, first string, e *bind.Entry) {
	var args []string
	if first != "" {
		args = append(args, first)
	}
	optional, variadic := false, false
	for _, p := range e.Params {
		kind := typeOf(p.Kind.Name)
		switch {
		case p.Unsupported:
		case p.Variadic:
			args = append(args, "*"+p.Name+": "+kind)
			variadic = true
		case p.Required && (variadic || !optional):
			args = append(args, p.Name+": "+kind)
		default:
			args = append(args, p.Name+": "+kind+" = ...")
			optional = true
		}
	}
	if e.Rest != nil {
		args = append(args, "**rest: Any")
	}
	fmt.Fprintf(b, "%sdef %s(%s) -> %s:\n%s    %s\n", indent, name, strings.Join(args, ", "), resultOf(e.Name), indent, quoted(document(e)))
}

// document is what an editor shows: what the builtin does, its parameters, and an example.
func document(e *bind.Entry) string {
	var b strings.Builder
	b.WriteString(strings.ToUpper(e.Doc[:1]) + e.Doc[1:])
	for _, p := range e.Params {
		if !p.Unsupported {
			fmt.Fprintf(&b, "\n\n%s: %s", p.Name, p.Doc)
		}
	}
	if e.Rest != nil {
		fmt.Fprintf(&b, "\n\n%s=: %s", e.Rest.Label, e.Rest.Doc)
	}
	fmt.Fprintf(&b, "\n\nExample:\n\n%s", e.Example)
	return b.String()
}

// quoted writes a text as a Python string over several lines.
func quoted(s string) string {
	return `"""` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"""`
}

// typeOf is the type of a parameter, by the name of its kind. Where a kind takes several things, or things that Python
// has no word for, it is Any: a stub must not complain of what squall check takes.
func typeOf(kind string) string {
	switch kind {
	case "a string", "a name", "a protocol's name", "a level", "the name of an error", "a glob", "an absolute path":
		return "str"
	case "True or False":
		return "bool"
	case "a function":
		return "Callable[..., Any]"
	case "a service":
		return "Service"
	}
	switch {
	case strings.HasPrefix(kind, "an integer"):
		return "int"
	case strings.HasPrefix(kind, "one of ") && !strings.Contains(kind, "()"):
		return "str"
	}
	return "Any"
}

// resultOf is the type of what a builtin returns, where it is known and of use.
func resultOf(name string) string {
	switch name {
	case "service", "ref":
		return "Service"
	case "interface":
		return "Interface"
	case "events", "events_between", "events_within", "causal_chain", "trace.where", "trace.filter":
		return "Trace"
	case "await_event":
		return "Event"
	case "nondet":
		return "bool"
	case "trace.count":
		return "int"
	}
	return "Any"
}
