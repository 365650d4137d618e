package starbind

import (
	"slices"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/internal/starbind/reference"
	"github.com/squallhq/squall/internal/starbind/stub"
	"github.com/squallhq/squall/internal/starbind/topology"
	"github.com/squallhq/squall/protocol"
)

// table is all builtins, and the names that a spec finds predeclared.
type table struct {
	entries     []*entry
	predeclared starlark.StringDict
}

// namespaces says what a dotted builtin's first part is for.
func namespaces() map[string]string {
	return map[string]string{
		"match":   "matchers over events",
		"observe": "what is recorded of a service",
	}
}

func newTable(ld *loader) *table {
	t := &table{predeclared: starlark.StringDict{}}
	for _, e := range slices.Concat(
		topology.Entries(ld.protocols), faultEntries(ld), linkEntries(ld), messageEntries(ld), scenarioEntries(), testEntries(), choiceEntries(), oracle.Expectations(),
		oracle.Declarations(), bodyEntries(), plainEntries(), loadingEntries(),
	) {
		t.entries = append(t.entries, &e)
	}
	spaces := map[string]*namespace{}
	for name := range namespaces() {
		spaces[name] = &namespace{named("module", "<module "+name+">"), starlark.StringDict{}}
		t.predeclared[name] = spaces[name]
	}
	for _, e := range t.entries {
		space, member, dotted := cutLast(e.Name)
		if dotted {
			spaces[space].members[member] = &bind.Builtin{Entry: e}
		} else {
			t.predeclared[e.Name] = &bind.Builtin{Entry: e}
		}
	}
	return t
}

func cutLast(name string) (before, after string, found bool) {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[:i], name[i+1:], true
		}
	}
	return "", name, false
}

// plainEntries are those that make values of general use.
func plainEntries() []entry {
	return []entry{
		{
			Name: "struct", Phases: bind.Anywhere,
			Doc:     "makes a value with the given attributes.",
			Example: `limits = struct(max_ms = 300, retries = 2)`,
			Rest:    &rest{Label: "name", Doc: "an attribute and its value", Kind: bind.Value()},
			Do: do(func(c *call) (starlark.Value, error) {
				members := starlark.StringDict{}
				for _, kw := range c.Rest {
					members[kw.Name] = kw.Value.(starlark.Value)
				}
				return starlarkstruct.FromStringDict(starlarkstruct.Default, members), nil
			}),
		},
		{
			Name: "duration", Phases: bind.Anywhere, Pure: true,
			Doc:     "makes a duration, which can be compared, added and multiplied.",
			Example: `budget = duration("200ms") * 3`,
			Params:  []param{{Name: "value", Kind: bind.Duration(), Required: true, Doc: `such as "200ms", "1.5s" or "2m"`}},
			Do: do(func(c *call) (starlark.Value, error) {
				return startime.Duration(arg[time.Duration](c, "value")), nil
			}),
		},
	}
}

// Reference returns the reference of the language in Markdown, made from the table of builtins.
func Reference(protocols []protocol.Info) string {
	t := newTable(&loader{Loader: Loader{Protocols: protocols}, protocols: map[string]protocol.Info{}})
	return reference.Page(t.entries, protocols)
}

// Stubs returns the language as a Python stub file, for editors.
func (l Loader) Stubs() string {
	t := newTable(&loader{Loader: l, protocols: map[string]protocol.Info{}})
	pointers := func(entries []bind.Entry) []*bind.Entry {
		var out []*bind.Entry
		for i := range entries {
			out = append(out, &entries[i])
		}
		return out
	}
	return stub.File(stub.Language{Builtins: t.entries, Trace: pointers(oracle.TraceMethods()), Event: pointers(oracle.EventMethods()), Protocols: l.Protocols})
}
