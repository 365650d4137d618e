package starbind

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/reference"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/all"
)

// TestReference keeps the page in docs equal to the table.
func TestReference(t *testing.T) {
	const page = "../../docs/reference/spec.md"
	got := Reference(all.Infos())
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date: go test ./internal/starbind -run Reference -update", page)
	}
}

// TestTableIsComplete: every builtin is documented, stands in one section, and its example parses.
func TestTableIsComplete(t *testing.T) {
	ld := &loader{protocols: map[string]protocol.Info{}}
	var names []string
	for _, e := range newTable(ld).entries {
		if slices.Contains(names, e.Name) {
			t.Errorf("%s is there twice", e.Name)
		}
		names = append(names, e.Name)
		if e.Doc == "" || !strings.HasSuffix(e.Doc, ".") || e.Example == "" || e.Phases == 0 || e.Do == nil {
			t.Errorf("%s: a builtin needs a doc that is a sentence, an example, phases and a handler", e.Name)
		}
		for _, p := range e.Params {
			if p.Doc == "" && !p.Unsupported {
				t.Errorf("%s: parameter %s has no doc", e.Name, p.Name)
			}
		}
		if _, err := parseOptions().Parse("example", e.Example, 0); err != nil && !onlyKeyword(e.Example) {
			t.Errorf("%s: its example does not parse: %v", e.Name, err)
		}
		if e.Pure && e.Phases&bind.AtLoad == 0 {
			t.Errorf("%s: a pure builtin is checked at load", e.Name)
		}
	}
	before := -1
	for _, s := range reference.Sections() {
		i := slices.Index(names, s.Last)
		if i <= before {
			t.Errorf("section %q ends with %q, which is no builtin, or stands before the section", s.Title, s.Last)
		}
		before = i
	}
	if last := names[len(names)-1]; reference.Sections()[len(reference.Sections())-1].Last != last {
		t.Errorf("%s stands in no section", last)
	}
}

// onlyKeyword reports whether an example shows a keyword of another call.
func onlyKeyword(example string) bool {
	_, err := parseOptions().Parse("example", "f("+example+")", 0)
	return err == nil
}
