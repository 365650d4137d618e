package starbind

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/protocol/all"
)

func stubs() string { return Loader{Protocols: all.Infos()}.Stubs() }

// TestStubsAreComplete: each builtin and each method is in the stub file, with all its parameters.
func TestStubsAreComplete(t *testing.T) {
	text := stubs()
	table := newTable(&loader{protocols: nil})
	entries := table.entries
	for _, e := range slices.Concat(oracle.TraceMethods(), oracle.EventMethods()) {
		entries = append(entries, &e)
	}
	for _, e := range entries {
		class, name, dotted := strings.Cut(e.Name, ".")
		within := text
		if dotted {
			if class == "trace" || class == "event" {
				class = strings.ToUpper(class[:1]) + class[1:]
			}
			_, within, _ = strings.Cut(text, "\nclass "+class+":\n")
			name = "    def " + name
		} else {
			name = "\ndef " + e.Name
		}
		_, rest, found := strings.Cut(within, name+"(")
		if !found {
			t.Errorf("%s is not in the stub file", e.Name)
			continue
		}
		signature, _, _ := strings.Cut(rest, "\n")
		for _, p := range e.Params {
			if !p.Unsupported && !regexp.MustCompile(`\b`+p.Name+`: `).MatchString(signature) {
				t.Errorf("%s lacks its parameter %s: %s", e.Name, p.Name, signature)
			}
		}
	}
}

// TestStepsAreNames: each step of a protocol is in the stub file, and can be written behind a dot.
func TestStepsAreNames(t *testing.T) {
	text := stubs()
	for _, p := range all.Infos() {
		for _, m := range p.Methods {
			if _, err := parseOptions().Parse("step", "x."+m.Name+"()", 0); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
			if !strings.Contains(text, "    def "+m.Name+"(self, ") {
				t.Errorf("%s: %s is not in the stub file", p.Name, m.Name)
			}
		}
	}
}

// TestStubsParse has Python read the stub file.
func TestStubsParse(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine to read the stub file with")
	}
	file := filepath.Join(t.TempDir(), "__builtins__.pyi")
	if err := os.WriteFile(file, []byte(stubs()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "-c", "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
