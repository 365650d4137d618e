package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

// command returns squall, as the scripts have it: the test binary under that name.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("squall")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	return cmd
}

// specDir is a directory with one specification, spec.star.
func specDir(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "spec.star"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const twoServices = `
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])
b = service("b", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])
`

// matrix has faults of both sorts, some of them with chance in them.
const matrix = twoServices + `
def talk():
    out = []
    for i in range(4):
        r = a.send(data = "open c%d b:7000" % i)
        out.append(a.send(data = "say c%d 2000 ping" % i).body.split(" ")[0] if r.body.startswith("ok") else r.body)
        out.append(a.send(data = "write /tmp/x %d" % i).body)
    return ",".join(out)

def sync():
    a.send(data = "write /tmp/x 1")
    return [a.send(data = "fsync /tmp/x").body for _ in range(4)]

def cut_off():
    """The partition heals, and a new connection works."""
    a.send(data = "open p b:7000")
    partition(a, b, run = lambda: a.send(data = "say p 100 ping"))
    return a.send(data = "open q b:7000").body.split(" ")[0]

scenario(talk)
scenario(sync)
scenario(cut_off, expect = lambda r: assert_eq(r, "ok"))

some_writes = fault_assumption("some_writes", target = a, write = deny("ENOSPC", probability = 0.5, optional = True))
some_syncs = fault_assumption("some_syncs", target = a, fsync = deny("EIO", probability = 0.5, optional = True))
slow = fault_assumption("slow", target = b, source = a, rules = [latency("5ms", jitter = "5ms", optional = True)])
fault_matrix(scenarios = [talk, sync], faults = [some_writes, some_syncs, slow], default_expect = lambda r: None)
`

// The same seed gives the same verdicts, decisions and traces, run after run, on a busy machine;
// another seed gives others. The full number of runs is that of make soak.
func TestSameSeedSameRun(t *testing.T) {
	runs := count(t, "SQUALL_SOAK_RUNS", 6)
	dir := specDir(t, matrix)
	stop := load(t)
	defer stop()
	first := fingerprint(t, dir, 7)
	for i := 1; i < runs; i++ {
		if again := fingerprint(t, dir, 7); again != first {
			t.Fatalf("run %d differs:\n%s", i+1, firstDifference(first, again))
		}
	}
	if other := fingerprint(t, dir, 8); other == first {
		t.Error("another seed gave the same decisions")
	}
}

// fingerprint runs the matrix and returns all of it that chance decides.
func fingerprint(t *testing.T, dir string, seed int) string {
	t.Helper()
	out, err := command(t, dir, "test", "spec.star", "--seed", strconv.Itoa(seed)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := bundle.Open(lastBundle(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var text strings.Builder
	for _, l := range b.Verdicts().Leaves {
		fmt.Fprintln(&text, l.ID, l.Scenario, l.Assumption, l.Verdict.Outcome, l.Result, l.Trace)
		decisions, err := json.Marshal(b.Replay().Decisions[l.ID])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, string(decisions))
	}
	return text.String()
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "- " + x[i] + "\n+ " + y[i]
		}
	}
	return "one is longer"
}

func lastBundle(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".squall/runs/*/run.squall"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no bundle: %v", err)
	}
	return found[len(found)-1]
}

