package tidy

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// guide is the file in which a reader finds each directory.
const guide = "ARCHITECTURE.md"

// architecture wants each directory that holds code to be named in the guide.
func architecture(t *Tree) []Finding {
	var text []byte
	dirs := map[string]bool{}
	for _, x := range t.Text {
		if x.Path == guide {
			text = x.Content
		}
		if slices.Contains([]string{".go", ".ts", ".tsx", ".py"}, path.Ext(x.Path)) && !below(x.Path, "testdata") {
			dirs[x.Dir()] = true
		}
	}
	delete(dirs, ".")
	var all []Finding
	for dir := range dirs {
		// Go's expressions have no look-around, so the characters beside the name are part of the match.
		named := regexp.MustCompile(`(^|[^\w/.-])` + regexp.QuoteMeta(dir) + `/?($|[^\w/-])`)
		if !named.Match(text) {
			all = append(all, Finding{"architecture", dir, 0, dir, "not named in " + guide})
		}
	}
	return all
}

func below(p, name string) bool {
	return slices.Contains(strings.Split(path.Dir(p), "/"), name)
}

// dated matches what is about the history of a line, which the version control knows better.
var dated = regexp.MustCompile(`(?i)(^|[\s(])#\d+\b` +
	`|\b(issue|ticket|bug|pull request|PR)\s+#?\d+` +
	`|/(issues|pull)/\d+` +
	`|\b(19|20)\d\d-[01]\d-[0-3]\d\b` +
	`|\b(january|february|march|april|may|june|july|august|september|october|november|december)\s+(\d+,\s+)?20\d\d\b`)

// comments wants no ticket numbers and no dates in them.
func comments(f *File) []Finding {
	var all []Finding
	for _, g := range f.AST.Comments {
		for _, c := range g.List {
			text := strings.TrimLeft(c.Text, "/* ")
			if m := dated.FindString(text); m != "" {
				all = append(all, f.find("comments", c.Pos(), "", "a comment with a ticket number or a date: %q", strings.TrimSpace(m)))
			}
		}
	}
	return all
}

// foreign matches settings of package registries, and paths of one machine. Its own source must not
// match, so each alternative is broken by a bracket.
var foreign = regexp.MustCompile(`GOPROX[Y]=|index-ur[l]|registry[=]http|"resolved": "http[s]|(^|[^\w])/[r]oot/|(^|[^\w])/[h]ome/[a-z]+/`)

// places wants no registry's setting and no path of a machine anywhere.
func places(t *Tree) []Finding {
	var all []Finding
	for _, x := range t.Text {
		if path.Base(x.Path) == "go.sum" {
			continue
		}
		for i, line := range bytes.Split(x.Content, []byte{'\n'}) {
			if m := foreign.Find(line); m != nil {
				all = append(all, Finding{"places", x.Path, i + 1, "", fmt.Sprintf("a registry's setting or a machine's path: %q", m)})
			}
		}
	}
	return all
}
