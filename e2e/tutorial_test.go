package e2e

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// nobody is the user of the second pass of make test, whose build cache is empty.
const nobody = 65534

// update writes into the tutorial what its commands print.
var update = flag.Bool("update", false, "rewrite the output in docs/tutorial")

// fenced is a block of a page: its language, the file that it is, and its text. With + before its name it goes
// below what is in the file.
var fenced = regexp.MustCompile("(?ms)^```(\\w+)(?: (\\+?)(\\S+))?\n(.*?)^```$")

// TestTutorial does what the tutorial says, from the first block to the last, and wants to see what it shows. All its
// pages are done in one directory, one after the other.
func TestTutorial(t *testing.T) {
	if os.Getuid() == nobody {
		t.Skip("as nobody the standard library would be compiled once more, half a minute; the first pass runs this")
	}
	pages, err := filepath.Glob("../docs/tutorial/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) != 8 {
		t.Errorf("%d steps, want 8", len(pages))
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, page := range pages {
		commands += follow(t, dir, page)
	}
	if commands < 30 {
		t.Errorf("only %d commands found", commands)
	}
}

// follow does what a page says and returns how many commands it has.
func follow(t *testing.T, dir, page string) int {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	done, commands := 0, 0
	for _, m := range fenced.FindAllSubmatchIndex(text, -1) {
		part := func(i int) string { return string(text[max(0, m[2*i]):max(0, m[2*i+1])]) }
		kind, below, path, body := part(1), part(2) != "", filepath.Join(dir, part(3)), part(4)
		switch kind {
		case "go", "python":
			put(t, path, body, below)
		case "diff":
			patch(t, page, path, body)
		case "console":
			printed, n := enter(t, dir, page, body)
			commands += n
			out.Write(text[done:m[8]])
			out.WriteString(printed)
			done = m[9]
		default:
			t.Errorf("%s: a block of kind %q: what should be done with it?", page, kind)
		}
	}
	out.Write(text[done:])
	if *update {
		if err := os.WriteFile(page, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return commands
}

func put(t *testing.T, path, text string, below bool) {
	t.Helper()
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if below {
		mode = os.O_WRONLY | os.O_APPEND
		text = "\n" + text
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// enter carries out the commands of a console block. It returns the block as it should be: what is shown already
// stays, where it differs from what was printed only in what varies.
func enter(t *testing.T, dir, page, body string) (string, int) {
	t.Helper()
	var out strings.Builder
	steps := strings.Split("\n"+strings.TrimSuffix(body, "\n"), "\n$ ")[1:]
	for _, step := range steps {
		command, want, _ := strings.Cut(step, "\n")
		got := strings.TrimRight(shell(t, dir, command), "\n")
		if plain(got) == plain(want) {
			got = want
		} else if !*update {
			t.Fatalf("%s\n$ %s\n--- the page shows\n%s\n--- it prints\n%s", page, command, want, got)
		}
		out.WriteString("$ " + command + "\n")
		if got != "" {
			out.WriteString(got + "\n")
		}
	}
	return out.String(), len(steps)
}

// patch replaces the lines that begin with - by those that begin with +.
func patch(t *testing.T, page, path, diff string) {
	t.Helper()
	var from, to string
	for line := range strings.Lines(diff) {
		if line[0] != '+' {
			from += line[1:]
		}
		if line[0] != '-' {
			to += line[1:]
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), from) != 1 {
		t.Fatalf("%s: %s does not have once:\n%s", page, path, from)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func shell(t *testing.T, dir, command string) string {
	t.Helper()
	c := exec.Command("sh", "-c", command)
	c.Dir = dir
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}

// varying is what differs from run to run, or from machine to machine: times, seeds, numbers of events
// and hashes. Where lines are broken does not count either.
var varying = regexp.MustCompile(`(?m)^ +\d+ +\d+(\.\d+)?ms|about \d\S* with \d+ lea\w+ at once|\d+(\.\d+)? ?m?s\b|\d+ events|seed \d+|#\d+ +|written \S+ by squall \S+|trace [0-9a-f]{12}|kernel \S+`)

func plain(s string) string {
	return strings.Join(strings.Fields(varying.ReplaceAllString(s, "~ ")), " ")
}
