package dial

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/fault"
)

// client is a real program that makes one HTTP request.
type client struct {
	name string
	// args is its command line up to host, port and time limit.
	args func(t *testing.T) []string
	// loop says that it connects from an event loop, which no call may keep waiting.
	loop bool
	// vague says that it does not tell why it could not connect, nor to whom it did.
	vague bool
}

// saw is what a client reports.
type saw struct {
	Error     string `json:"error"`
	ConnectMS int    `json:"connect_ms"`
	TotalMS   int    `json:"total_ms"`
	GapMS     int    `json:"gap_ms"`
	Peer      string `json:"peer"`
}

func clients() []client {
	python := func(manner string) func(*testing.T) []string {
		return func(t *testing.T) []string {
			return []string{installed(t, "/usr/bin/python3"), "-I", testdata(t, "client.py"), manner}
		}
	}
	node := func(manner string) func(*testing.T) []string {
		return func(t *testing.T) []string {
			return []string{installed(t, "/usr/bin/node"), testdata(t, "client.js"), manner}
		}
	}
	java := func(manner string) func(*testing.T) []string {
		return func(t *testing.T) []string {
			return []string{installed(t, "/usr/bin/java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m",
				"-cp", javaClient(t), "Client", manner}
		}
	}
	return []client{
		{"curl", func(t *testing.T) []string { return []string{installed(t, "/usr/bin/curl")} }, false, false},
		{"python-blocking", python("blocking"), false, false},
		{"python-urllib", python("urllib"), false, false},
		{"python-asyncio", python("asyncio"), true, false},
		{"node", node("http"), true, false},
		{"node-fetch", node("fetch"), true, false},
		{"go", func(t *testing.T) []string { return []string{goClient(t)} }, false, false},
		{"java-http", java("http"), true, true},
		{"java-socket", java("socket"), false, false},
		{"java-selector", java("selector"), true, false},
	}
}

func installed(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Skip("this machine has no ", path)
	}
	return path
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("testdata/clients/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("cannot read the client: ", err)
	}
	return path
}

// goClient builds the client in Go where a toolchain is at hand. Where there is none, such as in a run as
// another user, SQUALL_GO_CLIENT may name a built one.
func goClient(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("SQUALL_GO_CLIENT"); path != "" {
		return path
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no Go toolchain here to build the client")
	}
	path := filepath.Join(t.TempDir(), "client")
	build := exec.Command(tool, "build", "-o", path, testdata(t, "client.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("cannot build the client in Go: %v: %s", err, out)
	}
	return path
}

// javaClient compiles the client in Java and returns the directory of its class.
func javaClient(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(installed(t, "/usr/bin/javac"), "-d", dir, testdata(t, "Client.java")).CombinedOutput(); err != nil {
		t.Skipf("cannot compile the client in Java: %v: %s", err, out)
	}
	return dir
}

// ask runs a client against the db and returns what it saw.
func (s *system) ask(c client, args []string, limit string) saw {
	s.t.Helper()
	if c.name == "curl" {
		return s.curl(args[0], limit)
	}
	stdout, stderr := s.run("api", append(args, "127.77.0.2", "5432", limit)...)
	var r saw
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		s.t.Fatalf("%v: stdout %q, stderr %q", err, stdout, stderr)
	}
	return r
}

func (s *system) curl(path, limit string) saw {
	s.t.Helper()
	stdout, stderr := s.run("api", path, "-sv", "--noproxy", "*", "-o", "/dev/null", "-m", limit,
		"-w", "%{time_connect} %{time_total} %{exitcode} %{remote_ip}:%{remote_port}", "http://127.77.0.2:5432/")
	f := strings.Fields(stdout)
	if len(f) != 4 {
		s.t.Fatalf("curl: stdout %q, stderr %q", stdout, stderr)
	}
	ms := func(v string) int {
		seconds, err := strconv.ParseFloat(v, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return int(seconds * 1000)
	}
	r := saw{ConnectMS: ms(f[0]), TotalMS: ms(f[1]), Peer: f[3]}
	switch {
	case f[2] == "0":
	case regexp.MustCompile(`(?i)timed out after \d+ milli`).MatchString(stderr):
		r.Error = "timeout"
	case regexp.MustCompile("(?i)connection timed out").MatchString(stderr):
		r.Error = "ETIMEDOUT"
	case regexp.MustCompile("(?i)connection refused").MatchString(stderr):
		r.Error = "ECONNREFUSED"
	case regexp.MustCompile("(?i)connection reset").MatchString(stderr):
		r.Error = "ECONNRESET"
	default:
		r.Error = stderr
	}
	return r
}

// serveHTTP answers requests to the db; before is called with each.
func (s *system) serveHTTP(before func()) {
	s.t.Helper()
	l := s.listen("db", "tcp4", "0.0.0.0:5432")
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if before != nil {
			before()
		}
		_, _ = w.Write([]byte(strings.Repeat("x", 2000)))
	})}
	go func() { _ = srv.Serve(l) }()
	s.t.Cleanup(func() { srv.Close() })
}

