package starbind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/internal/starbind/library"
)

// TestLoadData: files are read beside the file that asks, and go into the bundle.
func TestLoadData(t *testing.T) {
	dir := write(t, map[string]string{
		"main.star":       "load(\"sub/lib.star\", \"limits\", \"orders\")\ntext = load_file(\"sub/a.txt\")\nagain = load_file(\"sub/a.txt\")\nresult = [text, limits, orders]\ndef f(): return [text, limits[\"max\"], orders]\nscenario(f)\n",
		"sub/lib.star":    "limits = load_yaml(\"limits.yaml\")\norders = load_json(\"orders.json\")\n",
		"sub/a.txt":       "hello\n",
		"sub/limits.yaml": "max: &m {ms: 300, ratio: 0.5, on: 2024-01-02, who: ~}\ncopy: *m\nlist: [1, yes, \"2\"]\n3: three\n",
		"sub/orders.json": `[{"id": 9007199254740993, "ok": true}]`,
	})
	s := mustLoad(t, filepath.Join(dir, "main.star"))
	v, err := s.Scenarios[0].Body(t.Context(), newWorld())
	const want = `["hello\n", {"ms": 300, "on": "2024-01-02", "ratio": 0.5, "who": None}, [{"id": 9007199254740993, "ok": True}]]`
	if got := v.(starlark.Value).String(); err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	var paths []string
	for _, f := range s.Files {
		paths = append(paths, f.Path)
	}
	if got := strings.Join(paths, " "); got != "main.star sub/lib.star sub/limits.yaml sub/orders.json sub/a.txt" {
		t.Errorf("the bundle gets %s", got)
	}
	// What the bundle holds is enough to load the spec again, elsewhere.
	copied := map[string]string{}
	for _, f := range s.Files {
		copied[f.Path] = string(f.Content)
	}
	mustLoad(t, filepath.Join(write(t, copied), "main.star"))
}

