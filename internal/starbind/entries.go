package starbind

import (
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
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
		topologyEntries(ld), faultEntries(), linkEntries(), scenarioEntries(),
		propertyEntries(), bodyEntries(), plainEntries(),
	) {
		t.entries = append(t.entries, &e)
	}
	spaces := map[string]*namespace{}
	for name := range namespaces() {
		spaces[name] = &namespace{opaque{"module", "<module " + name + ">"}, starlark.StringDict{}}
		t.predeclared[name] = spaces[name]
	}
	for _, e := range t.entries {
		space, member, dotted := cutLast(e.name)
		if dotted {
			spaces[space].members[member] = &builtin{e}
		} else {
			t.predeclared[e.name] = &builtin{e}
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
			name: "struct", phases: anywhere,
			doc:     "makes a value with the given attributes.",
			example: `limits = struct(max_ms = 300, retries = 2)`,
			rest:    &rest{label: "name", doc: "an attribute and its value", kind: aValue()},
			do: func(c *call) (starlark.Value, error) {
				members := starlark.StringDict{}
				for _, kw := range c.rest {
					members[kw.name] = kw.value.(starlark.Value)
				}
				return starlarkstruct.FromStringDict(starlarkstruct.Default, members), nil
			},
		},
		{
			name: "duration", phases: anywhere, pure: true,
			doc:     "makes a duration, which can be compared, added and multiplied.",
			example: `budget = duration("200ms") * 3`,
			params:  []param{{name: "value", kind: aDuration(), required: true, doc: `such as "200ms", "1.5s" or "2m"`}},
			do: func(c *call) (starlark.Value, error) {
				return durationValue(c, "value"), nil
			},
		},
	}
}
