package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/internal/starbind"
)

// prelude stands before snippets that are not whole specs: the system that they speak of.
const prelude = `
db = service("db", interface("main", "tcp", 5432), binary = "bin/db")
api = service("api", interface("http", "http", 8080), binary = "bin/api", env = {"DB_ADDR": db.main.addr}, depends_on = [db])
n1 = service("n1", interface("gossip", "udp", 7000), binary = "bin/db")
n2 = service("n2", interface("gossip", "udp", 7000), binary = "bin/db")
web = service("web", interface("http", "http", 8081), binary = "bin/api")
pg = service("pg", interface("sql", "postgres", 5432), binary = "bin/db")

def create_order():
    return api.http.post(path = "/orders", body = '{"item":"widget","qty":1}')

scenario(create_order)
`

var fence = regexp.MustCompile("(?ms)^```python[^\n]*\n(.*?)^```$")

// TestSnippets checks every piece of a spec in the pages that people write.
func TestSnippets(t *testing.T) {
	n := 0
	// The tutorial's are run by e2e, each on top of the one before.
	for _, page := range markdown(t, "../../README.md", "../../docs/*.md", "../../docs/concepts/*.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllSubmatchIndex(text, -1) {
			n++
			line := 1 + strings.Count(string(text[:m[2]]), "\n")
			if err := check(t, string(text[m[2]:m[3]])); err != nil {
				t.Errorf("%s:%d: %v", page, line, err)
			}
		}
	}
	if n < 6 {
		t.Errorf("only %d snippets found", n)
	}
}

// check plans a snippet as squall check does, with programs that exist.
func check(t *testing.T, snippet string) error {
	dir := t.TempDir()
	if !strings.Contains(snippet, "= service(") {
		snippet = prelude + snippet
	}
	spec := filepath.Join(dir, "snippet.star")
	files := map[string]string{spec: snippet}
	for _, name := range []string{"notes", "bin/api", "bin/db"} {
		files[filepath.Join(dir, name)] = "#!/bin/sh\n"
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := squall.Plan(context.Background(), starbind.Loader{Protocols: squall.Protocols()}, spec, squall.Options{})
	return err
}

// TestLinks wants relative links in the pages to lead to something.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range markdown(t, "../../*.md", "../../docs/*.md", "../../docs/*/*.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// markdown returns the files that fit; each pattern has to have some.
func markdown(t *testing.T, globs ...string) []string {
	t.Helper()
	var pages []string
	for _, glob := range globs {
		found, err := filepath.Glob(glob)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", glob, len(found), err)
		}
		pages = append(pages, found...)
	}
	return pages
}
