package spec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDecoders(t *testing.T) {
	logfmt, level := Decoder{Format: "logfmt"}, Decoder{Format: "regex", Pattern: `^\[(?P<level>\w+)\] (?P<n>\S+)(?: by (?P<who>\w+))?`}
	type m = map[string]any
	for _, tc := range []struct {
		decoder Decoder
		line    string
		want    m
	}{
		{Decoder{}, `{"a": 1, "b": {"c": [true, null]}, "line": "x"}`, m{"a": 1.0, "b": m{"c": []any{true, nil}}}},
		{Decoder{Format: "json"}, `{"a": 1`, m{}},
		{Decoder{}, `a=1`, m{}},
		{Decoder{}, `[1]`, m{}},
		{Decoder{}, "", m{}},
		{logfmt, `level=info msg="order \"7\" kept" n=12 ms=1.5 ok=true id=007 retry`, m{"level": "info", "msg": `order "7" kept`, "n": int64(12), "ms": 1.5, "ok": true, "id": "007", "retry": true}},
		{logfmt, `empty= neg=-3 big=12345678901234567890 exp=1e3 dash=- nan=NaN`, m{"empty": "", "neg": int64(-3), "big": "12345678901234567890", "exp": 1000.0, "dash": "-", "nan": "NaN"}},
		{logfmt, "a=b\tc=d", m{"a": "b", "c": "d"}},
		{logfmt, `quoted="true" open="never closed`, m{"quoted": "true", "open": `"never`, "never": nil, "closed": true}},
		{logfmt, `plain words only`, m{}},
		{logfmt, `=x`, m{}},
		{logfmt, ``, m{}},
		{level, `[warn] 12 by api`, m{"level": "warn", "n": int64(12), "who": "api"}},
		{level, `[warn] 1.2.3`, m{"level": "warn", "n": "1.2.3"}},
		{level, `warn`, m{}},
	} {
		decode, err := tc.decoder.Compile()
		if err != nil {
			t.Fatal(err)
		}
		delete(tc.want, "never")
		tc.want["line"] = tc.line
		if got := decode([]byte(tc.line)); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%+v, %s\ngot  %v\nwant %v", tc.decoder, tc.line, got, tc.want)
		}
	}
	if got, _ := (Decoder{}).Compile(); got([]byte("a\xffb"))["line"] != "a\uFFFDb" {
		t.Error("a line that is no text must become some")
	}
	for want, d := range map[string]Decoder{
		"missing closing )":    {Format: "regex", Pattern: "(a"},
		"no group has a name":  {Format: "regex", Pattern: "(a)"},
		`unknown format "xml"`: {Format: "xml"},
	} {
		if _, err := d.Compile(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", d, err, want)
		}
	}
}

// FuzzDecoders: whatever a program prints, its fields are JSON and the line is there.
func FuzzDecoders(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `a=1 b="x y" c`, `[warn] 1`, "\xff=\xff", `a="\x`, `{"line":{"line":1}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, d := range []Decoder{{}, {Format: "logfmt"}, {Format: "regex", Pattern: `(?P<a>\S+)\s*(?P<b>.*)`}} {
			decode, err := d.Compile()
			if err != nil {
				t.Fatal(err)
			}
			fields := decode(line)
			if got, ok := fields["line"].(string); !ok || !utf8.ValidString(got) {
				t.Errorf("%+v: line is %v", d, fields["line"])
			}
			if _, err := json.Marshal(fields); err != nil {
				t.Errorf("%+v: %v", d, err)
			}
		}
	})
}
