package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/run/wire"
	"github.com/squallhq/squall/spec"
)

// suites are what the worlds of these tests run, by name.
type suites struct{}

func (suites) Load(_ context.Context, source string) (*spec.Suite, error) {
	bodies := map[string]spec.Body{
		"waits": func(ctx context.Context, w spec.World) (any, error) { return nil, w.Sleep(ctx, 3*time.Second) },
		"deadlocks": func(_ context.Context, w spec.World) (any, error) {
			// Who lists an exhaustive rule asks the choices about it, with the rules' lock held.
			l := w.(*world).l
			rule := fault.Rule{
				ID: "held", When: fault.When{Exhaustive: true},
				Syscall: &fault.Syscall{Service: "db", Family: "fsync", Calls: []string{"fsync"}, Errno: "EIO"},
			}
			if _, err := l.faults.Install([]fault.Rule{rule}); err != nil {
				return nil, err
			}
			l.choices.mu.Lock()
			go l.faults.Records()
			return nil, nil
		},
		"overdue": func(_ context.Context, w spec.World) (any, error) {
			w.(*world).l.alive.Expect(time.Second, "it hangs at a test")
			select {}
		},
		"limited": func(_ context.Context, w spec.World) (any, error) {
			within, what := w.(*world).l.alive.Expected()
			return fmt.Sprint(within, ": ", what), nil
		},
	}
	if bodies[source] == nil {
		return nil, fmt.Errorf("no suite %q", source)
	}
	return &spec.Suite{Source: source, Scenarios: []*spec.Scenario{{Name: "only", Body: bodies[source]}}}, nil
}

func TestMain(m *testing.M) {
	if code, ok := Inside(suites{}); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// leafOf returns the job of a suite's only leaf.
func leafOf(t *testing.T, source string) wire.Job {
	t.Helper()
	s, err := suites{}.Load(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(s, plan.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Job{Source: source, Leaf: p.Leaves[0].ID, Seed: 1}
}

// worldsOf returns the process ids of the worlds of a process, their guards included.
func worldsOf(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(parent) && strings.HasPrefix(string(line), "squall-world") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			out = append(append(out, pid), worldsOf(t, pid)...)
		}
	}
	return out
}

func modes(t *testing.T, test func(t *testing.T, shared bool)) {
	for name, shared := range map[string]bool{"namespaces": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat("/proc/self/ns/user"); err != nil && !shared {
				t.Skip("this kernel has no user namespaces")
			}
			test(t, shared)
		})
	}
}

// A supervisor that is stopped holds nobody for ever, and its leaf is left open by name.
func TestStoppedWorld(t *testing.T) {
	modes(t, func(t *testing.T, shared bool) {
		worlds, err := wire.NewWorlds()
		if err != nil {
			t.Fatal(err)
		}
		defer worlds.Close()
		worlds.Silence = 2 * time.Second
		job := leafOf(t, "waits")
		job.Shared = shared
		begin := time.Now()
		_, err = worlds.Start(t.Context(), job, wire.Sink{
			Event: func(event.Event) {},
			Log:   func(string, []byte) {},
			Phase: func(phase string) {
				if phase != "body" {
					return
				}
				pids := worldsOf(t, os.Getpid())
				if want := map[bool]int{false: 1, true: 2}[shared]; len(pids) != want {
					t.Errorf("worlds and guards: %v; want %d", pids, want)
				}
				for _, pid := range pids {
					_ = unix.Kill(pid, unix.SIGSTOP)
				}
			},
		})
		if errors.Is(err, wire.ErrNoNamespaces) {
			t.Skip("this machine refuses namespaces")
		}
		if !errors.Is(err, wire.ErrWorldLost) || !strings.Contains(fmt.Sprint(err), "no sign of life for 2s") {
			t.Errorf("error %v; want one of a lost world that was silent for 2s", err)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("the leaf was held for %s", took)
		}
		if pids := worldsOf(t, os.Getpid()); len(pids) > 0 {
			t.Errorf("left behind: %v", pids)
		}
	})
}

// start runs a leaf in namespaces and gives its world up after 2 s of silence.
func start(t *testing.T, source string) (wire.Done, error) {
	t.Helper()
	worlds, err := wire.NewWorlds()
	if err != nil {
		t.Fatal(err)
	}
	defer worlds.Close()
	worlds.Silence = 2 * time.Second
	done, err := worlds.Start(t.Context(), leafOf(t, source), wire.Sink{Event: func(event.Event) {}, Log: func(string, []byte) {}, Phase: func(string) {}})
	if errors.Is(err, wire.ErrNoNamespaces) {
		t.Skip("this machine refuses namespaces")
	}
	return done, err
}

// A supervisor of which a lock is never given up is as good as stopped.
func TestDeadlockedWorld(t *testing.T) {
	if _, err := start(t, "deadlocks"); !errors.Is(err, wire.ErrWorldLost) || !strings.Contains(fmt.Sprint(err), "no sign of life for 2s") {
		t.Errorf("error %v; want one of a lost world that was silent for 2s", err)
	}
}

// A leaf that is beyond its time ends itself and says what it hangs at.
func TestOverdueWorld(t *testing.T) {
	if _, err := start(t, "overdue"); !errors.Is(err, wire.ErrWorldLost) || !strings.Contains(fmt.Sprint(err), "it hangs at a test") {
		t.Errorf("error %v; want one of a lost world that says where it hung", err)
	}
}

// A body that looks at no context holds its leaf until its time and some patience are over.
func TestBodyHasALimit(t *testing.T) {
	done, err := start(t, "limited")
	if err != nil {
		t.Fatal(err)
	}
	if got := done.Leaf.Result; !strings.HasPrefix(got, "1m30s: the scenario did not return") {
		t.Errorf("the body's limit is %s; want 90 s", got)
	}
}

// A world that only waits is not silent, and what shows that it lives is no event.
func TestWaitingWorld(t *testing.T) {
	modes(t, func(t *testing.T, shared bool) {
		worlds, err := wire.NewWorlds()
		if err != nil {
			t.Fatal(err)
		}
		defer worlds.Close()
		worlds.Silence = 2 * time.Second
		job := leafOf(t, "waits")
		job.Shared = shared
		var seen []string
		done, err := worlds.Start(t.Context(), job, wire.Sink{
			Event: func(e event.Event) { seen = append(seen, string(e.Kind)) },
			Log:   func(string, []byte) {}, Phase: func(string) {},
		})
		if errors.Is(err, wire.ErrNoNamespaces) {
			t.Skip("this machine refuses namespaces")
		}
		if err != nil || done.Leaf.Verdict.Outcome != "PASS" {
			t.Fatalf("verdict %v, error %v; want PASS", done.Leaf.Verdict, err)
		}
		if got := strings.Join(seen, " "); got != "body body" || done.Leaf.Events != 2 {
			t.Errorf("%d events: %s; want body body", done.Leaf.Events, got)
		}
	})
}
