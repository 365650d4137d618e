package starbind

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/oracle"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/all"
	"github.com/squallhq/squall/spec"
)

// What the examples take for granted: at the top level, and in a body.
var (
	exampleGlobals = map[string]string{
		"db":           `db = service("db", interface("pg", "postgres", 5432), binary = "prog")`,
		"api":          `api = service("api", interface("http", "http", 8080), binary = "prog")`,
		"web":          `web = service("web", interface("http", "http", 8081), binary = "prog")`,
		"n1":           `n1 = service("n1", interface("raft", "tcp", 7000), binary = "prog")`,
		"n2":           `n2 = service("n2", interface("raft", "tcp", 7000), binary = "prog")`,
		"ref":          `n2 = service("n2", interface("raft", "tcp", 7000), binary = "prog")`,
		"persisted":    `persisted = monitor("persisted", on = lambda e: None)`,
		"create_order": "def create_order():\n    return api.http.post(path = \"/orders\", body = \"{}\")",
		"disk_full":    `disk_full = fault_assumption("disk_full", target = db, write = deny("ENOSPC"))`,
		"slow_disk":    `slow_disk = fault_assumption("slow_disk", target = db, fsync = delay("500ms"))`,
		"db_down":      `db_down = fault_assumption("db_down", target = api, connect = deny("ECONNREFUSED"))`,
	}
	exampleLocals = map[string]string{
		"r": `r = api.get(path = "/orders")`, "order": "order = 12", "f": `f = fault_start(db, close = deny("EIO"))`, "h": `h = fault_start(db, fsync = hold())`,
		"sent": "sent = events()[0]", "answered": "answered = events()[-1]", "a": "a = events()[1]", "b": "b = events()[2]",
		"confirmed": "confirmed = events()[4]", "denied": "denied = events()[3]", "received": "received = events()[5]",
	}
	// What an example needs beside the names in it.
	exampleExtra = map[string]string{
		"fault_matrix": "scenario(create_order)", "fault_scenario": "scenario(create_order)",
		"assume":         "def pick():\n    choose(\"backend\", [\"primary\", \"replica\"])\n    choose(\"write\", [True, False])\nscenario(pick)",
		"partition_stop": "    partition_start(n1, n2)",
	}
	// Those that may be used at the top level too, and whose examples are of a body.
	exampleBodies = []string{"choose", "partition", "response", "drop", "hold"}
	// Those that end a body on purpose, or where what they look for is not in the story.
	exampleEnds = []string{"halt", "fail", "assert_eq", "await_event"}
)

// TestExamplesRun runs the example of every builtin and method where it may be used.
func TestExamplesRun(t *testing.T) {
	ld := &loader{Loader: Loader{Protocols: all.Infos()}, protocols: map[string]protocol.Info{}}
	entries := slices.Clone(newTable(ld).entries)
	methods := oracle.NewMethods()
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		entries = append(entries, methods[name])
	}
	for _, e := range entries {
		t.Run(e.Name, func(t *testing.T) {
			atLoad := e.Phases&bind.AtLoad != 0 && e.Phases&bind.InProperty == 0 && !slices.Contains(exampleBodies, e.Name) || e.Name == "ref"
			if atLoad {
				s := loadExample(t, exampleText(t, e, false))
				if s == nil {
					t.Error("no suite")
				}
				return
			}
			s := loadExample(t, exampleText(t, e, true))
			synctest.Test(t, func(t *testing.T) {
				_, err := s.Scenarios[len(s.Scenarios)-1].Body(t.Context(), story())
				var violation *property.Violation
				var ended *spec.Ended
				ends := errors.As(err, &violation) || errors.As(err, &ended)
				if err != nil && !ends || ends != slices.Contains(exampleEnds, e.Name) {
					t.Errorf("%s\n%v", e.Example, errorText(err))
				}
			})
		})
	}
}

// exampleText is an example with what it takes for granted.
func exampleText(t *testing.T, e *entry, inBody bool) string {
	t.Helper()
	globals, locals := []string{}, []string{}
	seen := map[string]bool{}
	var need func(text string)
	need = func(text string) {
		file, err := parseOptions().Parse("example", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		defined := map[string]bool{}
		for _, s := range file.Stmts {
			if a, ok := s.(*syntax.AssignStmt); ok {
				if id, ok := a.LHS.(*syntax.Ident); ok {
					defined[id.Name] = true
				}
			}
			if d, ok := s.(*syntax.DefStmt); ok {
				defined[d.Name.Name] = true
			}
		}
		syntax.Walk(file, func(n syntax.Node) bool {
			id, ok := n.(*syntax.Ident)
			if !ok || seen[id.Name] || defined[id.Name] {
				return true
			}
			if line, ok := exampleGlobals[id.Name]; ok {
				seen[id.Name] = true
				need(line)
				if !slices.Contains(globals, line) {
					globals = append(globals, line)
				}
			} else if line, ok := exampleLocals[id.Name]; ok && inBody {
				seen[id.Name] = true
				need(line)
				locals = append(locals, "    "+line)
			}
			return true
		})
	}
	extra := exampleExtra[e.Name]
	need(strings.TrimLeft(extra, " "))
	need(e.Example)
	if !inBody {
		return strings.Join(append(globals, extra, e.Example), "\n") + "\n"
	}
	if strings.HasPrefix(extra, " ") {
		locals = append(locals, extra)
		extra = ""
	}
	body := strings.Join(locals, "\n") + "\n    " + strings.ReplaceAll(e.Example, "\n", "\n    ")
	return strings.Join(globals, "\n") + "\n" + extra + "\ndef example():\n" + body + "\nscenario(example)\n"
}

func loadExample(t *testing.T, text string) *spec.Suite {
	t.Helper()
	dir := write(t, map[string]string{"main.star": text, "bin/db": "#!/bin/sh\n", "schema.sql": "", "orders.json": "[]", "limits.yaml": "a: 1\n"})
	if err := os.Chmod(filepath.Join(dir, "bin/db"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Loader{Protocols: all.Infos()}.Load(t.Context(), filepath.Join(dir, "main.star"))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}
