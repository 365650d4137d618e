//go:build linux

package intercepttest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/squallhq/squall/internal/intercept"
)

func crowdCases() []testCase {
	return []testCase{
		{"ten thousand calls", testTenThousand},
		{"threads under signals", testThreads},
		{"children", testChildren},
		{"many short children", testManyChildren},
	}
}

func testTenThousand(t *testing.T, b intercept.Backend) {
	const calls = 10000
	p := begin(t, b, target("ppid", fmt.Sprint(calls)), intercept.Subscription{Calls: []string{"getppid"}})
	ids := map[uint64]bool{}
	// Every other answer that arrives lets the call be made. What a signal takes back gets the same one again.
	arrived := 0
	for {
		c, err := p.s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ids[c.ID] {
			t.Errorf("id %d comes twice", c.ID)
		}
		ids[c.ID] = true
		r := intercept.Reply{Answer: true, Value: 1 << 40}
		if arrived%2 == 0 {
			r = intercept.Reply{}
		}
		switch err := p.s.Reply(c.ID, r); {
		case err == nil:
			arrived++
		case !errors.Is(err, intercept.ErrGone):
			t.Fatal(err)
		}
	}
	if arrived != calls {
		t.Logf("%d answers to %d calls: some were taken back after their answer", arrived, calls)
	}
	p.expect(fmt.Sprint(calls/2*(1<<40) + calls/2*os.Getpid()))
}

// testThreads answers a Go program's writes while signals rain on all its threads. Each write has to be
// answered once, neither lost nor doubled, whatever is taken back in between.
func testThreads(t *testing.T, b intercept.Backend) {
	const routines, each = 16, 50
	path := filepath.Join(t.TempDir(), "file")
	p := begin(t, b, target("writers", path, fmt.Sprint(routines), fmt.Sprint(each)), intercept.Subscription{Calls: []string{"pwrite64"}})
	seen, threads := 0, map[int]bool{}
	n := p.serve(func(c intercept.Call) intercept.Reply {
		seen++
		threads[c.Thread] = true
		// Looking at the caller keeps the call waiting long enough for signals to meet it.
		if _, got, _, err := intercept.Describe(p.s, c, int(c.Args[0])); err == nil && got != path {
			t.Errorf("a write to %q", got)
		}
		return intercept.Reply{}
	})
	t.Logf("%d notifications, %d answered, %d threads", seen, n, len(threads))
	if n < routines*each {
		t.Errorf("%d answers, want %d at least", n, routines*each)
	}
	p.expect("failed 0")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range routines * each {
		if want := fmt.Sprintf("%08d", i); len(got) < 8*i+8 || string(got[8*i:8*i+8]) != want {
			t.Fatalf("record %d is not %s", i, want)
		}
	}
}

func testChildren(t *testing.T, b intercept.Backend) {
	p := begin(t, b, command(t, "sh", "-c", "cat /dev/null; (cat /dev/null; sh -c 'exec cat /dev/null')"), execs())
	programs, callers := map[string]int{}, map[int]bool{}
	p.serve(func(c intercept.Call) intercept.Reply {
		path, err := intercept.ReadString(p.s, c, c.Args[0], 4096)
		if err != nil {
			t.Error(err)
		}
		programs[filepath.Base(path)]++
		callers[c.Thread] = true
		return intercept.Reply{}
	})
	p.expect("")
	if programs["cat"] < 3 || programs["sh"] < 2 || len(callers) < 4 {
		t.Errorf("programs %v by %d processes", programs, len(callers))
	}
}

func testManyChildren(t *testing.T, b intercept.Backend) {
	const children = 200
	dir := t.TempDir()
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do : > %s/$i & i=$((i+1)); done; wait", children, dir)
	p := begin(t, b, command(t, "sh", "-c", script), intercept.Subscription{Calls: []string{"openat", "open", "creat"}})
	callers := map[int]bool{}
	p.serve(func(c intercept.Call) intercept.Reply {
		callers[c.Thread] = true
		if fd, err := p.s.Descriptor(c, 1); err != nil {
			t.Errorf("descriptor of %d: %v", c.Thread, err)
		} else {
			os.NewFile(uintptr(fd), "").Close()
		}
		return intercept.Reply{}
	})
	p.expect("")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != children || len(callers) < children {
		t.Errorf("%d files by %d processes, want %d: %v", len(files), len(callers), children, err)
	}
}
