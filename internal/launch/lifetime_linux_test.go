package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// outerVariable makes this test binary a caller that starts lingering worlds until it is killed.
const outerVariable = "SQUALL_LAUNCH_TEST_OUTER"

func outer(mode Mode, tag string) error {
	l, err := NewLauncher()
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		w, err := l.StartWorld(context.Background(), WorldConfig{
			Args: []string{"world", "linger", tag}, Env: os.Environ(), Mode: mode, Stderr: os.Stderr,
		})
		if err != nil {
			return err
		}
		if _, err := bufio.NewReader(w.Events).ReadString('\n'); err != nil {
			return err
		}
		fmt.Println("up")
	}
}

// tagged returns the processes that have the tag as an argument.
func tagged(t *testing.T, tag string) []string {
	t.Helper()
	all, err := readProcesses()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range all {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if err == nil && strings.Contains(string(line), tag) {
			out = append(out, fmt.Sprintf("%d %s", p.pid, strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
	return out
}

// TestCallerKilled kills the caller at random moments. Namespaces and mounts of a world live as long as
// a process of it, so that no process left means that none of them is.
func TestCallerKilled(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) {
			temp := t.TempDir()
			mounts := read(t, "/proc/self/mountinfo")
			seen := 0
			for i := range 20 {
				tag := fmt.Sprintf("squall-launch-%d-%s-%d", os.Getpid(), m, i)
				seen += killCaller(t, m, tag, temp)
			}
			if seen == 0 {
				t.Error("no world was up when its caller was killed")
			}
			if now := read(t, "/proc/self/mountinfo"); now != mounts {
				t.Errorf("mounts were\n%s\nare\n%s", mounts, now)
			}
			left, err := os.ReadDir(temp)
			if err != nil {
				t.Fatal(err)
			}
			if m == ModeNamespaces && len(left) > 0 {
				t.Errorf("files left: %v", left)
			}
		})
	}
}

// killCaller returns how many worlds were up.
func killCaller(t *testing.T, m Mode, tag, temp string) int {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), outerVariable+"="+string(m)+","+tag, "TMPDIR="+temp)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	after := time.AfterFunc(time.Duration(rand.IntN(150))*time.Millisecond, func() { _ = c.Process.Kill() })
	defer after.Stop()
	up := 0
	for s := bufio.NewScanner(out); s.Scan(); {
		up++
	}
	_ = c.Wait()
	deadline := time.Now().Add(time.Second)
	for {
		left := tagged(t, tag)
		if len(left) == 0 {
			return up
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 1 s there are left:\n%s", strings.Join(left, "\n"))
		}
		time.Sleep(2 * time.Millisecond) // polls for the kernel's clearing up
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWorldKilled(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) {
			tag := fmt.Sprintf("squall-launch-%d-%s-killed", os.Getpid(), m)
			t.Setenv("TMPDIR", t.TempDir())
			w := start(t, launcher(t), WorldConfig{Mode: m}, "linger", tag)
			defer w.Close()
			if _, err := bufio.NewReader(w.Events).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if got := len(tagged(t, tag)); got < 4 {
				t.Fatalf("%d processes are up", got)
			}
			w.Kill()
			if left := tagged(t, tag); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if e, err := w.Wait(); err != nil || e.Code != 137 {
				t.Errorf("ended with %+v, %v", e, err)
			}
		})
	}
}

func TestContextEndsWorld(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := launcher(t).StartWorld(ctx, WorldConfig{Args: []string{"world", "linger", "squall-launch-context"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := bufio.NewReader(w.Events).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	if e, err := w.Wait(); err != nil || e.Signal != "SIGKILL" {
		t.Errorf("ended with %+v, %v", e, err)
	}
}

func TestLauncherCloseEndsWorlds(t *testing.T) {
	for _, m := range modes() {
		t.Setenv("TMPDIR", t.TempDir())
		l, err := NewLauncher()
		if err != nil {
			t.Fatal(err)
		}
		w := start(t, l, WorldConfig{Mode: m}, "linger", "squall-launch-close")
		defer w.Close()
		if _, err := bufio.NewReader(w.Events).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if e, err := w.Wait(); err != nil || e.Code != 137 {
			t.Errorf("%s: ended with %+v, %v", m, e, err)
		}
		if _, err := l.StartWorld(context.Background(), WorldConfig{Args: []string{"x"}}); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: started after Close: %v", m, err)
		}
	}
}

func TestManyWorldsLeaveNothing(t *testing.T) {
	l := launcher(t)
	once := func() {
		inside(t, l, WorldConfig{}, nil, "networks")
	}
	once()
	fds, mounts, goroutines := descriptors(t), read(t, "/proc/self/mountinfo"), runtime.NumGoroutine()
	for range 50 {
		once()
	}
	if now := descriptors(t); now != fds {
		t.Errorf("descriptors were\n%s\nare\n%s", fds, now)
	}
	if now := read(t, "/proc/self/mountinfo"); now != mounts {
		t.Errorf("mounts were\n%s\nare\n%s", mounts, now)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("goroutines: %d, then %d", goroutines, now)
	}
}

func descriptors(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		if to, err := os.Readlink(n); err == nil && !strings.HasPrefix(to, "/proc/") {
			out = append(out, filepath.Base(n)+" "+to)
		}
	}
	return strings.Join(out, "\n")
}
