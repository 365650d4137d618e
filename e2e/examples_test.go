package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestExamples runs each example as it is, and with its seeded bug. `make build examples tools`
// has to come first.
func TestExamples(t *testing.T) {
	const (
		postgres = "/usr/lib/postgresql/15/bin/postgres"
		redis    = "/usr/bin/redis-server"
	)
	for name, c := range map[string]struct {
		spec     string
		needs    []string
		findings []string
	}{
		"shop":               {spec: "shop/shop.star"},
		"shop, buggy":        {"shop/shop_buggy.star", nil, []string{"create_order/disk_full=monitor-violated:confirmed_means_persisted"}},
		"orders":             {spec: "orders/orders.star"},
		"raft":               {spec: "raft/raft.star"},
		"raft, buggy":        {"raft/raft_buggy.star", nil, []string{"isolated_leader/none=monitor-violated:acknowledged_never_lost", "mute_leader/none=monitor-violated:acknowledged_never_lost"}},
		"on Postgres":        {spec: "shop-postgres/shop.star", needs: []string{postgres, redis}},
		"on Postgres, buggy": {"shop-postgres/shop_buggy.star", []string{postgres, redis}, []string{"create_order/disk_full=expectation-failed:expectation"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, program := range c.needs {
				if _, err := os.Stat(program); err != nil {
					t.Skipf("needs %s", program)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			args := append([]string{built(t, "bin/squall"), built(t, "examples/"+c.spec)}, c.findings...)
			cmd := exec.CommandContext(ctx, built(t, "bin/tools/expect"), args...)
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// built returns the absolute path of a file that make has built.
func built(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abs); err != nil {
		t.Fatalf("%v; first: make build examples tools", err)
	}
	return abs
}
