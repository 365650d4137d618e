package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPages keeps docs/reference equal to the tables.
func TestPages(t *testing.T) {
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 5 {
		t.Fatalf("%d pages", len(all))
	}
	for name, want := range all {
		path := filepath.Join("..", "..", "docs", "reference", name)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if string(got) != want {
			t.Errorf("%s is out of date: go run ./internal/docs", path)
		}
	}
}
