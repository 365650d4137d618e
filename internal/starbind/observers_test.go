package starbind

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/spec"
)

// TestObservers says what each way of observing becomes.
func TestObservers(t *testing.T) {
	for _, tc := range []struct {
		observe string
		want    []spec.Observer
	}{
		{`observe.stdout()`, []spec.Observer{{Kind: spec.Stdout}}},
		{`observe.stderr(decoder = decoder("logfmt"))`, []spec.Observer{{Kind: spec.Stderr, Decoder: spec.Decoder{Format: "logfmt"}}}},
		{`decoder("regex", pattern = "(?P<a>.)")`, []spec.Observer{
			{Kind: spec.Stdout, Decoder: spec.Decoder{Format: "regex", Pattern: "(?P<a>.)"}}, {Kind: spec.Stderr, Decoder: spec.Decoder{Format: "regex", Pattern: "(?P<a>.)"}},
		}},
		{`observe.file("log/a")`, []spec.Observer{{Kind: spec.LogFile, Path: "DIR/sub/log/a"}}},
		{`observe.file("/var/log/a")`, []spec.Observer{{Kind: spec.LogFile, Path: "/var/log/a"}}},
		{`observe.syscalls("fsync", "rename", path = "/x/**")`, []spec.Observer{
			{Kind: spec.Syscalls, Calls: []string{"fsync", "fdatasync", "sync_file_range", "syncfs"}, On: []string{"file"}, Path: "/x/**"},
			{Kind: spec.Syscalls, Calls: []string{"rename", "renameat", "renameat2"}, Path: "/x/**"},
		}},
		{`observe.syscalls("readv", on = ["socket", "pipe"])`, []spec.Observer{{Kind: spec.Syscalls, Calls: []string{"readv"}, On: []string{"socket", "pipe"}}}},
		{`observe.syscalls("readv", on = "any")`, []spec.Observer{{Kind: spec.Syscalls, Calls: []string{"readv"}}}},
	} {
		dir := write(t, map[string]string{
			"sub/x":     "",
			"main.star": `db = service("db", binary = "prog", dir = "sub", observe = [` + tc.observe + "])\n",
		})
		s := mustLoad(t, filepath.Join(dir, "main.star"))
		got := slices.Clone(s.Services[0].Observe)
		root, err := filepath.EvalSymlinks(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i].Position == "" && got[i].Kind != spec.Stdout && got[i].Kind != spec.Stderr {
				t.Errorf("%s has no position", tc.observe)
			}
			got[i].Position, got[i].Path = "", strings.Replace(got[i].Path, root, "DIR", 1)
			if len(got[i].On) == 0 {
				got[i].On = nil
			}
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", tc.observe, got, tc.want)
		}
	}
}

// TestTraceIsSubscribed: calls that trace() records are found without running anything.
func TestTraceIsSubscribed(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{`trace(db, syscalls = ["fsync", "rename"], run = ok)`, "db: fdatasync fsync rename renameat renameat2 sync_file_range syncfs"},
		{`trace(db, [kind], ok)`, "db: fdatasync fsync sync_file_range syncfs"},
		{`trace(db, syscalls = kinds, run = ok)`, "db: close readv"},
		{`trace(ref("db"), syscalls = kinds, run = ok)`, "db: close readv"},
		{`trace(db, syscalls = [choose("x", kinds)], run = ok)`, "everything"},
		{`trace(db, syscalls = [choose("x", kinds), kind], run = ok)`, "everything"},
		{`trace(choose("x", [db, api]), syscalls = kinds, run = ok)`, "everything"},
		{`trace(db, run = ok, **{"syscalls": kinds})`, "everything"},
	} {
		s := loadText(t, "kind = \"fsync\"\nkinds = [\"close\", \"readv\"]\n"+bodyPrelude+"    "+tc.body+"\nscenario(body)\n")
		if got := scopeText(s.Scenarios[0].MayInject); !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %s, want %s", tc.body, got, tc.want)
		}
	}
}

// TestDurations: durations can be compared, added and multiplied, and are written as they are read.
func TestDurations(t *testing.T) {
	for _, tc := range []struct{ expr, want string }{
		{`duration("1.5s")`, "1.5s"},
		{`str(duration("90s"))`, `"1m30s"`},
		{`"%s and %s" % (duration("2ms"), duration("3m"))`, `"2ms and 3m0s"`},
		{`duration("1s") + duration("500ms")`, "1.5s"},
		{`duration("1s") - duration("1500ms")`, "-500ms"},
		{`duration("200ms") * 3`, "600ms"},
		{`3 * duration("200ms")`, "600ms"},
		{`duration("1s") / 4`, "250ms"},
		{`duration("1s") / duration("250ms")`, "4.0"},
		{`duration("1s") // duration("300ms")`, "3"},
		{`[duration("1s") == duration("1000ms"), duration("1s") != duration("1s"), duration("1s") < duration("2s"), duration("1s") >= duration("2s")]`, "[True, False, True, False]"},
		{`sorted([duration("2s"), duration("300ms")])[0]`, "300ms"},
		{`max(duration("2s"), duration("300ms"))`, "2s"},
		{`duration("1.5s").milliseconds`, "1500"},
		{`[bool(duration("0s")), bool(duration("1ns"))]`, "[False, True]"},
		{`{duration("1s"): 1}[duration("1000ms")]`, "1"},
		{`type(duration("1s"))`, `"time.duration"`},
	} {
		v, err := run(t, newWorld(), "return "+tc.expr)
		if err != nil {
			t.Errorf("%s: %v", tc.expr, errorText(err))
			continue
		}
		if got := v.(starlark.Value).String(); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.expr, got, tc.want)
		}
	}
	// What takes a duration takes the value too; a number does not say what it is of.
	w := newWorld()
	if _, err := run(t, w, `sleep(duration("10ms") * 2)`); err != nil || w.did[0] != "sleep 20ms" {
		t.Errorf("got %v, %v", w.did, err)
	}
	if _, err := run(t, newWorld(), `return duration("1s") < 5`); err == nil || !strings.Contains(errorText(err), "not implemented") {
		t.Errorf("got %v", errorText(err))
	}
}
