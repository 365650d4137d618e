package all

import (
	"os"
	"slices"
	"testing"
)

// Every protocol's folder is in the list, under its own name.
func TestListIsComplete(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var folders, names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "all" && e.Name() != "protocoltest" {
			folders = append(folders, e.Name())
		}
	}
	for _, i := range Infos() {
		names = append(names, i.Name)
	}
	if !slices.Equal(folders, names) {
		t.Errorf("folders %v, list %v", folders, names)
	}
}

func TestFind(t *testing.T) {
	for _, p := range List() {
		if got, ok := Find(p.Info().Name); !ok || got != p {
			t.Errorf("Find(%q) = %v, %v", p.Info().Name, got, ok)
		}
	}
	if p, ok := Find("gopher"); ok || p != nil {
		t.Errorf("Find(gopher) = %v, %v", p, ok)
	}
}
