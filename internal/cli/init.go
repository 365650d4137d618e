package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

type initCmd struct {
	Binary   string `arg:"" help:"The program to be tested."`
	Name     string `help:"The service's name; the program's if not given." placeholder:"NAME"`
	Port     int    `help:"Where it listens." default:"8080"`
	Protocol string `help:"What it speaks." enum:"http,tcp" default:"http"`
	Output   string `short:"o" help:"Where to write the specification; NAME.star if not given; - for standard output." placeholder:"FILE"`
	Force    bool   `help:"Overwrite an existing file."`
}

// Run implements the command.
func (c *initCmd) Run(e *env) error {
	name := c.Name
	if name == "" {
		name = identifier(filepath.Base(c.Binary))
	}
	out := c.Output
	if out == "" {
		out = name + ".star"
	}
	text := c.spec(name, out)
	if out == "-" {
		fmt.Fprint(e.stdout, text)
		return nil
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(out, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("squall: %s exists already; choose another name with -o, or overwrite it with --force", out)
	}
	if err != nil {
		return fmt.Errorf("squall: write: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("squall: write: %w", err)
	}
	fmt.Fprintf(e.stdout, "%s\nnext: squall check %s, then squall test %s\n", out, out, out)
	return nil
}

// identifier makes a Starlark name of a file name.
func identifier(s string) string {
	s = strings.TrimSuffix(s, filepath.Ext(s))
	s = strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "svc_" + s
	}
	return s
}

// spec is a first specification: one service, one scenario, two faults, one matrix.
func (c *initCmd) spec(name, out string) string {
	binary := c.Binary
	if out != "-" && !filepath.IsAbs(binary) && strings.Contains(binary, "/") {
		if rel, err := filepath.Rel(filepath.Dir(out), binary); err == nil {
			binary = rel
		}
	}
	health, step, expect := fmt.Sprintf(`http("localhost:%d/")`, c.Port), `get(path = "/")`, "assert_eq(r.status, 200)"
	if c.Protocol == "tcp" {
		health, step, expect = fmt.Sprintf(`tcp("localhost:%d")`, c.Port), `send(data = "PING")`, "assert_true(r.ok)"
	}
	return fmt.Sprintf(`# %[1]s under faults. Run it: squall test %[1]s.star

# The program, where it listens, and how it shows that it is ready.
%[1]s = service("%[1]s",
    interface("main", "%[3]s", %[4]d),
    binary = "%[2]s",
    healthcheck = %[5]s,
)

# A flow that matters. It returns what it got; the expectations below judge that.
def ask():
    return %[1]s.main.%[6]s

scenario(ask)

# What can go wrong. A fault that never acts makes its leaf INCONCLUSIVE, never PASS:
# optional = True says that it may stay away.
disk_full = fault_assumption("disk_full",
    target = %[1]s,
    write = deny("ENOSPC", optional = True),
)
slow_disk = fault_assumption("slow_disk",
    target = %[1]s,
    fsync = delay("200ms", optional = True),
)

# Every scenario under every fault, and once without any.
fault_matrix(
    scenarios = [ask],
    faults = [disk_full, slow_disk],
    default_expect = lambda r: %[7]s,
)
`, name, binary, c.Protocol, c.Port, health, step, expect)
}
