package tidy

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// exception lets one declaration break one rule.
type exception struct{ check, path, name, reason string }

// exceptions are few, and each says why. One that nothing needs any more fails the test.
func exceptions() []exception {
	return []exception{
		{"no-variables", "squall.go", "version", "a release build sets it with the linker's -X, which needs a variable"},
	}
}

func TestTree(t *testing.T) {
	tree, err := Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Go) < 10 {
		t.Fatalf("only %d Go files found: is this the repository?", len(tree.Go))
	}
	used := map[exception]bool{}
	for _, c := range Checks() {
		for _, f := range c.Run(tree) {
			i := slices.IndexFunc(exceptions(), func(e exception) bool {
				return e.check == f.Check && e.path == f.Path && e.name == f.Name
			})
			if i >= 0 {
				used[exceptions()[i]] = true
				continue
			}
			t.Error(f)
		}
	}
	for _, e := range exceptions() {
		if !used[e] {
			t.Errorf("nothing needs this exception any more: %+v", e)
		}
	}
}

const header = "// Package p is a snippet.\npackage p\n\n"

// TestChecks runs each rule on snippets that it must catch, and on some that it must let pass.
func TestChecks(t *testing.T) {
	long := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	cases := []struct {
		check string
		files map[string]string
		want  string // part of the one finding; "" where there must be none
	}{
		{"function-length", one("event/a.go", header+"func f() {\n"+long(69, "\tg()")+"}\n"), "f has 71 lines"},
		{"function-length", one("event/a.go", header+"func f() {\n"+long(68, "\tg()")+"}\n"), ""},
		{"function-length", one("event/a.go", header+"func f() []int {\n\treturn []int{\n"+long(90, "1,")+"}\n}\n"), ""},
		{"function-length", one("event/a.go", header+"func f() []func() {\n\treturn []func(){func() {\n"+long(90, "g()")+"}}\n}\n"), "f has 9"},
		{"complexity", one("event/a.go", header+"func f() {\n"+long(14, "\tif a {\n\t}")+"\tfor {\n\t}\n}\n"), "complexity of 16"},
		{"complexity", one("event/a.go", header+"func f() {\n"+long(13, "\tif a {\n\t}")+"\tfor {\n\t}\n}\n"), ""},
		{"complexity", one("event/a_test.go", header+"func f() {\n"+long(20, "\tif a {\n\t}")+"}\n"), ""},
		{"complexity", one("event/a.go", header+"func f() bool { return a"+strings.Repeat(" && b || c", 8)+" }\n"), "complexity of 17"},
		{"complexity", one("event/a.go", header+"func f() {\n\tg = func() {\n"+long(15, "if a {\n\t}")+"\t}\n}\n"), "literal in f"},
		{"complexity", one("event/a.go", header+"func f() {\n\tselect {\n"+long(15, "case <-a:")+"default:\n\t}\n}\n"), "complexity of 16"},
		{"file-length", one("event/a.go", header+long(498, "// x")), "501 lines"},
		{"file-length", one("event/a_test.go", header+long(700, "// x")), ""},
		{"file-length", one("event/a_test.go", header+long(798, "// x")), "801 lines"},
		{"package-length", many(9, "event/a%.go", header+long(460, "// x")), "4167 lines"},
		{"package-length", many(9, "event/a%_test.go", header+long(460, "// x")), ""},
		{"type-size", one("event/a.go", header+"type t struct {\n\ta, b, c, d, e, f, g, h int\n\ti, j, k, l, m, n, o int\n\tp\n}\n"), "16 fields"},
		{"type-size", one("event/a.go", header+"type t interface {\n"+long(9, "m()")+"}\n"), "9 methods"},
		{"type-size", one("event/a.go", header+"type t struct {\n\ta, b, c, d, e, f, g, h int\n\ti, j, k, l, m, n, o int\n}\n"), ""},

		{"documented", one("event/a.go", header+"func F() {}\n"), "exported F"},
		{"documented", one("event/a.go", header+"type t int\n\n// T is.\ntype T int\n\nfunc (t) M() {}\n\nfunc (*T) M() {}\n"), "exported M"},
		{"documented", one("event/a.go", header+"const A = 1\n"), "exported A"},
		{"documented", one("event/a.go", header+"// All.\nconst (\n\tA = 1\n\tB = 2\n)\n"), ""},
		{"documented", one("event/a.go", header+"// All.\ntype (\n\tA int\n)\n"), "exported A"},
		{"documented", one("event/a_test.go", header+"func TestF() {}\n"), ""},
		{"package-comment", one("event/a.go", "package event\n"), "no package comment"},
		{"package-comment", map[string]string{"event/a.go": "package event\n", "event/b.go": "// Package event is.\npackage event\n"}, ""},

		{"clock", one("event/a.go", header+"import \"time\"\n\nfunc f() { time.Sleep(1) }\n"), "time.Sleep"},
		{"clock", one("event/a.go", header+"import clock \"time\"\n\nfunc f() { g(clock.Now) }\n"), "time.Now"},
		{"clock", one("event/a.go", header+"import \"math/rand/v2\"\n"), "internal/seed"},
		{"clock", one("event/a.go", header+"import \"time\"\n\nconst d = 2 * time.Second\n"), ""},
		{"clock", one("event/a_test.go", header+"import \"time\"\n\nfunc f() { time.Sleep(1) }\n"), ""},
		{"clock", one("internal/vtime/a.go", header+"import \"time\"\n\nfunc f() { time.Sleep(1) }\n"), ""},
		{"unsafe", one("internal/sys/a.go", header+"import _ \"unsafe\"\n"), "unsafe outside"},
		{"unsafe", one("internal/sys/a_unsafe_linux.go", header+"import \"unsafe\"\n"), ""},
		{"unsafe", one("internal/sys/a_amd64.s", "TEXT f(SB)\n"), "assembly outside"},
		{"no-init", one("event/a.go", header+"func init() {}\n"), "func init"},
		{"no-variables", one("event/a.go", header+"var cache = map[string]int{}\n"), "variable cache"},
		{"no-variables", one("event/a.go", header+"var n int\n"), "variable n"},
		{"no-variables", one("event/a.go", header+"var out = os.Stdout\n"), "variable out"},
		{"no-variables", one("event/a.go", header+"var ErrB = other.ErrA\n\nvar ErrA = errors.New(\"a\")\n\nvar _ T = U{}\n\n//go:embed x\nvar text string\n"), ""},

		{"layers", one("event/a.go", header+imports("verdict")), "level 0 may not import level 0"},
		{"layers", one("spec/a.go", header+imports("internal/run")), "level 1 may not import level 4"},
		{"layers", one("internal/link/a.go", header+imports("internal/resolve")), "level 2 may not"},
		{"layers", one("protocol/http/a.go", header+imports("protocol/tcp")), "level 2 may not"},
		{"layers", one("protocol/http/a.go", header+imports("protocol")), ""},
		{"layers", one("internal/intercept/notify/a.go", header+imports("internal/intercept")), ""},
		{"layers", one("internal/run/a.go", header+imports("protocol/all")), ""},
		{"layers", one("internal/report/a.go", header+imports("internal/plan")), "an edge sees"},
		{"layers", one("internal/report/a.go", header+imports("internal/cli")), "level 6 may not import level 7"},
		{"layers", one("internal/report/a.go", header+imports("bundle")), ""},
		{"layers", one("internal/cli/a.go", header+"import \""+Module+"\"\n"), ""},
		{"layers", one("internal/cli/a.go", header+imports("internal/starbind")), ""},
		{"layers", one("internal/cli/a.go", header+imports("internal/run")), "an edge sees"},
		{"layers", one("cmd/squall/a.go", header+imports("protocol/all")), ""},
		{"layers", one("bundle/bundletest/a.go", header+imports("bundle")), ""},
		{"layers", one("internal/run/a.go", header+"import \"go.starlark.net/starlark\"\n"), "only internal/starbind"},
		{"layers", one("internal/helpers/a.go", header), "does not stand in the layer table"},
		{"layers", one("event/a.go", header+imports("internal/helpers")), "does not stand in the layer table"},
		{"layers", one("examples/shop/db/a.go", header+imports("event")), "standard library only"},
		{"layers", one("event/a_test.go", header+imports("internal/run")), ""},

		{"architecture", map[string]string{guide: "`internal/runner` and `e2e`", "internal/run/a.go": header}, "not named"},
		{"architecture", map[string]string{guide: "- `internal/run`: one leaf", "internal/run/a.go": header}, ""},
		{"architecture", map[string]string{guide: "", "python/squall/a.py": ""}, "not named"},
		{"architecture", map[string]string{guide: "", "web/report/testdata/a.ts": "", "a.go": header}, ""},
		{"comments", one("event/a.go", header+"// See #12 for why.\n"), `"#12"`},
		{"comments", one("event/a.go", header+"// Fixed in issue 7.\n"), "issue 7"},
		{"comments", one("event/a.go", header+"// Since 2024-01-31.\n"), "2024-01-31"},
		{"comments", one("event/a.go", header+"// Since March 2024.\n"), "March 2024"},
		{"comments", one("event/a.go", header+"// The flow is api>db.main#1, in SHA-256, of 2048 bytes, as RFC 9110 says.\n"), ""},
		{"places", one("web/report/package-lock.json", "{\"resolved\": \"https:"+"//x.test/x\"}"), "registry's setting"},
		{"places", one("Makefile", "all:\n\tcp /ro"+"ot/x .\n"), "machine's path"},
		{"places", one("a.go", header+"const home = \"/root"+"/x\"\n"), "machine's path"},
	}
	tried := map[string]bool{}
	for _, c := range cases {
		tried[c.check] = tried[c.check] || c.want != ""
		checkSnippet(t, c.check, c.files, c.want)
	}
	for _, c := range Checks() {
		if !tried[c.Name] {
			t.Errorf("no snippet shows that %s catches anything", c.Name)
		}
	}
}

