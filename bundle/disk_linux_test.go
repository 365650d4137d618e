package bundle

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// smallDisk takes so many bytes and then says that it is full.
type smallDisk struct {
	*anonymous
	room     int
	failSync bool
}

func (d *smallDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		n, _ := d.anonymous.Write(p[:d.room])
		d.room = 0
		return n, syscall.ENOSPC
	}
	d.room -= len(p)
	return d.anonymous.Write(p)
}

func (d *smallDisk) Sync() error {
	if d.failSync {
		return syscall.EIO
	}
	return d.anonymous.Sync()
}

// writeOne writes a whole bundle of one passing leaf and returns the first error.
func writeOne(path string, open func(string) (sink, error)) error {
	w, err := create(path, nil, open)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.Plan(Plan{Source: "x.star", Leaves: []PlanLeaf{{ID: "aa", Scenario: "s", Assumption: "none"}}}); err != nil {
		return err
	}
	l, err := w.Leaf("aa")
	if err != nil {
		return err
	}
	defer l.Abort()
	for i := range int64(200) {
		if err := l.Event(event.Event{Seq: i + 1, Service: "api", Kind: event.Stdout, Fields: map[string]any{"line": strings.Repeat("x", int(i))}}); err != nil {
			return err
		}
	}
	if err := l.Log("api", []byte("hello\n")); err != nil {
		return err
	}
	if err := l.Close(Leaf{ID: "aa", Scenario: "s", Assumption: "none", Verdict: verdict.Verdict{Outcome: verdict.Pass}}, nil); err != nil {
		return err
	}
	return w.Close(Manifest{Complete: true})
}

func onDisk(room int, failSync bool) func(string) (sink, error) {
	return func(dir string) (sink, error) {
		f, err := newAnonymous(dir)
		return &smallDisk{f, room, failSync}, err
	}
}

// Wherever the disk fills up, there is an error, no bundle, and the bundle of before is still there.
func TestADiskThatFillsUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.squall")
	if err := writeOne(path, onDisk(1<<30, false)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what any, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%v: no error", what)
		}
		after, rerr := os.ReadFile(path)
		if rerr != nil || string(after) != string(before) {
			t.Errorf("%v: the earlier bundle changed (%v)", what, rerr)
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
			t.Errorf("%v: left behind %v", what, entries)
		}
	}
	for room := 0; room < len(before); room += 97 {
		err := writeOne(path, onDisk(room, false))
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d: %v", room, err)
		}
		check(room, err)
	}
	check("one byte short", writeOne(path, onDisk(len(before)-1, false)))
	check("sync", writeOne(path, onDisk(1<<30, true)))
}

// The same on a file system that is really full, where the spooled events do not fit either.
func TestAFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	path := filepath.Join(dir, "run.squall")
	w, err := Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Plan(Plan{Leaves: []PlanLeaf{{ID: "aa"}}}); err != nil {
		t.Fatal(err)
	}
	l, err := w.Leaf("aa")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err = l.Log("api", []byte(strings.Repeat("full\n", 1000))); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want ENOSPC", err)
	}
	l.Abort()
	if err := w.Close(Manifest{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Close: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

const killedEnv = "SQUALL_BUNDLE_TEST_WRITE_UNTIL_KILLED"

// TestWriteUntilKilled is the other process of TestKilledWriterLeavesNoBundle.
func TestWriteUntilKilled(t *testing.T) {
	path := os.Getenv(killedEnv)
	if path == "" {
		t.Skip("runs only as the child of TestKilledWriterLeavesNoBundle")
	}
	w, err := Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Plan(Plan{Leaves: []PlanLeaf{{ID: "aa"}}}); err != nil {
		t.Fatal(err)
	}
	l, err := w.Leaf("aa")
	if err != nil {
		t.Fatal(err)
	}
	for seq := int64(1); ; seq++ {
		if err := l.Event(event.Event{Seq: seq, Service: "api", Kind: event.Note}); err != nil {
			t.Fatal(err)
		}
		if seq == 50_000 {
			os.Stdout.WriteString("writing\n")
		}
	}
}

func TestKilledWriterLeavesNoBundle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.squall")
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriteUntilKilled$")
	cmd.Env = append(os.Environ(), killedEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatalf("the writer did not start: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
