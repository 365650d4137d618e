//go:build linux

package notify

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/spec"
)

// loopProgram builds testdata/loop.c.
func loopProgram(b *testing.B) string {
	b.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		b.Skip("needs gcc, which is not on this machine")
	}
	to := filepath.Join(b.TempDir(), "loop")
	if out, err := exec.Command("gcc", "-O2", "-o", to, "testdata/loop.c").CombinedOutput(); err != nil {
		b.Skipf("gcc cannot build testdata/loop.c here: %v: %s", err, out)
	}
	return to
}

func figure(b *testing.B, out []byte) float64 {
	b.Helper()
	f, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil || f <= 0 {
		b.Fatalf("no figure in %q", out)
	}
	return f
}

// bare runs the C program alone.
func bare(b *testing.B, loop string, args ...string) float64 {
	b.Helper()
	out, err := exec.Command(loop, args...).Output()
	if err != nil {
		b.Fatal(err)
	}
	return figure(b, out)
}

// supervised runs it under a session that lets everything go on.
func supervised(b *testing.B, sub intercept.Subscription, loop string, args ...string) float64 {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	s, err := New(Options{}).Start(context.Background(), spec.Process{Path: loop, Args: append([]string{"loop"}, args...),
		Stdin: -1, Stdout: int(w.Fd()), Stderr: 2, NetNS: -1}, sub)
	w.Close()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for {
		c, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Reply(c.ID, intercept.Reply{}); err != nil && !errors.Is(err, intercept.ErrGone) {
			b.Fatal(err)
		}
	}
	out, err := io.ReadAll(r)
	if err != nil {
		b.Fatal(err)
	}
	unix.Wait4(s.Pid(), nil, 0, nil)
	return figure(b, out)
}

// compare measures both sides in turn, so that what the machine does meanwhile meets both, and reports the median of the
// pairs' ratios, their quartiles, both medians, and the bound that is aimed at.
func compare(b *testing.B, pairs int, bound float64, ours, theirs func() float64) {
	b.Helper()
	var ratios, a, c []float64
	for i := range pairs {
		var x, y float64
		if i%2 == 0 {
			x, y = ours(), theirs()
		} else {
			y, x = theirs(), ours()
		}
		ratios, a, c = append(ratios, x/y), append(a, x), append(c, y)
	}
	for _, l := range [][]float64{ratios, a, c} {
		slices.Sort(l)
	}
	at := func(l []float64, q float64) float64 { return l[int(math.Round(q*float64(len(l)-1)))] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(a, .5), "ns/ours")
	b.ReportMetric(at(c, .5), "ns/bare")
	b.ReportMetric(at(ratios, .25), "ratio/q1")
	b.ReportMetric(at(ratios, .5), "ratio/median")
	b.ReportMetric(at(ratios, .75), "ratio/q3")
	b.ReportMetric(bound, "ratio/bound")
}

// BenchmarkAllowed compares an intercepted and allowed call with the same under the least C loop.
func BenchmarkAllowed(b *testing.B) {
	loop := loopProgram(b)
	sub := intercept.Subscription{Calls: []string{"getppid"}}
	const calls = "3000"
	for b.Loop() {
		compare(b, 31, 1.5,
			func() float64 { return supervised(b, sub, loop, "getppid", calls) },
			func() float64 { return bare(b, loop, "calls", calls) })
	}
}

// BenchmarkUnrelated compares a call that no rule names, under a filter for all families, with the same under
// a filter that allows everything.
func BenchmarkUnrelated(b *testing.B) {
	loop := loopProgram(b)
	sub := intercept.Subscription{Addressed: true, Getsockopt: true, NoIOUring: true}
	for _, f := range fault.Families() {
		sub.Calls = append(sub.Calls, f.Calls...)
	}
	const calls = "50000"
	for b.Loop() {
		compare(b, 41, 1.02,
			func() float64 { return supervised(b, sub, loop, "getuid", calls) },
			func() float64 { return bare(b, loop, "allow", calls) })
	}
}

// BenchmarkLaunch starts /bin/true under a filter for connect and waits for its end; beside it, without.
func BenchmarkLaunch(b *testing.B) {
	sub := intercept.Subscription{Calls: []string{"connect"}}
	for b.Loop() {
		s, err := New(Options{}).Start(context.Background(), spec.Process{Path: "/bin/true", Args: []string{"true"}, Stdin: -1, Stdout: -1, Stderr: -1, NetNS: -1}, sub)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
		unix.Wait4(s.Pid(), nil, 0, nil)
		s.Close()
	}
}
