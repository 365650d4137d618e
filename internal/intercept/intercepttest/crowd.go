//go:build linux

package intercepttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
)

func crowdCases() []testCase {
	return []testCase{
		{"ten thousand calls", testTenThousand, nil},
		{"threads under signals", testThreads, nil},
		{"children", testChildren, nil},
		{"many short children", testManyChildren, nil},
	}
}

func testTenThousand(t *testing.T, b intercept.Backend) {
	const calls = 10000
	p := begin(t, b, target("ppid", fmt.Sprint(calls)), intercept.Subscription{Calls: []string{"getppid"}})
	ids, numbers := map[uint64]bool{}, map[uint64]bool{}
	p.serve(func(c intercept.Call) intercept.Reply {
		if ids[c.ID] {
			t.Errorf("id %d comes twice", c.ID)
		}
		ids[c.ID], numbers[c.Args[0]] = true, true
		// Every other call is really made. What a signal takes back gets the same answer again.
		if c.Args[0]%2 == 0 {
			return intercept.Reply{}
		}
		return intercept.Reply{Answer: true, Value: 1 << 40}
	})
	if len(numbers) != calls {
		t.Errorf("%d calls seen, want %d", len(numbers), calls)
	}
	t.Logf("%d notifications", len(ids))
	p.expect(fmt.Sprint(calls/2*(1<<40) + calls/2*os.Getpid()))
}

// testThreads answers a Go program's writes while signals rain on all its threads. Each write has to be
// answered, none lost, whatever is taken back in between.
func testThreads(t *testing.T, b intercept.Backend) {
	const routines, each = 16, 50
	path := filepath.Join(t.TempDir(), "file")
	p := begin(t, b, target("writers", path, fmt.Sprint(routines), fmt.Sprint(each)), intercept.Subscription{Calls: []string{"pwrite64"}})
	seen, threads, offsets := 0, map[int]bool{}, map[uint64]bool{}
	n := p.serve(func(c intercept.Call) intercept.Reply {
		seen++
		threads[c.Thread], offsets[c.Args[3]] = true, true
		// And one more signal, so that it races with the answer.
		if seen%3 == 0 {
			unix.Tgkill(p.s.Pid(), c.Thread, unix.SIGURG)
		}
		// Looking at the caller keeps the call waiting long enough for signals to meet it.
		if _, got, _, err := intercept.Describe(p.s, c, int(c.Args[0])); err == nil && got != path {
			t.Errorf("a write to %q", got)
		}
		return intercept.Reply{}
	})
	t.Logf("%d notifications, %d answered, %d threads", seen, n, len(threads))
	if len(offsets) != routines*each {
		t.Errorf("%d writes seen, want %d", len(offsets), routines*each)
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