// load keeps a CPU busy until stop is called.
func load(t *testing.T) (stop func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func count(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Trivial leaves on a busy machine: each a PASS, and nothing left of them.
func TestManyTrivialLeaves(t *testing.T) {
	n := count(t, "SQUALL_SOAK_LEAVES", 60)
	dir := specDir(t, twoServices+`
def make(i):
    scenario(lambda: a.send(data = "ping"), name = "ping_%d" % i, expect = lambda r: assert_eq(r.body, "ok pong"))

[make(i) for i in range(`+strconv.Itoa(n)+`)]
`)
	before := leftovers(t)
	stop := load(t)
	out, err := command(t, dir, "test", "spec.star").CombinedOutput()
	stop()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d pass, 0 fail, 0 inconclusive", n)) {
		t.Fatalf("%v\n%s", err, out)
	}
	compareLeftovers(t, before)
}

// kill -9 at random moments leaves no process, namespace, mount or file.
func TestKilledAtRandom(t *testing.T) {
	dir := specDir(t, matrix)
	before := leftovers(t)
	for range count(t, "SQUALL_SOAK_KILLS", 20) {
		cmd := command(t, dir, "test", "spec.star")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	compareLeftovers(t, before)
	left, err := filepath.Glob(filepath.Join(dir, ".squall/runs/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		// A run that was decided before it was killed may stand there, whole.
		b, err := bundle.Open(filepath.Join(path, "run.squall"))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		b.Close()
	}
}

// leftovers lists the processes of worlds, the mounts, and the temporary files.
func leftovers(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	bin, err := exec.LookPath("squall")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		// Only what was started from this test binary counts: another test may run beside it.
		b, _ := os.ReadFile(p)
		exe, _ := os.Readlink(filepath.Join(filepath.Dir(p), "exe"))
		name := string(bytes.SplitN(b, []byte{0}, 2)[0])
		if name == "squall-world" && exe == bin || name == filepath.Join(filepath.Dir(bin), "toyd") {
			found["process "+p+" "+name] = true
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		found["mount "+line] = true
	}
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "squall-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		found["file "+f] = true
	}
	return found
}

// compareLeftovers gives what ends a second to be gone, and fails for what is not.
func compareLeftovers(t *testing.T, before map[string]bool) {
	t.Helper()
	deadline := time.Now().Add(time.Second)
	for {
		var more []string
		for name := range leftovers(t) {
			if !before[name] {
				more = append(more, name)
			}
		}
		if len(more) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", more)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Two runs at once get directories of their own and right results.
func TestTwoAtOnce(t *testing.T) {
	dir := specDir(t, matrix)
	a, b := command(t, dir, "test", "spec.star"), command(t, dir, "test", "spec.star")
	var outA, outB bytes.Buffer
	a.Stdout, b.Stdout = &outA, &outB
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		t.Errorf("%v\n%s", err, outA.String())
	}
	if err := b.Wait(); err != nil {
		t.Errorf("%v\n%s", err, outB.String())
	}
	found, _ := filepath.Glob(filepath.Join(dir, ".squall/runs/*/run.squall"))
	if len(found) != 2 {
		t.Errorf("bundles: %v", found)
	}
}

// children returns the processes that a process has started and that live.
func children(t *testing.T, pid int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		// The name, in parentheses, may hold anything; state and parent follow it.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) > 1 && f[1] == strconv.Itoa(pid) {
			out = append(out, filepath.Base(filepath.Dir(path)))
		}
	}
	return out
}

// Ctrl-C keeps what is decided and says so: exit 2, a bundle that is not complete.
func TestInterrupted(t *testing.T) {
	dir := specDir(t, twoServices+`
def quick():
    return a.send(data = "ping")

def slow():
    return a.send(data = "sleep 20000", timeout = "25s")

scenario(quick, expect = lambda r: assert_true(r.ok))
scenario(slow, timeout = "25s")
`)
	cmd := command(t, dir, "test", "spec.star", "--jobs", "1")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// One leaf at a time: once a second world is there, the first leaf is decided.
	worlds := map[string]bool{}
	for end := time.Now().Add(20 * time.Second); len(worlds) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			t.Fatalf("the second leaf never began: %v", worlds)
		}
		for _, pid := range children(t, cmd.Process.Pid) {
			worlds[pid] = true
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit %d\n%s", code, out.String())
	}
	b, err := bundle.Open(lastBundle(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	leaves := b.Verdicts().Leaves
	if b.Manifest().Complete || leaves[0].Verdict.Outcome != verdict.Pass || leaves[1].Verdict.Outcome != verdict.Inconclusive {
		t.Errorf("complete %v, leaves %+v", b.Manifest().Complete, leaves)
	}
}
