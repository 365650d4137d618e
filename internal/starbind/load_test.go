package starbind

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

var update = flag.Bool("update", false, "write the golden files")

// testProtocols are enough of the real ones, and a datagram protocol.
func testProtocols() []protocol.Info {
	path := protocol.Param{Name: "path", Type: "string"}
	body := protocol.Param{Name: "body", Type: "bytes"}
	headers := protocol.Param{Name: "headers", Type: "map"}
	return []protocol.Info{
		{Name: "http", Messages: testMessages("method path query host", "error response delay drop duplicate hold", "status body headers"), Methods: []protocol.Method{
			{Name: "get", Params: []protocol.Param{path, headers}},
			{Name: "post", Params: []protocol.Param{path, body, headers}},
		}},
		{Name: "tcp", Messages: testMessages("data", "error response delay drop duplicate hold", "text"), Methods: []protocol.Method{{Name: "send", Params: []protocol.Param{{Name: "data", Type: "bytes", Required: true}}}}},
		{Name: "postgres", Messages: testMessages("query", "error response delay drop duplicate hold", "code text")},
		{Name: "redis", Messages: testMessages("command key", "error delay", "text")},
		{Name: "udp", Datagram: true, Methods: []protocol.Method{{Name: "send", Params: []protocol.Param{{Name: "data", Type: "bytes", Required: true}}}}},
	}
}

func testMessages(match, verbs, answer string) *protocol.Messages {
	fields := func(names string) []protocol.Field {
		var out []protocol.Field
		for name := range strings.FieldsSeq(names) {
			out = append(out, protocol.Field{Name: name})
		}
		return out
	}
	m := &protocol.Messages{Match: fields(match), Answer: fields(answer)}
	for v := range strings.FieldsSeq(verbs) {
		m.Verbs = append(m.Verbs, protocol.Verb(v))
	}
	return m
}

func load(t *testing.T, path string) (*spec.Suite, error) {
	t.Helper()
	return Loader{Protocols: testProtocols(), Print: func(pos, msg string) { t.Logf("%s: %s", pos, msg) }}.Load(t.Context(), path)
}

func mustLoad(t *testing.T, path string) *spec.Suite {
	t.Helper()
	s, err := load(t, path)
	if err != nil {
		t.Fatalf("load:\n%v", err)
	}
	return s
}

// write puts files into a new directory that has a program named "prog", and returns the directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "prog"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGolden compares what good specs load to with a golden file beside each.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/good/*.star")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no specs: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			got := describeSuite(t, mustLoad(t, path))
			golden := strings.TrimSuffix(path, ".star") + ".json"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs (run with -update to see how):\n%s", golden, got)
			}
		})
	}
}

func monitors(list []*property.Monitor) (names []string) {
	for _, m := range list {
		names = append(names, m.Name)
	}
	return names
}

// describeSuite writes a suite as JSON, with names in the place of functions.
func describeSuite(t *testing.T, s *spec.Suite) []byte {
	t.Helper()
	temporal := func(list []*property.Temporal) (names []string) {
		for _, p := range list {
			name := string(p.Kind) + " " + p.Name
			if p.Window != nil {
				name += " " + p.Window.Name
			}
			names = append(names, name)
		}
		return names
	}
	type object = map[string]any
	out := object{"services": s.Services, "monitors": monitors(s.Monitors), "temporal": temporal(s.Temporal)}
	var files []string
	for _, f := range s.Files {
		files = append(files, f.Path)
	}
	out["files"] = files
	var list []object
	for _, c := range s.Scenarios {
		list = append(list, object{
			"name": c.Name, "doc": c.Doc, "may_inject": c.MayInject, "monitors": monitors(c.Monitors), "temporal": temporal(c.Temporal),
			"expect": c.Expect != nil, "timeout": c.Timeout, "position": c.Position,
		})
	}
	out["scenarios"] = list
	list = nil
	for _, a := range s.Assumptions {
		list = append(list, object{
			"name": a.Name, "doc": a.Doc, "rules": a.Rules, "monitors": monitors(a.Monitors), "temporal": temporal(a.Temporal), "position": a.Position,
		})
	}
	out["assumptions"] = list
	list = nil
	for _, m := range s.Matrices {
		o := object{"default": m.Default != nil, "monitors": monitors(m.Monitors), "temporal": temporal(m.Temporal), "position": m.Position}
		var cells []string
		for _, c := range m.Scenarios {
			for _, a := range m.Assumptions {
				key := spec.CellKey{Scenario: c.Name, Assumption: a.Name}
				cell := c.Name + " x " + a.Name
				if m.Exclude[key] {
					cell += " excluded"
				}
				if m.Overrides[key] != nil {
					cell += " overridden"
				}
				cells = append(cells, cell)
			}
		}
		o["cells"] = cells
		list = append(list, o)
	}
	out["matrices"] = list
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.ReplaceAll(text, []byte(wd), []byte("$PKG")), '\n')
}
