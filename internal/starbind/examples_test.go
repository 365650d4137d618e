package starbind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples loads the specs of the examples, without their programs having been built.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../examples/*/*.star")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := write(t, map[string]string{"main.star": strings.ReplaceAll(string(content), "/usr/bin/redis-server", "bin/db")})
			for _, prog := range []string{"bin/db", "bin/api", "bin/node", "bin/pg", "bin/inventory", "bin/order"} {
				if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, prog), []byte("#!/bin/sh\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s := mustLoad(t, filepath.Join(dir, "main.star"))
			if len(s.Scenarios) == 0 || len(s.Services) == 0 {
				t.Errorf("%d scenarios, %d services", len(s.Scenarios), len(s.Services))
			}
			for _, c := range s.Scenarios {
				t.Logf("%s may inject %s", c.Name, scopeText(c.MayInject))
			}
		})
	}
}
