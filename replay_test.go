package squall

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/squallhq/squall/bundle"
)

// A specification that loads a file from beside its own directory replays after both were changed,
// and what it names by relative paths is found where it was.
func TestAChangedSpecIsUnpackedWithWhatLiesBesideIt(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "specs")
	write := func(name, text string) error {
		path := filepath.Join(root, name)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	if err := errors.Join(write("specs/a.star", "new"), write("lib/b.star", "new"), write("bin/db", "program"), write("lib/tool", "program"), write("specs/c.json", "data")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "run.squall")
	w, err := bundle.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Plan(bundle.Plan{}), w.SpecFile("a.star", []byte("old")), w.SpecFile("../lib/b.star", []byte("old")),
		w.Close(bundle.Manifest{Source: "a.star"})); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	source, clean, err := unpackSpec(b, dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.star": "old", "../lib/b.star": "old", "../bin/db": "program", "../lib/tool": "program", "c.json": "data"} {
		if got, err := os.ReadFile(filepath.Join(filepath.Dir(source), name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	clean()
	if _, err := os.Stat(source); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "lib", "b.star")); err != nil || string(got) != "new" {
		t.Errorf("the file of today: %q, %v", got, err)
	}
}
