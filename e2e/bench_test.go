package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/bundle"
)

// sample is a list of figures of one kind, in the order of measuring.
type sample []float64

func (s sample) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

func (s sample) String() string {
	sorted := slices.Sorted(slices.Values(s))
	return fmt.Sprintf("median %.1f (%.1f .. %.1f, n=%d)", s.median(), sorted[0], sorted[len(sorted)-1], len(s))
}

// ratios returns the quotients of pairs that were measured one after the other.
func ratios(a, b sample) sample {
	var out sample
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]/b[i])
	}
	return out
}

// BenchmarkLeaf compares a two-service leaf (start, ready, body, stop) with a bare start of both
// programs until they accept, in turns.
func BenchmarkLeaf(b *testing.B) {
	dir := b.TempDir()
	spec := twoServices + `
def make(i):
    scenario(lambda: None, name = "leaf_%d" % i, expect = lambda r: None)

[make(i) for i in range(5)]
`
	if err := os.WriteFile(filepath.Join(dir, "spec.star"), []byte(spec), 0o644); err != nil {
		b.Fatal(err)
	}
	bin, err := exec.LookPath("squall")
	if err != nil {
		b.Fatal(err)
	}
	var leaf, whole, bare sample
	for b.Loop() {
		cmd := exec.Command(bin, "test", "spec.star", "--jobs", "1")
		cmd.Dir = dir
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		whole = append(whole, float64(time.Since(start).Microseconds())/5/1000)
		leaf = append(leaf, phases(b, dir))
		bare = append(bare, bareStart(b))
	}
	var beyond sample
	for i := range leaf {
		beyond = append(beyond, whole[i]-bare[i])
	}
	fmt.Printf("\ntwo-service leaf, ms: phases %v; whole, world and command included %v\n  bare start %v\n  whole beyond bare %v\n", leaf, whole, bare, beyond)
}

// phases returns the median duration of the leaves of the last run, in ms.
func phases(b *testing.B, dir string) float64 {
	found, _ := filepath.Glob(filepath.Join(dir, ".squall/runs/*/run.squall"))
	r, err := bundle.Open(found[len(found)-1])
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var s sample
	for _, l := range r.Verdicts().Leaves {
		s = append(s, float64(l.Duration.Microseconds())/1000)
	}
	return s.median()
}

// bareStart starts both programs and waits until they accept, and ends them, in ms.
func bareStart(b *testing.B) float64 {
	toy, err := exec.LookPath("toyd")
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	var cmds []*exec.Cmd
	for _, port := range []string{"17001", "17002"} {
		cmd := exec.Command(toy, port)
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, port := range []string{"17001", "17002"} {
		c := accepts(b, "127.0.0.1:"+port)
		c.Close()
	}
	for _, cmd := range cmds {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	return float64(time.Since(start).Microseconds()) / 1000
}

func accepts(b *testing.B, address string) net.Conn {
	deadline := time.Now().Add(5 * time.Second)
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkEcho compares the round trip of 64 bytes, measured by the same client program, on a plain
// connection, through a bare Go relay, through Toxiproxy (where SQUALL_TOXIPROXY names its server),
// on a link of Squall that is mediated but idle, and on one that is direct.
func BenchmarkEcho(b *testing.B) {
	const count = "4000"
	toy, err := exec.LookPath("toyd")
	if err != nil {
		b.Fatal(err)
	}
	for _, args := range [][]string{{"17010/echo"}, {"17011"}} {
		cmd := exec.Command(toy, args...)
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	client := accepts(b, "127.0.0.1:17011")
	accepts(b, "127.0.0.1:17010").Close()
	relay := bareRelay(b, "127.0.0.1:17010")
	toxi := toxiproxy(b, "127.0.0.1:17010")
	ask := func(address string) float64 {
		fmt.Fprintf(client, "rtt %s %s\n", address, count)
		line, err := bufio.NewReader(client).ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		return microseconds(b, line)
	}
	figures := map[string]sample{}
	for b.Loop() {
		figures["plain"] = append(figures["plain"], ask("127.0.0.1:17010"))
		figures["go relay"] = append(figures["go relay"], ask(relay))
		if toxi != "" {
			figures["toxiproxy"] = append(figures["toxiproxy"], ask(toxi))
		}
		mediated, direct := links(b, count)
		figures["mediated"] = append(figures["mediated"], mediated)
		figures["direct link"] = append(figures["direct link"], direct)
	}
	fmt.Println()
	for _, name := range []string{"plain", "direct link", "go relay", "toxiproxy", "mediated"} {
		if figures[name] != nil {
			fmt.Printf("64-byte echo, us: %-12s %v\n", name, figures[name])
		}
	}
	fmt.Printf("mediated / go relay: %v\n", ratios(figures["mediated"], figures["go relay"]))
	if toxi != "" {
		fmt.Printf("mediated / toxiproxy: %v\n", ratios(figures["mediated"], figures["toxiproxy"]))
	}
	fmt.Printf("direct link / plain: %v\n", ratios(figures["direct link"], figures["plain"]))
}

func microseconds(b *testing.B, line string) float64 {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), "ok ")
	ns, err := strconv.Atoi(text)
	if !ok || err != nil {
		b.Fatalf("answer %q", line)
	}
	return float64(ns) / 1000
}

// bareRelay is the least that a relay in Go can be: two copies.
func bareRelay(b *testing.B, to string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go copyLoop(s, c)
			go copyLoop(c, s)
		}
	}()
	return l.Addr().String()
}

