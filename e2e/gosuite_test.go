package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// suites loads Starlark files and, by the prefix go:, suites that are built in Go.
type suites struct{ spec.Loader }

// Stubs describes the language of files.
func (s suites) Stubs() string { return s.Loader.(starbind.Loader).Stubs() }

func (s suites) Load(ctx context.Context, source string) (*spec.Suite, error) {
	name, ok := strings.CutPrefix(source, "go:")
	if !ok {
		return s.Loader.Load(ctx, source)
	}
	return goSuite(name)
}

// goSuite is one service and one scenario, which injects a denied write. The suite "declared" says so
// beforehand, "undeclared" does not.
func goSuite(name string) (*spec.Suite, error) {
	path, err := exec.LookPath("toyd")
	if err != nil {
		return nil, err
	}
	family, _ := fault.FamilyOf("write")
	rule := fault.Rule{ID: "body/write", Syscall: &fault.Syscall{
		Service: "a", Family: "write", Calls: family.Calls, On: family.On, Errno: "ENOSPC",
	}}
	sc := &spec.Scenario{Name: "full", Timeout: 10 * time.Second, Body: func(ctx context.Context, w spec.World) (any, error) {
		active, err := w.Inject(ctx, rule)
		if err != nil {
			return nil, err
		}
		defer active.Release()
		r, err := w.Call(ctx, spec.Target{Service: "a", Interface: "main", Protocol: "tcp", Port: 7000},
			spec.Operation{Method: "send", Args: map[string]any{"data": "write /tmp/x hello"}})
		if err == nil && (r.Body != "err ENOSPC" || active.Fired()[0] == 0) {
			err = &property.Violation{Message: fmt.Sprintf("got %q, fired %v", r.Body, active.Fired())}
		}
		return r.Body, err
	}}
	if name == "declared" {
		sc.MayInject = []spec.Scope{{Service: "a", Calls: family.Calls}}
	}
	return &spec.Suite{
		Source: "go:" + name,
		Services: []*spec.Service{{Name: "a", Binary: path, Args: []string{"7000"}, Dir: os.TempDir(), Interfaces: []*spec.Interface{
			{Service: "a", Name: "main", Protocol: "tcp", Port: 7000},
		}}},
		Scenarios: []*spec.Scenario{sc},
	}, nil
}

// A scenario in Go injects what it declared; what it did not declare ends the leaf by name.
func TestGoScenario(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"declared", "1 pass"},
		{"undeclared", "INCONCLUSIVE not-subscribed: calls of a to write were not subscribed to"},
	} {
		out, _ := command(t, t.TempDir(), "test", "go:"+tc.name).CombinedOutput()
		if flat := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(flat, tc.want) {
			t.Errorf("%s: want %q in\n%s", tc.name, tc.want, out)
		}
	}
}

// Without user namespaces and without root: the same verdicts, one leaf at a time, or a refusal that
// names the rule and the mend.
func TestWithoutNamespaces(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("unshare (package util-linux) is not installed")
	}
	if os.Geteuid() == 0 {
		t.Skip("root needs no user namespaces; the pass as an ordinary user runs this")
	}
	dir := specDir(t, matrixOnOneNetwork())
	bin, err := exec.LookPath("squall")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(unshare, "-Ur", "sh", "-ec", `
for k in user net mnt pid uts ipc; do echo 0 > /proc/sys/user/max_${k}_namespaces; done
exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all `+bin+` test spec.star --seed 7`)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput()
	withoutNetworks(t, out)
}

// The same where the caller asks for it, also as root.
func TestSharedNetwork(t *testing.T) {
	out, _ := command(t, specDir(t, matrixOnOneNetwork()), "test", "spec.star", "--seed", "7", "--shared-network").CombinedOutput()
	withoutNetworks(t, out)
}

// matrixOnOneNetwork is the matrix with a port for each service.
func matrixOnOneNetwork() string {
	return strings.NewReplacer(
		`service("b", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])`,
		`service("b", interface("main", "tcp", 7001), binary = "toyd", args = ["7001"])`,
		"b:7000", "b:7001",
	).Replace(matrix)
}

// withoutNetworks wants the verdicts of the matrix from a run that owns no network: its link rules are
// refused by name, and never look as if they had acted.
func withoutNetworks(t *testing.T, out []byte) {
	t.Helper()
	flat := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{
		"6 pass, 0 fail, 3 inconclusive",
		`INCONCLUSIVE needs-namespaces: latency("5ms", jitter="5ms") on a -> b (slow/latency)`,
		`INCONCLUSIVE needs-namespaces: partition() on a <-> b`,
		"mend: see squall doctor",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}

// A home that cannot be written, and a disk that is full: an error that says what to do, never a
// verdict.
func TestNowhereToWrite(t *testing.T) {
	dir := specDir(t, matrix)
	runs := filepath.Join(dir, "runs")
	if err := os.Mkdir(runs, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		t.Run("full disk", func(t *testing.T) {
			if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", runs).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			defer exec.Command("umount", "-l", runs).Run()
			refused(t, command(t, dir, "test", "spec.star", "--dir", runs), "no space left on device")
		})
		return
	}
	refused(t, command(t, dir, "test", "spec.star", "--dir", runs), "permission denied")
}

func refused(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(string(out), want) || !strings.Contains(string(out), "mend:") {
		t.Errorf("want %q and a mend in\n%s", want, out)
	}
	if strings.Contains(string(out), " pass,") {
		t.Errorf("there is a verdict:\n%s", out)
	}
}