func TestClients(t *testing.T) {
	conditions := []struct {
		name string
		// arrange prepares the rules; before is what the server does within a request.
		arrange func(s *system)
		before  func(s *system)
		limit   string
		err     string
		// connect and total bound when the client was connected, and when it was done; 0 is no bound. The
		// upper ones leave room for a busy machine and are below what a repeated SYN would take.
		connect, total [2]int
	}{
		{name: "plain", limit: "5"},
		{name: "delay", limit: "5", connect: [2]int{200, 950}, total: [2]int{400, 1900}, arrange: func(s *system) {
			s.install(fault.Latency, func(e *fault.LinkEffect) { e.Delay, e.Connect = 100*time.Millisecond, true })
		}},
		{name: "timeout", limit: "5", err: "ETIMEDOUT", total: [2]int{300, 950}, arrange: func(s *system) {
			s.install(fault.TimeOut, func(e *fault.LinkEffect) { e.Delay = 300 * time.Millisecond })
		}},
		{name: "refuse", limit: "5", err: "ECONNREFUSED", total: [2]int{0, 950}, arrange: func(s *system) {
			s.install(fault.Refuse, nil)
		}},
		{name: "reset", limit: "5", err: "ECONNRESET", arrange: func(s *system) {
			s.install(fault.Reset, func(e *fault.LinkEffect) { e.AfterBytes = 500 })
		}},
		{name: "blackhole", limit: "0.5", err: "timeout", total: [2]int{480, 1450}, arrange: func(s *system) {
			s.install(fault.Blackhole, nil)
		}},
		{name: "healed", limit: "5", connect: [2]int{300, 950}, arrange: func(s *system) {
			id := s.install(fault.Partition, nil)
			go func() {
				until(s.t, "the partition to hold a SYN", func() bool { return s.links.Fired(id) > 0 })
				time.Sleep(300 * time.Millisecond)
				s.links.Lift(id)
			}()
		}},
		{name: "healed midway", limit: "5", total: [2]int{300, 2500}, before: func(s *system) {
			id := s.install(fault.Partition, nil)
			time.AfterFunc(300*time.Millisecond, func() { s.links.Lift(id) })
		}},
	}
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			args := c.args(t)
			for _, cond := range conditions {
				t.Run(cond.name, func(t *testing.T) {
					t.Parallel()
					if c.name == "python-blocking" && cond.name == "blackhole" {
						t.Skip("a blocking socket has no time limit of its own")
					}
					s := newSystem(t, true)
					s.serveHTTP(func() {
						if cond.before != nil {
							cond.before(s)
						}
					})
					if cond.arrange != nil {
						cond.arrange(s)
					}
					r := s.ask(c, args, cond.limit)
					t.Logf("%+v", r)
					if strings.HasPrefix(c.name, "java") {
						// A JVM loads its classes in the time that it measures.
						cond.total[1], cond.connect[1] = 3*cond.total[1], 3*cond.connect[1]
					}
					want := cond.err
					if c.vague && (want == "ETIMEDOUT" || want == "ECONNREFUSED") {
						want = "connect"
					}
					if r.Error != want {
						t.Errorf("error %q, want %q", r.Error, want)
					}
					if c.name != "python-urllib" && r.ConnectMS >= 0 && cond.err == "" {
						inRange(t, "connected", r.ConnectMS, cond.connect)
						if r.Peer != "127.77.0.2:5432" {
							t.Errorf("the peer is %q", r.Peer)
						}
					}
					inRange(t, "done", r.TotalMS, cond.total)
					// The gap itself depends on how busy the machine is; that nobody held the call does not.
					if n := s.kept.Load(); c.loop && n != 0 {
						t.Errorf("%d calls of the event loop were kept waiting", n)
					}
				})
			}
		})
	}
}

func inRange(t *testing.T, what string, ms int, bounds [2]int) {
	t.Helper()
	if bounds[1] > 0 && (ms < bounds[0] || ms > bounds[1]) {
		t.Errorf("%s after %d ms, want %d to %d", what, ms, bounds[0], bounds[1])
	}
}