// copyLoop copies with read and write, as Squall's relay does; io.Copy would splice.
func copyLoop(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	to.Close()
}

// toxiproxy starts Toxiproxy's server, where there is one, with one proxy and no toxic.
func toxiproxy(b *testing.B, to string) string {
	server := os.Getenv("SQUALL_TOXIPROXY")
	if server == "" {
		fmt.Println("toxiproxy: left out, SQUALL_TOXIPROXY names no server")
		return ""
	}
	cmd := exec.Command(server, "-port", "17020")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := accepts(b, "127.0.0.1:17020")
	defer c.Close()
	body := fmt.Sprintf(`{"name":"echo","listen":"127.0.0.1:17021","upstream":%q,"enabled":true}`, to)
	fmt.Fprintf(c, "POST /proxies HTTP/1.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), "201") {
		b.Fatalf("%v: %s", err, answer)
	}
	return "127.0.0.1:17021"
}

// links measures inside a leaf: a link that a fault of the scenario could touch, and one that none can.
func links(b *testing.B, count string) (mediated, direct float64) {
	dir := b.TempDir()
	text := `
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])
b = service("b", interface("echo", "tcp", 7001), binary = "toyd", args = ["7001/echo"])

def mediated():
    if False:
        partition(a, b, run = lambda: None)
    return a.main.send(data = "rtt b:7001 ` + count + `", timeout = "20s").body

def direct():
    return a.main.send(data = "rtt b:7001 ` + count + `", timeout = "20s").body

scenario(mediated, expect = lambda r: None)
scenario(direct, expect = lambda r: None)
`
	if err := os.WriteFile(filepath.Join(dir, "spec.star"), []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	bin, err := exec.LookPath("squall")
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(bin, "test", "spec.star", "--jobs", "1")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	r, err := bundle.Open(filepath.Join(dir, ".squall/runs/0001/run.squall"))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	result := func(i int) float64 { return microseconds(b, strings.Trim(r.Verdicts().Leaves[i].Result, `"`)) }
	return result(0), result(1)
}

// pairedTrips measures round trips of 64 bytes to two addresses in turns, one connection each, in so many rounds. It
// answers the medians in nanoseconds, and the quartiles of the rounds' ratios, the first over the second, in thousandths.
func pairedTrips(first, second, rounds string) (string, error) {
	const perRound = 200
	n, err := strconv.Atoi(rounds)
	if err != nil {
		return "", err
	}
	var conns [2]net.Conn
	for i, address := range []string{first, second} {
		if conns[i], err = net.Dial("tcp", address); err != nil {
			return "", err
		}
		defer conns[i].Close()
	}
	buf := make([]byte, 64)
	var took [2]sample
	for round := range n + 1 {
		for i, c := range conns {
			start := time.Now()
			for range perRound {
				if _, err := c.Write(buf); err != nil {
					return "", err
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					return "", err
				}
			}
			if round > 0 { // the first one warms up
				took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/perRound)
			}
		}
	}
	r := slices.Sorted(slices.Values(ratios(took[0], took[1])))
	quartile := func(q float64) int { return int(1000 * r[int(q*float64(len(r)-1))]) }
	return fmt.Sprint(int(took[0].median()), int(took[1].median()), quartile(0.25), quartile(0.5), quartile(0.75)), nil
}

// BenchmarkJoined compares, inside a leaf and by one client program, the round trip of 64 bytes on a link that a
// fault could touch with that on one that none can: there client and server are connected over loopback, with no relay
// between them.
func BenchmarkJoined(b *testing.B) {
	const text = `
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])
b = service("b", interface("echo", "tcp", 7001), binary = "toyd", args = ["7001/echo"])
c = service("c", interface("echo", "tcp", 7002), binary = "toyd", args = ["7002/echo"])

def joined():
    if False:
        partition(a, b, run = lambda: None)
    return a.main.send(data = "rtts b:7001 c:7002 41", timeout = "20s").body

scenario(joined, expect = lambda r: None)
`
	bin, err := exec.LookPath("squall")
	if err != nil {
		b.Fatal(err)
	}
	fmt.Println()
	var medians sample
	for b.Loop() {
		dir := b.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "spec.star"), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(bin, "test", "spec.star")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		r, err := bundle.Open(filepath.Join(dir, ".squall/runs/0001/run.squall"))
		if err != nil {
			b.Fatal(err)
		}
		var v [5]float64
		answer := strings.Trim(r.Verdicts().Leaves[0].Result, `"`)
		if n, err := fmt.Sscanf(answer, "ok %g %g %g %g %g", &v[0], &v[1], &v[2], &v[3], &v[4]); n != len(v) {
			b.Fatalf("answer %q: %v", answer, err)
		}
		r.Close()
		fmt.Printf("64-byte echo, us: mediated %.1f, direct %.1f, ratio %.2f (quartiles %.2f, %.2f)\n",
			v[0]/1000, v[1]/1000, v[3]/1000, v[2]/1000, v[4]/1000)
		medians = append(medians, v[3]/1000)
	}
	sorted := slices.Sorted(slices.Values(medians))
	fmt.Printf("mediated / direct: median of the medians %.2f (%.2f .. %.2f, n=%d)\n",
		medians.median(), sorted[0], sorted[len(sorted)-1], len(sorted))
}
