package starbind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/squallhq/squall/internal/starbind/source"
)

// TestBad loads the chunks of testdata/bad, which are separated by lines of ---. Behind a line that
// must be reported stands
//
//	### COL "regexp"
//
// once for each report. Chunks are loaded from a directory with programs and a library.
func TestBad(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.star")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no specs: %v", err)
	}
	chunks := 0
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		line := 1
		for chunk := range strings.SplitSeq(string(content), "\n---\n") {
			chunks++
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(path), line), func(t *testing.T) { badChunk(t, chunk) })
			line += strings.Count(chunk, "\n") + 2
		}
	}
	if chunks < 30 {
		t.Errorf("only %d bad specs", chunks)
	}
}

func badChunk(t *testing.T, chunk string) {
	dir := write(t, map[string]string{
		"main.star": chunk, "lib.star": "def ok(): pass\n", "sub/up.star": "load(\"../main.star\", \"x\")\n",
		"broken.star": "x = (\n", "loop.star": "load(\"main.star\", \"x\")\n", "not-executable": "#!/bin/sh\n",
	})
	_, err := Loader{Protocols: testProtocols(), MaxSteps: 100_000}.Load(t.Context(), filepath.Join(dir, "main.star"))
	var list *Errors
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("not an *Errors: %v", err)
	}
	type want struct {
		col int
		re  *regexp.Regexp
	}
	wants := map[int][]want{}
	lines := strings.Split(chunk, "\n")
	for i, line := range lines {
		for _, m := range regexp.MustCompile(`### (\d+) ("(?:[^"\\]|\\.)*"|`+"`[^`]*`)").FindAllStringSubmatch(line, -1) {
			col, _ := strconv.Atoi(m[1])
			text, err := strconv.Unquote(m[2])
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			wants[i+1] = append(wants[i+1], want{col, regexp.MustCompile(text)})
		}
	}
	if list == nil {
		list = &Errors{}
	}
	for _, d := range list.List {
		message := strings.TrimPrefix(d.String(), fmt.Sprintf("%s:%d:%d: ", d.File, d.Line, d.Col))
		found := false
		for i, w := range wants[d.Line] {
			if w.col == d.Col && w.re.MatchString(message) {
				wants[d.Line] = append(wants[d.Line][:i:i], wants[d.Line][i+1:]...)
				found = true
				break
			}
		}
		if !found {
			t.Errorf("unexpected: %s", d)
		}
		if d.EndCol <= d.Col || d.Text != lines[d.Line-1] && d.File == filepath.Join(dir, "main.star") {
			t.Errorf("%s: end column %d, text %q", d, d.EndCol, d.Text)
		}
	}
	for line, rest := range wants {
		for _, w := range rest {
			t.Errorf("line %d: nothing reported at column %d that matches %s", line, w.col, w.re)
		}
	}
}

// TestRender compares the layout with the one that users are shown.
func TestRender(t *testing.T) {
	dir := write(t, map[string]string{"shop.star": `api = service("api",
    interface("http", "http", 8080),
    binary = "prog",
	helthcheck = http("localhost:8080/health"),
)
x = deny("ENOSPACE")
`})
	t.Chdir(dir)
	_, err := load(t, "shop.star")
	var list *Errors
	if !errors.As(err, &list) {
		t.Fatalf("got %v", err)
	}
	var b bytes.Buffer
	if err := list.Render(&b); err != nil {
		t.Fatal(err)
	}
	want := "shop.star:4:2: service \"api\": unknown keyword \"helthcheck\"; nearest: healthcheck\n" +
		"    4 | \thelthcheck = http(\"localhost:8080/health\"),\n" +
		"      | \t^^^^^^^^^^\n" +
		"shop.star:6:10: deny: unknown errno \"ENOSPACE\"; nearest: ENOSPC\n" +
		"    6 | x = deny(\"ENOSPACE\")\n" +
		"      |          ^^^^^^^^^^\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestLoadIsInterrupted(t *testing.T) {
	dir := write(t, map[string]string{"main.star": "while True: pass\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Loader{}.Load(ctx, filepath.Join(dir, "main.star"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLoadOfNothing(t *testing.T) {
	_, err := Loader{}.Load(t.Context(), filepath.Join(t.TempDir(), "missing.star"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestSymlinkOut: a load must not leave the directory of the spec.
func TestSymlinkOut(t *testing.T) {
	outside := write(t, map[string]string{"secret.star": "x = 1\n"})
	dir := write(t, map[string]string{"main.star": `load("link.star", "x")` + "\n"})
	if err := os.Symlink(filepath.Join(outside, "secret.star"), filepath.Join(dir, "link.star")); err != nil {
		t.Fatal(err)
	}
	_, err := load(t, filepath.Join(dir, "main.star"))
	if err == nil || !strings.Contains(err.Error(), "leads outside the directory of the main file") {
		t.Errorf("got %v", err)
	}
}

// TestLibrary: what is wrong in a load()ed file is reported there, with its own line.
func TestLibrary(t *testing.T) {
	for _, tc := range []struct {
		library string
		want    Diagnostic
	}{
		{"def f():\n    return deny(\"ENOSPACE\")\n", Diagnostic{
			Line: 2, Col: 17, EndCol: 27, Message: `deny: unknown errno "ENOSPACE"`, Nearest: "ENOSPC", Text: `    return deny("ENOSPACE")`,
		}},
		{"f = (1,\n", Diagnostic{Line: 2, Col: 1, EndCol: 2, Message: "got end of file, want ')'"}},
		{"f = g\n", Diagnostic{Line: 1, Col: 5, EndCol: 6, Message: "undefined: g", Text: "f = g"}},
		{"f = 1 // 0\n", Diagnostic{Line: 1, Col: 7, EndCol: 8, Message: "floored division by zero", Text: "f = 1 // 0"}},
		{"load(\"../main.star\", \"f\")\n", Diagnostic{
			Line: 1, Col: 6, EndCol: 20, Message: "cannot load ../main.star: cycle: main.star is being loaded already", Text: `load("../main.star", "f")`,
		}},
	} {
		dir := write(t, map[string]string{
			"main.star":       `load("lib/faults.star", "f")` + "\nscenario(lambda: f(), name = \"x\")\n",
			"lib/faults.star": tc.library,
		})
		t.Chdir(dir)
		_, err := load(t, "main.star")
		var list *Errors
		if !errors.As(err, &list) || len(list.List) != 1 {
			t.Errorf("%s: got %v", tc.library, err)
			continue
		}
		tc.want.File = "lib/faults.star"
		if got := list.List[0]; got != tc.want {
			t.Errorf("%s: got %+v", tc.library, got)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"healthcheck", "binary", "depends_on", "stop_timeout", "write", "pwrite64"}
	for got, want := range map[string]string{
		"helthcheck": "healthcheck", "bin": "binary", "dependsOn": "depends_on", "wirte": "write", "xyz": "", "": "",
	} {
		if n := source.Nearest(got, words); n != want {
			t.Errorf("Nearest(%q) = %q, want %q", got, n, want)
		}
	}
}
