package main

import (
	"strings"
	"testing"
)

// events builds the output of go test -json from lines of "action package test output".
func events(text string) string {
	var b strings.Builder
	for l := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.SplitN(strings.TrimSpace(l), " ", 4)
		b.WriteString(`{"Action":"` + f[0] + `","Package":"` + f[1] + `"`)
		if len(f) > 2 && f[2] != "-" {
			b.WriteString(`,"Test":"` + f[2] + `"`)
		}
		if len(f) > 3 {
			b.WriteString(`,"Output":"` + f[3] + `\n"`)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

const fine = `
	run p A
	pass p A
	run p B
	run p B/x
	pass p B/x
	run p B/y
	pass p B/y
	pass p B
	pass p`

const skips = `
	run p A
	output p A     a_test.go:12: needs redis-server
	skip p A
	run p B
	run p B/x
	output p B/x     a_test.go:13: runs as an ordinary user only
	skip p B/x
	pass p B
	pass p`

func TestSummary(t *testing.T) {
	for name, c := range map[string]struct {
		passes []string
		want   []string
		good   bool
		strict bool // what a strict run says
	}{
		"fine": {[]string{fine}, []string{"ok      p", "3 passed, 0 failed, 0 skipped"}, true, true},
		"skipped": {[]string{skips}, []string{"left out, 1: needs redis-server\n    p A\n",
			"left out, 1: runs as an ordinary user only\n    p B/x\n", "0 passed, 0 failed, 2 skipped"}, false, false},
		"skipped in one pass of two": {[]string{skips, fine}, []string{"3 passed, 0 failed, 0 skipped"}, true, true},
		"one left in both":           {[]string{skips, "run p C\npass p C"}, []string{"1 passed, 0 failed, 2 skipped"}, true, false},
		"failed": {[]string{"run p A\noutput p A a_test.go:3: wrong\nfail p A\noutput p - FAIL\nfail p"},
			[]string{"a_test.go:3: wrong", "FAIL    p", "0 passed, 1 failed, 0 skipped"}, false, false},
		"failed below another": {[]string{"run p A\nrun p A/x\nfail p A/x\nfail p A\nfail p"},
			[]string{"0 passed, 1 failed, 0 skipped"}, false, false},
		"crashed": {[]string{fine, "output q - panic: no\nfail q"}, []string{"panic: no", "3 passed, 1 failed"}, false, false},
		"by design": {[]string{fine, "skip github.com/squallhq/squall/bundle TestWriteUntilKilled"},
			[]string{"3 passed, 0 failed, 0 skipped"}, true, true},
		"nothing there": {nil, []string{"0 passed, 0 failed, 0 skipped"}, false, false},
	} {
		s := newSummary()
		var out strings.Builder
		for _, p := range c.passes {
			if _, err := s.read(strings.NewReader(events(p)), &out); err != nil {
				t.Fatal(err)
			}
		}
		if good := s.print(&out, false); good != c.good {
			t.Errorf("%s: good is %v, want %v", name, good, c.good)
		}
		if strict := s.print(&out, true); strict != c.strict {
			t.Errorf("%s: in CI good is %v, want %v", name, strict, c.strict)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, &out)
			}
		}
	}
}

func TestBrokenPassIsAFailure(t *testing.T) {
	s := newSummary()
	s.passed, s.broken = 1, []string{"tests"}
	var out strings.Builder
	if s.print(&out, false) || !strings.Contains(out.String(), "1 passed, 1 failed") {
		t.Errorf("got %s", &out)
	}
}
