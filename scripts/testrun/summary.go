package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// line is a line of go test -json.
type line struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// test is a test of all passes.
type test struct{ pkg, name string }

// summary adds up passes.
type summary struct {
	passed, failed int
	// ran and skipped tell, for each test, in which way it ended in any pass.
	ran     map[test]bool
	skipped map[test]string
	broken  []string
	leftOut []string
}

func newSummary() *summary {
	return &summary{ran: map[test]bool{}, skipped: map[test]string{}}
}

// read follows one go test -json. It prints a line for each package and the output of what failed.
func (s *summary) read(in io.Reader, out io.Writer) (failed bool, err error) {
	output := map[test]*strings.Builder{}
	parents := map[test]bool{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return failed, fmt.Errorf("go test -json said %q", lines.Text())
		}
		t := test{l.Package, l.Test}
		switch l.Action {
		case "run":
			if i := strings.LastIndexByte(l.Test, '/'); i > 0 {
				parents[test{l.Package, l.Test[:i]}] = true
			}
		case "output":
			if output[t] == nil {
				output[t] = &strings.Builder{}
			}
			output[t].WriteString(l.Output)
		case "build-output":
			fmt.Fprint(out, l.Output)
		case "pass", "fail", "skip":
			text := ""
			if output[t] != nil {
				text = output[t].String()
			}
			failed = failed || l.Action == "fail"
			s.end(out, l, text, parents[t])
			delete(output, t)
		}
	}
	return failed, lines.Err()
}

// end counts a test that has ended, or prints a package that has.
func (s *summary) end(out io.Writer, l line, text string, parent bool) {
	t := test{l.Package, l.Test}
	switch {
	case l.Action == "fail" && l.Test == "":
		// The package's own output tells of crashes, time-outs and TestMain.
		fmt.Fprintf(out, "%sFAIL    %s   %.1f s\n", text, l.Package, l.Elapsed)
		s.failed += boolInt(!s.blamed(l.Package))
	case l.Test == "":
		if l.Action == "pass" {
			fmt.Fprintf(out, "ok      %s   %.1f s\n", l.Package, l.Elapsed)
		}
	case l.Action == "fail":
		fmt.Fprintf(out, "-- %s\n%s", l.Package, text)
		s.ran[t] = false
		s.failed += boolInt(!parent)
	case l.Action == "skip":
		s.skipped[t] = reason(text)
	default:
		// A test with parts counts by these; that it ran counts where another pass left out the whole of it.
		s.ran[t] = true
		s.passed += boolInt(!parent)
	}
}

// blamed reports whether a test of the package has failed.
func (s *summary) blamed(pkg string) bool {
	for t, ok := range s.ran {
		if t.pkg == pkg && !ok {
			return true
		}
	}
	return false
}

// reason finds in a skipped test's output what it said: "    a_test.go:12: needs redis-server".
func reason(output string) string {
	for text := range strings.Lines(output) {
		if _, why, ok := strings.Cut(text, ".go:"); ok {
			if _, why, ok = strings.Cut(why, ": "); ok {
				return strings.TrimSpace(why)
			}
		}
	}
	return "no reason given"
}

// byDesign are tests that never run by themselves.
func byDesign() []test {
	return []test{
		// The child that TestKilledWriterLeavesNoBundle kills.
		{"github.com/squallhq/squall/bundle", "TestWriteUntilKilled"},
		// A blocking socket waits for ever, so there is nothing to wait for.
		{"github.com/squallhq/squall/internal/link/dial", "TestClients/python-blocking/blackhole"},
	}
}

// left returns the tests that no pass has run, with the reasons of the last.
func (s *summary) left() map[test]string {
	all := maps.Clone(s.skipped)
	maps.DeleteFunc(all, func(t test, _ string) bool {
		_, ran := s.ran[t]
		return ran || slices.Contains(byDesign(), t)
	})
	return all
}

// print says what it all came to and returns whether that is good.
func (s *summary) print(out io.Writer, strict bool) bool {
	left := s.left()
	byReason := map[string][]string{}
	for t, why := range left {
		byReason[why] = append(byReason[why], t.pkg+" "+t.name)
	}
	for _, why := range s.leftOut {
		fmt.Fprintf(out, "left out: %s\n", why)
	}
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(out, "left out, %d: %s\n", len(byReason[why]), why)
		for _, name := range slices.Sorted(slices.Values(byReason[why])) {
			fmt.Fprintf(out, "    %s\n", name)
		}
	}
	for _, name := range s.broken {
		fmt.Fprintf(out, "could not be run: %s\n", name)
	}
	good := s.failed == 0 && len(s.broken) == 0 && s.passed > 0
	if strict && len(left) > 0 {
		fmt.Fprintln(out, "on this machine nothing may be left out (CI=true, as root)")
		good = false
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed+len(s.broken), len(left))
	return good
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
