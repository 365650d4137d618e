package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// chancePython is a service as people write them: what it is asked for shows where a library takes chance from.
const chancePython = `#!/usr/bin/env python3
import random, socket, subprocess, time, uuid

listener = socket.create_server(("", 7000))
while True:
    conn, _ = listener.accept()
    lines = conn.makefile("rw")
    for line in lines:
        word = line.strip()
        if word == "random":
            answer = random.random()
        elif word == "time":
            answer = time.time()
        elif word == "uuid":
            answer = uuid.uuid4()
        elif word == "date":
            answer = subprocess.run(["date"], capture_output=True).returncode
        else:
            answer = "pong"
        lines.write("ok %s\n" % answer)
        lines.flush()
`

const chanceSpec = `determinism(level = "L1", strict = STRICT, allow = ALLOW)
a = service("a", interface("main", "tcp", 7000), binary = "PROGRAM", env = {"PYTHONHASHSEED": "0"})

def body():
    for word in ["random", "time", "uuid", "date"]:
        assert_true(a.send(data = word).body.startswith("ok"), word)

scenario(body)
`

// TestLeaksOfPrograms looks at a Python program and a Go program: what importing random costs, what time shows, and
// how each is made to hold its level.
func TestLeaksOfPrograms(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "service.py")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(python, chancePython)
	for _, c := range []struct{ name, program, strict, allow, want string }{
		{"python", python, "False", `[]`, `1 pass.*`},
		{"python counted", python, "False", `[]`, `rand:\s+a\s+(\d+\s+times|once);\s+children:\s+a\s+once\)`},
		{"python strict", python, "True", `["rand", "clock"]`, `determinism\s+a:\s+a\s+ran\s+another\s+program,\s+\S*/date`},
		{"python held", python, "True", `["rand", "clock", "children"]`, `determinism\s+L1:\s+HELD`},
		{"go", "/proc/self/exe", "True", `["clock"]`, `determinism\s+L1:\s+DEGRADED\(rand:\s+what\s+the\s+vDSO`},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := chanceSpec
			if c.program == python {
				if _, err := os.Stat("/usr/bin/python3"); err != nil {
					t.Skip("needs /usr/bin/python3")
				}
			} else {
				c.program = goChance(t, dir)
			}
			for from, to := range map[string]string{"STRICT": c.strict, "ALLOW": c.allow, "PROGRAM": c.program} {
				spec = regexp.MustCompile(`\b`+from+`\b`).ReplaceAllLiteralString(spec, to)
			}
			path := filepath.Join(dir, "chance.star")
			write(path, spec)
			bin, err := exec.LookPath("squall")
			if err != nil {
				t.Fatal(err)
			}
			run := exec.Command(bin, "test", path)
			run.Dir = dir
			out, _ := run.CombinedOutput() // a FAIL is what some cases want
			if !regexp.MustCompile(c.want).Match(out) {
				t.Errorf("want %s in\n%s", c.want, out)
			}
		})
	}
}

// goChance builds a Go program that uses math/rand and time: both without a system call.
func goChance(t *testing.T, dir string) string {
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "service")
	const text = `package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

func main() {
	l, err := net.Listen("tcp", ":7000")
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		for in := bufio.NewScanner(c); in.Scan(); {
			fmt.Fprintln(c, "ok", rand.Int(), time.Now())
		}
	}
}
`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
