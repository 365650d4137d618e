package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSite builds the real site and follows every link in it.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	n, err := build("../../docs", dir)
	if err != nil {
		t.Fatal(err)
	}
	if n < 12 {
		t.Errorf("only %d pages", n)
	}
	ids := map[string]bool{}
	pages := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		pages[rel] = string(text)
		for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			ids[rel+"#"+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for rel, text := range pages {
		for _, m := range regexp.MustCompile(`(?:href|src)="([^"]+)"`).FindAllStringSubmatch(text, -1) {
			if regexp.MustCompile(`^[a-z]+:`).MatchString(m[1]) {
				continue
			}
			followed++
			target, anchor, anchored := strings.Cut(m[1], "#")
			file := rel
			if target != "" {
				file = filepath.Join(filepath.Dir(rel), target)
			}
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Errorf("%s: link to %s leads nowhere", rel, m[1])
			} else if anchored && !ids[file+"#"+anchor] {
				t.Errorf("%s: link to %s: no such place on the page", rel, m[1])
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links", followed)
	}
}

// TestUnlisted wants a page that is not in the list to be found out.
func TestUnlisted(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"pages.txt": "# A\na.md\n", "a.md": "# A\n", "b.md": "# B\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := build(dir, t.TempDir()); err == nil || !strings.Contains(err.Error(), "b.md is not in pages.txt") {
		t.Errorf("got %v", err)
	}
}

// TestChanges: lines of a diff are marked, the first too; other code is left alone.
func TestChanges(t *testing.T) {
	got := changes("<pre><code class=\"language-diff\">-a\n b\n+c\n</code></pre><pre><code>-x\n</code></pre>")
	want := "<pre><code class=\"language-diff\"><del>-a</del>\n b\n<ins>+c</ins>\n</code></pre><pre><code>-x\n</code></pre>"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
