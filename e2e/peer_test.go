package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ordersMatrix is ten flows under ten faults, in words that both tools read: topology goes before.
const ordersMatrix = `
def make(i):
    def flow():
        r = orders.post(path = "/orders", body = '{"sku":"widget","qty":%d}' % (i + 1))
        return r
    return flow

flows = [make(i) for i in range(10)]
`

// BenchmarkPeer runs the six flows of examples/orders beside the same six of the demo of Faultbox, and a matrix of
// 100 cells beside one of 100 tests there. SQUALL_FAULTBOX names its command, SQUALL_FAULTBOX_DEMO its demo with bin/
// built; both stay outside of this repository.
func BenchmarkPeer(b *testing.B) {
	peer, demo := os.Getenv("SQUALL_FAULTBOX"), os.Getenv("SQUALL_FAULTBOX_DEMO")
	if peer == "" || demo == "" {
		b.Skip("needs SQUALL_FAULTBOX and SQUALL_FAULTBOX_DEMO")
	}
	squall, orders := absolute(b, "../bin/squall"), absolute(b, "../examples/orders/orders.star")
	hundred, theirs := ordersHundred(b, orders), peerHundred(b, demo)
	var ours, other, oursMatrix, otherMatrix sample
	for b.Loop() {
		ours = append(ours, seconds(b, b.TempDir(), squall, "test", orders))
		other = append(other, seconds(b, demo, peer, "test", "demo.star"))
		oursMatrix = append(oursMatrix, seconds(b, b.TempDir(), squall, "test", hundred))
		otherMatrix = append(otherMatrix, seconds(b, demo, peer, "test", theirs))
	}
	fmt.Printf("\nsix flows, s: squall %v, faultbox %v\n  faultbox / squall: %v\n", ours, other, ratios(other, ours))
	fmt.Printf("100 cells of two services, s: squall %v, faultbox %v\n  leaves a minute, squall / faultbox: %v\n", oursMatrix, otherMatrix, ratios(otherMatrix, oursMatrix))
}

func absolute(b *testing.B, path string) string {
	b.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(abs); err != nil {
		b.Fatalf("%v; first: make build examples", err)
	}
	return abs
}

// seconds runs a command and returns how long it took. What it says of the flows is its own affair here: e2e
// TestExamples judges ours.
func seconds(b *testing.B, dir, command string, args ...string) float64 {
	b.Helper()
	cmd := exec.Command(command, args...)
	cmd.Dir = dir
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		b.Fatalf("%v\n%s", err, out)
	}
	return time.Since(start).Seconds()
}

// ordersHundred is a matrix of 100 leaves (10 x 9 cells and 10 baselines) on the services of examples/orders.
func ordersHundred(b *testing.B, orders string) string {
	b.Helper()
	text, err := os.ReadFile(orders)
	if err != nil {
		b.Fatal(err)
	}
	topology, _, _ := strings.Cut(string(text), "\ndef ")
	topology = strings.ReplaceAll(topology, `"bin/`, `"`+filepath.Dir(orders)+"/bin/")
	spec := filepath.Join(b.TempDir(), "hundred.star")
	rest := ordersMatrix + `
[scenario(flows[i], name = "flow%d" % i) for i in range(10)]
faults = [fault_assumption("f%d" % i, target = inventory, write = deny("ENOSPC", optional = True)) for i in range(9)]
fault_matrix(scenarios = flows, faults = faults, default_expect = lambda r: assert_true(r.status in (200, 409)))
`
	if err := os.WriteFile(spec, []byte(topology+rest), 0o644); err != nil {
		b.Fatal(err)
	}
	return spec
}

// peerHundred is 100 tests on the demo's services.
func peerHundred(b *testing.B, demo string) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(demo, "demo.star"))
	if err != nil {
		b.Fatal(err)
	}
	topology, _, _ := strings.Cut(string(text), "\ndef ")
	rest := "\n"
	for i := range 10 {
		rest += fmt.Sprintf("def flow%d():\n    return orders.post(path = \"/orders\", body = '{\"sku\":\"widget\",\"qty\":%d}')\n\nscenario(flow%d)\n", i, i+1, i)
	}
	rest += "\nfault_matrix(scenarios = [" + names("flow", 10) + "],\n    faults = [fault_assumption(\"f%d\" % i, target = inventory, write = deny(\"ENOSPC\")) for i in range(9)],\n" +
		"    default_expect = lambda r: assert_true(r.status in (200, 409)))\n"
	spec := filepath.Join(demo, "hundred.star")
	if err := os.WriteFile(spec, []byte(topology+rest), 0o644); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.Remove(spec) })
	return "hundred.star"
}

func names(prefix string, n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return strings.Join(out, ", ")
}