// On a link that no rule can touch the same clients work without a relay.
func TestClientsDirect(t *testing.T) {
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			args := c.args(t)
			s := newSystem(t, false)
			s.serveHTTP(nil)
			r := s.ask(c, args, "5")
			if r.Error != "" || (c.name != "python-urllib" && r.ConnectMS >= 0 && r.Peer != "127.77.0.2:5432") {
				t.Errorf("%+v", r)
			}
			if a := s.last(); !a.Direct || a.Errno != 0 {
				t.Errorf("attempt is %+v", a)
			}
		})
	}
}

// A program that has its socket under two numbers can use both.
func TestClientsDuplicated(t *testing.T) {
	python := installed(t, "/usr/bin/python3")
	s := newSystem(t, false)
	s.serveHTTP(nil)
	stdout, stderr := s.run("api", python, "-I", "-c", `
import os, socket
s = socket.socket()
other = os.dup(s.fileno())
s.connect(("127.77.0.2", 5432))
os.write(other, b"GET / HTTP/1.0\r\n\r\n")
print(s.recv(8).decode())`)
	if stdout != "HTTP/1.0\n" || s.last().Direct {
		t.Errorf("%q, %q, attempt %+v", stdout, stderr, s.last())
	}
}

// Redis accepts commands from loopback only as long as it has no password, so this also says what the
// server sees. redis-cli connects twice on one socket.
func TestRedis(t *testing.T) {
	server, cli := installed(t, "/usr/bin/redis-server"), installed(t, "/usr/bin/redis-cli")
	for _, touched := range []bool{false, true} {
		s := newSystem(t, touched)
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		stop := s.start("db", server, "--port", "5432", "--save", "", "--dir", dir, "--protected-mode", "yes")
		until(t, "redis to listen", func() bool { v4, _ := s.ns["db"].Listening(5432); return v4 })
		ask := func(args ...string) string {
			out, errs := s.run("api", append([]string{cli, "-h", "127.77.0.2", "-p", "5432"}, args...)...)
			return strings.TrimSpace(out + errs)
		}
		if out := ask("set", "key", "value"); out != "OK" {
			t.Errorf("set: %q", out)
		}
		if out := ask("get", "key"); out != "value" {
			t.Errorf("get: %q", out)
		}
		if touched {
			id := s.install(fault.Latency, func(e *fault.LinkEffect) { e.Delay, e.Connect = 100*time.Millisecond, true })
			began := time.Now()
			if out := ask("get", "key"); out != "value" {
				t.Errorf("get under latency: %q", out)
			}
			between(t, "answered", time.Since(began), 400*time.Millisecond, 1900*time.Millisecond)
			s.links.Lift(id)
			s.install(fault.Refuse, nil)
		} else {
			stop()
		}
		if out := ask("get", "key"); !strings.Contains(out, "Connection refused") {
			t.Errorf("get without a server: %q", out)
		}
		stop()
	}
}

// psql, by libpq, connects without blocking and tells the system's own words.
func TestPsql(t *testing.T) {
	psql := installed(t, "/usr/lib/postgresql/15/bin/psql")
	for words, arrange := range map[string]func(s *system){
		"Connection refused": func(s *system) { s.install(fault.Refuse, nil) },
		"Connection timed out": func(s *system) {
			s.install(fault.TimeOut, func(e *fault.LinkEffect) { e.Delay = 300 * time.Millisecond })
		},
		"timeout expired": func(s *system) { s.install(fault.Blackhole, nil) },
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, true)
			arrange(s)
			_, errs := s.run("api", psql, "host=127.77.0.2 port=5432 user=x connect_timeout=2", "-c", "select 1")
			if !strings.Contains(errs, words) {
				t.Errorf("psql says %q", errs)
			}
		})
	}
}

// Both the asking and the answering program are supervised: an answer has an address too.
func TestClientsDatagram(t *testing.T) {
	python := installed(t, "/usr/bin/python3")
	script := testdata(t, "udp.py")
	for _, touched := range []bool{false, true} {
		s := newSystem(t, touched)
		stop := s.start("db", python, "-I", script, "serve", "5432")
		until(t, "the server to be there", func() bool { v4, _ := s.ns["db"].Bound(5432); return v4 })
		for _, manner := range []string{"sendto", "sendmsg", "connect"} {
			for _, host := range []string{"127.77.0.2", "127.0.0.1"} {
				out, errs := s.run("api", python, "-I", script, "ask", host, "5432", manner)
				if want := "re: one 5432 re: two 5432"; strings.TrimSpace(out) != want {
					t.Errorf("touched %v, %s, %s: %q, want %q; %s", touched, host, manner, out, want, errs)
				}
			}
		}
		stop()
	}
}
