// Command docs writes the reference pages of docs/reference from the tables in the code. A test
// wants the pages to be what it would write.
//
// Usage, in the repository's root: go run ./internal/docs
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write(filepath.Join("docs", "reference")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the pages into a directory that exists.
func write(dir string) error {
	all, err := pages()
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("docs: write: %w", err)
		}
	}
	return nil
}
