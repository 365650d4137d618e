package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// nobody is the user of the second pass of make test, whose build cache is empty.
const nobody = 65534

// block is a fenced block of a page: its language, the file that it is, and its text.
type block struct{ kind, file, text string }

var fenced = regexp.MustCompile("(?ms)^```(\\w+)(?: (\\S+))?\n(.*?)^```$")

func blocks(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		out = append(out, block{m[1], m[2], m[3]})
	}
	return out
}

// TestGuide does what the guide says, from the first block to the last, and wants to see what it shows.
func TestGuide(t *testing.T) {
	if os.Getuid() == nobody {
		t.Skip("as nobody the standard library would be compiled once more, half a minute; the first pass runs this")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, b := range blocks(t, "../docs/guide.md") {
		path := filepath.Join(dir, b.file)
		switch b.kind {
		case "go", "python":
			if err := os.WriteFile(path, []byte(b.text), 0o644); err != nil {
				t.Fatal(err)
			}
		case "diff":
			patch(t, path, b.text)
		case "console":
			for _, step := range strings.Split("\n"+b.text, "\n$ ")[1:] {
				command, want, _ := strings.Cut(step, "\n")
				if got := shell(t, dir, command); plain(got) != plain(want) {
					t.Fatalf("$ %s\n--- the guide shows\n%s\n--- it prints\n%s", command, want, got)
				}
				commands++
			}
		default:
			t.Errorf("a block of kind %q: what should be done with it?", b.kind)
		}
	}
	if commands < 5 {
		t.Errorf("only %d commands found", commands)
	}
}

// patch replaces the lines that begin with - by those that begin with +.
func patch(t *testing.T, path, diff string) {
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
		t.Fatalf("%s does not have once:\n%s", path, from)
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
var varying = regexp.MustCompile(`\d+(\.\d+)? m?s\b|seed \d+|#\d+ +|trace [0-9a-f]{12}|kernel \S+`)

func plain(s string) string {
	return strings.Join(strings.Fields(varying.ReplaceAllString(s, "~ ")), " ")
}