func checkSnippet(t *testing.T, check string, files map[string]string, want string) {
	t.Helper()
	tree, err := Read(mapFS(files))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(Checks(), func(c Check) bool { return c.Name == check })
	found := Checks()[i].Run(tree)
	shown := slices.Sorted(maps.Keys(files))
	switch {
	case want == "" && len(found) > 0:
		t.Errorf("%s on %v: %v, want none", check, shown, found)
	case want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), want)):
		t.Errorf("%s on %v: %v, want one with %q", check, shown, found, want)
	}
}

func TestWhatIsRead(t *testing.T) {
	tree, err := Read(mapFS(map[string]string{
		"a.go":                      header,
		"gen.go":                    "// Code generated by x. DO NOT EDIT.\n\npackage p\n",
		"testdata/b.go":             "not Go",
		"examples/raft/go.mod":      "module raft\n",
		"examples/raft/node/n.go":   "not Go",
		"web/node_modules/x/x.ts":   "",
		"examples/shop/bin/api.txt": "",
		"picture.png":               "\x89PNG\x00",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Go) != 1 || tree.Go[0].Path != "a.go" {
		t.Errorf("read as Go: %v", tree.Go)
	}
	if len(tree.Text) != 5 {
		t.Errorf("%d text files, want 5", len(tree.Text))
	}
}

func one(path, content string) map[string]string { return map[string]string{path: content} }

func many(n int, path, content string) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[strings.Replace(path, "%", string(rune('a'+i)), 1)] = content
	}
	return m
}

func imports(dir string) string { return "import _ \"" + Module + "/" + dir + "\"\n" }

func mapFS(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for path, content := range files {
		m[path] = &fstest.MapFile{Data: []byte(content)}
	}
	return m
}
