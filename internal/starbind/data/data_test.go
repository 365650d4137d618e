package data

import (
	"reflect"
	"strings"
	"testing"
)

// TestYAML says what a document comes to, or why there is none.
func TestYAML(t *testing.T) {
	for _, tc := range []struct {
		text string
		want any
		err  string
	}{
		{"", nil, ""},
		{"a: 1\nb: [x, 2.5, true, null]\n", map[string]any{"a": 1, "b": []any{"x", 2.5, true, nil}}, ""},
		{"when: 2026-01-02\n", map[string]any{"when": "2026-01-02"}, ""},
		{"1: one\n", map[string]any{"1": "one"}, ""},
		{"n: 18446744073709551615\n", nil, "too large"},
		{"a: 1\n---\nb: 2\n", nil, "more than one document"},
		{"a: [1\n", nil, "line 1"},
	} {
		got, err := YAML([]byte(tc.text))
		check(t, tc.text, got, err, tc.want, tc.err)
	}
}

// TestJSON says the same of JSON, with the line of a mistake.
func TestJSON(t *testing.T) {
	for _, tc := range []struct {
		text string
		want any
		err  string
	}{
		{`["a", true, null]`, []any{"a", true, nil}, ""},
		{"{\"a\":\n 1,\n}", nil, "line 3"},
		{`1 2`, nil, "more than one value"},
		{``, nil, "line 1"},
	} {
		got, err := JSON([]byte(tc.text))
		check(t, tc.text, got, err, tc.want, tc.err)
	}
}

func check(t *testing.T, text string, got any, err error, want any, message string) {
	t.Helper()
	switch {
	case message == "" && err != nil:
		t.Errorf("%q: %v", text, err)
	case message == "" && !reflect.DeepEqual(got, want):
		t.Errorf("%q: got %#v, want %#v", text, got, want)
	case message != "" && (err == nil || !strings.Contains(err.Error(), message)):
		t.Errorf("%q: got error %v, want one with %q", text, err, message)
	}
}
