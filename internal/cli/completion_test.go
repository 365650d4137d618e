package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestBashCompletes asks a real bash what it would offer.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	for _, name := range []string{"shop.star", "notes.txt", "run.squall"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "completion.bash")
	var b strings.Builder
	if code := (&env{stdout: &b, stderr: &b}).main([]string{"completion", "bash"}); code != 0 {
		t.Fatalf("exit %d: %s", code, b.String())
	}
	if err := os.WriteFile(script, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words string
		want  string
	}{
		{"pl", "plan"},
		{"test ", "shop.star"},
		{"replay r", "run.squall"},
		{"test --fail", "--fail-fast"},
		{"init x --protocol ht", "http"},
		{"completion f", "fish"},
	} {
		words := append([]string{"squall"}, strings.Split(c.words, " ")...)
		last := len(words) - 1
		ask := `source "$0"; COMP_CWORD=$1; shift; COMP_WORDS=("$@"); _squall 2>/dev/null; printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.Command(bash, append([]string{"-c", ask, script, strconv.Itoa(last)}, words...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.words, err)
		}
		if got := strings.Fields(string(out)); len(got) != 1 || got[0] != c.want {
			t.Errorf("squall %s: got %v, want %s", c.words, got, c.want)
		}
	}
}

// TestFishHasEveryCommand holds the script for fish, which is not at hand everywhere, to the model.
func TestFishHasEveryCommand(t *testing.T) {
	var b strings.Builder
	if code := (&env{stdout: &b, stderr: &b}).main([]string{"completion", "fish"}); code != 0 {
		t.Fatalf("exit %d", code)
	}
	parser, err := newParser(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range parser.Model.Children {
		if !strings.Contains(b.String(), "-a "+c.Name+" -d ") {
			t.Errorf("no completion for %s", c.Name)
		}
		for _, f := range c.Flags {
			if !strings.Contains(b.String(), "-l "+f.Name+" ") {
				t.Errorf("no completion for squall %s --%s", c.Name, f.Name)
			}
		}
	}
	if strings.Count(b.String(), "'")%2 != 0 {
		t.Error("quotes do not match")
	}
}
