package logfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// steps does something to a file and says which lines come of it.
type step struct {
	do   func(t *testing.T, path string)
	want []string
}

func put(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func add(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
}

func replace(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		put(text)(t, path+".new")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat("x", LineLimit)
	for name, tc := range map[string]struct {
		before string
		steps  []step
		end    []string
	}{
		"what was there is old":       {"old\nhalf", []step{{add(" line\nnew\n"), []string{" line", "new"}}}, nil},
		"it comes later":              {"", []step{{func(*testing.T, string) {}, nil}, {add("a\nb\n"), []string{"a", "b"}}}, nil},
		"half lines wait":             {"", []step{{add("a"), nil}, {add("b\nc"), []string{"ab"}}}, []string{"c"}},
		"carriage returns":            {"", []step{{add("a\r\n\r\n"), []string{"a", ""}}}, nil},
		"truncated":                   {"", []step{{add("one\ntwo\n"), []string{"one", "two"}}, {put("3\n"), []string{"3"}}}, nil},
		"rotated, shorter":            {"", []step{{add("one\ntwo\n"), []string{"one", "two"}}, {replace("3\n"), []string{"3"}}}, nil},
		"rotated, longer":             {"", []step{{add("one\n"), []string{"one"}}, {replace("another\nand more\n"), []string{"another", "and more"}}}, nil},
		"replaced by a longer itself": {"", []step{{add("one\n"), []string{"one"}}, {replace("one\ntwo\n"), []string{"two"}}}, nil},
		"removed and back":            {"", []step{{add("one\n"), []string{"one"}}, {func(t *testing.T, p string) { os.Remove(p) }, nil}, {add("two\n"), []string{"two"}}}, nil},
		"a line too long":             {"", []step{{add(long + "rest\n"), []string{long, "rest"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if tc.before != "" {
				put(tc.before)(t, path)
			}
			var got []string
			f := Open(path, func(b []byte) { got = append(got, string(b)) }, func() { t.Error("it is not full") })
			for i, s := range tc.steps {
				s.do(t, path)
				got = nil
				if err := f.Drain(); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, s.want) {
					t.Errorf("step %d: got %.200q, want %.200q", i, got, s.want)
				}
			}
			got = nil
			if err := f.End(); err != nil || !slices.Equal(got, tc.end) {
				t.Errorf("end: got %q, %v, want %q", got, err, tc.end)
			}
		})
	}
}

func TestTailIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	lines, full := 0, 0
	f := Open(path, func([]byte) { lines++ }, func() { full++ })
	for range 3 {
		add(strings.Repeat("\n", LineCount/2))(t, path)
		if err := f.Drain(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.End(); err != nil || lines != LineCount || full != 1 {
		t.Errorf("%d lines, full %d times, %v", lines, full, err)
	}
}

// TestTailNeverWaits: what is no regular file is refused, and not waited for.
func TestTailNeverWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f := Open(path, func([]byte) {}, func() {})
	if err := f.Drain(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
