package main

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
)

//go:embed page.html style.css
var looks embed.FS

// page is one page of the site.
type page struct {
	// File is its path below docs, with /; Title stands in the list.
	File, Title string
	Section     string
	text        []byte
}

// URL is the page's path in the site.
func (p page) URL() string { return strings.TrimSuffix(p.File, ".md") + ".html" }

// build writes the site and returns how many pages it has.
func build(from, to string) (int, error) {
	pages, err := list(from)
	if err != nil {
		return 0, err
	}
	if err := complete(from, pages); err != nil {
		return 0, err
	}
	frame, err := template.New("page.html").Funcs(template.FuncMap{"up": up}).ParseFS(looks, "page.html")
	if err != nil {
		return 0, err
	}
	if err := copyRest(from, to); err != nil {
		return 0, err
	}
	for i, p := range pages {
		if err := render(frame, to, pages, i); err != nil {
			return 0, fmt.Errorf("%s: %w", p.File, err)
		}
	}
	// The first page is where a reader lands.
	first := fmt.Sprintf("<!doctype html><meta charset=utf-8><title>Squall</title><meta http-equiv=refresh content=\"0; url=%s\">\n", pages[0].URL())
	return len(pages), os.WriteFile(filepath.Join(to, "index.html"), []byte(first), 0o644)
}

// list reads docs/pages.txt: a line "# Section" begins a section, any other line is a page.
func list(from string) ([]page, error) {
	text, err := os.ReadFile(filepath.Join(from, "pages.txt"))
	if err != nil {
		return nil, err
	}
	var pages []page
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			section = name
			continue
		}
		if line == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, line))
		if err != nil {
			return nil, err
		}
		pages = append(pages, page{File: line, Title: titleOf(text), Section: section, text: text})
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("pages.txt names no page")
	}
	return pages, nil
}

func titleOf(text []byte) string {
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(strings.TrimPrefix(first, "# "))
}

// complete wants every page of docs in the list: one that is not there cannot be found.
func complete(from string, pages []page) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".md" {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if !slices.ContainsFunc(pages, func(p page) bool { return p.File == name }) {
			return fmt.Errorf("%s is not in pages.txt", name)
		}
		return nil
	})
}

// copyRest copies what pages refer to: pictures and schemas.
func copyRest(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch filepath.Ext(p) {
		case ".md", ".txt":
			return nil
		}
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
}

// heading is an entry of a page's own list.
type heading struct{ ID, Text string }

func render(frame *template.Template, to string, pages []page, i int) error {
	p := pages[i]
	md := goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe()),
	)
	var body bytes.Buffer
	if err := md.Convert(named(p.text), &body); err != nil {
		return err
	}
	style, err := looks.ReadFile("style.css")
	if err != nil {
		return err
	}
	text := links(changes(body.String()))
	data := map[string]any{
		"Page": p, "Pages": sections(pages), "Body": template.HTML(text), "Style": template.CSS(style), "Headings": headings(text),
		"Here": p.File,
	}
	if i > 0 {
		data["Before"] = pages[i-1]
	}
	if i+1 < len(pages) {
		data["After"] = pages[i+1]
	}
	var out bytes.Buffer
	if err := frame.Execute(&out, data); err != nil {
		return err
	}
	target := filepath.Join(to, filepath.FromSlash(p.URL()))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, out.Bytes(), 0o644)
}

// named shows the name of a file above its block: "```go notes.go" says it in a place that is not shown.
func named(text []byte) []byte {
	text = regexp.MustCompile("(?m)^```(\\w+) \\+(\\S+)$").ReplaceAll(text, []byte("<p class=\"file\">$2, below what is there</p>\n\n```$1"))
	return regexp.MustCompile("(?m)^```(\\w+) (\\S+)$").ReplaceAll(text, []byte("<p class=\"file\">$2</p>\n\n```$1"))
}

// changes marks the lines of a diff that are added and those that go.
func changes(body string) string {
	return regexp.MustCompile(`(?s)<code class="language-diff">.*?</code>`).ReplaceAllStringFunc(body, func(block string) string {
		block = regexp.MustCompile(`(?m)^\+.*$`).ReplaceAllString(block, "<ins>$0</ins>")
		block = regexp.MustCompile(`(?m)^-.*$`).ReplaceAllString(block, "<del>$0</del>")
		return regexp.MustCompile(`(<code class="language-diff">)([+-])(.*)`).ReplaceAllStringFunc(block, func(first string) string {
			tag := "ins"
			head, line, _ := strings.Cut(first, ">")
			if line[0] == '-' {
				tag = "del"
			}
			return fmt.Sprintf("%s><%s>%s</%s>", head, tag, line, tag)
		})
	})
}

// section is a part of the list.
type section struct {
	Name  string
	Pages []page
}

func sections(pages []page) []section {
	var out []section
	for _, p := range pages {
		if len(out) == 0 || out[len(out)-1].Name != p.Section {
			out = append(out, section{Name: p.Section})
		}
		last := &out[len(out)-1]
		last.Pages = append(last.Pages, p)
	}
	return out
}

// repository is where links go that lead out of docs.
const repository = "https://github.com/squallhq/squall/blob/main/"

// links makes links between Markdown files into links between pages.
func links(body string) string {
	return regexp.MustCompile(`(href|src)="([^":]*)"`).ReplaceAllStringFunc(body, func(attr string) string {
		name, rest, _ := strings.Cut(attr, `="`)
		target, anchor, anchored := strings.Cut(strings.TrimSuffix(rest, `"`), "#")
		if out := strings.TrimLeft(target, "./"); strings.HasPrefix(target, "../") && path.Ext(out) != ".html" && outside(out) {
			target = repository + out
		}
		if strings.HasSuffix(target, ".md") && !strings.HasPrefix(target, repository) {
			target = strings.TrimSuffix(target, ".md") + ".html"
		}
		if anchored {
			target += "#" + anchor
		}
		return name + `="` + target + `"`
	})
}

// outside tells whether a path that leads up from a page is in the repository rather than in docs.
func outside(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return slices.Contains([]string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples", "internal", "e2e", "scripts", "Makefile"}, first)
}

func headings(body string) []heading {
	var out []heading
	for _, m := range regexp.MustCompile(`<h2 id="([^"]+)">(.*?)</h2>`).FindAllStringSubmatch(body, -1) {
		out = append(out, heading{m[1], regexp.MustCompile(`<[^>]*>`).ReplaceAllString(m[2], "")})
	}
	return out
}

// up leads from a page to the site's root.
func up(file string) string { return strings.Repeat("../", strings.Count(file, "/")) }