// TestLoadDataRefuses says which files are not read.
func TestLoadDataRefuses(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ text, want string }{
		{`load_file("missing")`, `main.star:1:11: load_file: missing: no such file or directory`},
		{`load_file("../a")`, `main.star:1:11: load_file: "../a" is outside the directory of the main file`},
		{`load_file("/etc/hostname")`, `main.star:1:11: load_file: "/etc/hostname": the path must be relative to this file`},
		{`load_file("https://example.org/a")`, `main.star:1:11: load_file: "https://example.org/a": files are read from this machine only`},
		{`load_file("link")`, `main.star:1:11: load_file: link leads outside the directory of the main file`},
		{`load_file("linked/secret")`, `main.star:1:11: load_file: linked/secret leads outside the directory of the main file`},
		{`load_file("dir")`, `main.star:1:11: load_file: dir is not a regular file`},
		{`load_file("large")`, `main.star:1:11: load_file: large has 8388609 bytes; the limit is 8388608`},
		{`[load_file("large%d" % i) for i in range(9)]`, `main.star:1:12: load_file: large8: the files read so far have 75497472 bytes together; the limit is 67108864`},
		{`load_file("@squall/expect.star")`, `main.star:1:11: load_file: only load() reads from the library`},
		{`load_json("bad.json")`, `main.star:1:11: load_json: bad.json: line 2: invalid character 'x' looking for beginning of value`},
		{`load_json("two.json")`, `main.star:1:11: load_json: two.json: there is more than one value`},
		{`load_yaml("bad.yaml")`, `main.star:1:11: load_yaml: bad.yaml: line 1: did not find expected`},
		{`load_yaml("two.yaml")`, `main.star:1:11: load_yaml: two.yaml: there is more than one document`},
		{`load_yaml("bomb.yaml")`, `main.star:1:11: load_yaml: bomb.yaml: document contains excessive aliasing`},
		{`load("@squall/nothing.star", "x")`, `main.star:1:6: cannot load @squall/nothing.star: there is no @squall/nothing.star; there are @squall/disk.star, @squall/expect.star,`},
		{`load("@other/x.star", "x")`, `names with @ begin with @squall/`},
		{"def f(): load_file(\"a\")\nscenario(f)\nf()", `main.star:1:20: load_file: a: no such file`},
	} {
		bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
		for c := 'b'; c <= 'i'; c++ {
			bomb += strings.ReplaceAll("C: &C [*P,*P,*P,*P,*P,*P,*P,*P,*P,*P]\n", "C", string(c))
			bomb = strings.ReplaceAll(bomb, "P", string(c-1))
		}
		dir := write(t, map[string]string{
			"main.star": tc.text + "\n", "dir/x": "", "bad.json": "[1,\nx]", "two.json": "1 2",
			"bad.yaml": "a: [1,\nb: }", "two.yaml": "a: 1\n---\nb: 2\n", "bomb.yaml": bomb,
		})
		for name, size := range map[string]int64{"large": 8<<20 + 1} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(tc.text, "large%d") {
			for i := range 9 {
				name := filepath.Join(dir, "large"+string(rune('0'+i)))
				if err := os.WriteFile(name, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(name, 8<<20); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, target := range map[string]string{"link": filepath.Join(outside, "secret"), "linked": outside} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := load(t, filepath.Join(dir, "main.star"))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s\ngot  %v\nwant %s", tc.text, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), outside) {
			t.Errorf("%s: the error names a place outside: %v", tc.text, err)
		}
	}
}

// TestLibraryFiles runs what the library has, where it holds and where it doesn't.
func TestLibraryFiles(t *testing.T) {
	for _, name := range library.Names() {
		text, err := library.Read(name)
		if err != nil || !strings.HasPrefix(string(text), `"""`) {
			t.Errorf("%s: %v, or it does not begin by saying what it is for", name, err)
		}
		for _, def := range strings.Split(string(text), "\ndef ")[1:] {
			if _, body, _ := strings.Cut(def, "\n"); !strings.HasPrefix(body, `    """`) {
				t.Errorf("%s: a function does not say what it is: %s", name, def)
			}
		}
	}
	const prelude = "load(\"@squall/expect.star\", \"expect_all\", \"expect_body\", \"expect_faster_than\", \"expect_quiet\", \"expect_status\")\n" +
		"api = service(\"api\", interface(\"http\", \"http\", 8080), binary = \"prog\")\n" +
		"def get(): return api.get(\"/o\")\ndef nothing(): pass\n"
	for _, tc := range []struct{ body, expect, want string }{
		{"get", `expect_status(200, 201)`, ""},
		{"get", `expect_status(500, 503)`, `status 200 is not one of 500, 503; the answer was {"id": 17`},
		{"nothing", `expect_status(200)`, "the scenario returned nothing"},
		{"get", `expect_body("17", "tags")`, ""},
		{"get", `expect_body("18")`, `"18" is not in the answer`},
		{"nothing", `expect_body("18")`, `the scenario returned nothing`},
		{"get", `expect_faster_than("12ms")`, ""},
		{"get", `expect_faster_than("11ms")`, "it took 12ms, longer than 11ms"},
		{"nothing", `expect_faster_than("11ms")`, "the scenario returned nothing"},
		{"get", `expect_all(expect_status(200), expect_body("17"), lambda r: True)`, ""},
		{"get", `expect_all(expect_status(200), expect_body("18"))`, `"18" is not in the answer`},
		{"get", `expect_all(expect_status(200), lambda r: False)`, `an expectation returned False`},
		{"get", `expect_quiet(type = "stdout", status = "lost")`, ""},
		{"get", `expect_quiet(type = "stdout", status = "conf*")`, "assert_never: event(#5"},
	} {
		s := loadText(t, prelude+"scenario("+tc.body+", expect = "+tc.expect+")\n")
		w := story()
		v, err := s.Scenarios[0].Body(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Scenarios[0].Expect(t.Context(), w, v)
		if tc.want == "" && err != nil || tc.want != "" && !strings.Contains(errorText(err), "violation @squall/expect.star:") || !strings.Contains(errorText(err), tc.want) && tc.want != "" {
			t.Errorf("%s, %s: got %v, want %q", tc.body, tc.expect, errorText(err), tc.want)
		}
		if len(s.Files) != 1 {
			t.Errorf("the bundle gets %d files", len(s.Files))
		}
	}
}
