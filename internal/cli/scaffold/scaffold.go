// Package scaffold writes first specifications: for a program, from an OpenAPI document, from a compose
// file. It is text in, text out.
package scaffold

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Service is what a specification is written about.
type Service struct {
	Name string
	// Binary is the program; Note is a remark about it for the reader.
	Binary, Note string
	Interfaces   []Interface
	Args         []string
	Env          [][2]string
	DependsOn    []string
	// Health is the path of a GET that shows it is ready, where that is known.
	Health string
}

// Interface is a place where a service listens.
type Interface struct {
	Name, Protocol string
	Port           int
}

// Scenario is a flow: one step against an interface, and what its result r must be.
type Scenario struct {
	Name, Doc string
	// Step is the call, such as api.main.get(path = "/").
	Step   string
	Expect string
}

// Name makes a Starlark name of any text.
func Name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "svc_" + s
	}
	if slices.Contains(keywords(), s) {
		s += "_"
	}
	return s
}

// keywords are words that Starlark keeps, and builtins that a service's name would hide.
func keywords() []string {
	return []string{
		"and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
		"in", "is", "lambda", "load", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
		"service", "interface", "scenario", "tcp", "http", "fault", "events", "monitor", "match", "test",
	}
}

// ProgramName makes a service's name of a program's path.
func ProgramName(path string) string {
	base := filepath.Base(path)
	return Name(strings.TrimSuffix(base, filepath.Ext(base)))
}

// ProtocolOf guesses what is spoken on a port.
func ProtocolOf(port int) string {
	switch port {
	case 80, 3000, 5000, 8000, 8080, 8081, 8888, 9090:
		return "http"
	}
	return "tcp"
}

// Program is the specification for one program of which only the port is known.
func Program(s Service) string {
	i := s.Interfaces[0]
	sc := Scenario{Name: "ask", Step: fmt.Sprintf("%s.%s.get(path = \"/\")", s.Name, i.Name), Expect: "assert_eq(r.status, 200)"}
	if i.Protocol != "http" {
		sc.Step, sc.Expect = fmt.Sprintf("%s.%s.send(data = \"PING\")", s.Name, i.Name), "assert_true(r.ok)"
	}
	return Write(s.Name, []Service{s}, []Scenario{sc})
}

// Write writes a specification: services, scenarios, two faults for each service that may have files, and one matrix.
func Write(name string, services []Service, scenarios []Scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %[1]s under faults. Run it: squall test %[1]s.star\n\n", name)
	for _, s := range order(services) {
		writeService(&b, s)
	}
	b.WriteString("# Flows that matter. Each returns what it got; the expectations below judge that.\n")
	for _, s := range scenarios {
		fmt.Fprintf(&b, "def %s():\n", s.Name)
		if s.Doc != "" {
			fmt.Fprintf(&b, "    %s\n", quote(s.Doc))
		}
		fmt.Fprintf(&b, "    return %s\n\n", s.Step)
	}
	for _, s := range scenarios {
		fmt.Fprintf(&b, "scenario(%s)\n", s.Name)
	}
	writeFaults(&b, services, scenarios)
	return b.String()
}

func writeService(b *strings.Builder, s Service) {
	b.WriteString("# The program, where it listens, and how it shows that it is ready.\n")
	if s.Note != "" {
		fmt.Fprintf(b, "# %s\n", s.Note)
	}
	fmt.Fprintf(b, "%s = service(%s,\n", s.Name, quote(s.Name))
	for _, i := range s.Interfaces {
		fmt.Fprintf(b, "    interface(%s, %s, %d),\n", quote(i.Name), quote(i.Protocol), i.Port)
	}
	fmt.Fprintf(b, "    binary = %s,\n", quote(s.Binary))
	if len(s.Args) > 0 {
		fmt.Fprintf(b, "    args = [%s],\n", quoteAll(s.Args))
	}
	if len(s.Env) > 0 {
		b.WriteString("    env = {\n")
		for _, kv := range s.Env {
			fmt.Fprintf(b, "        %s: %s,\n", quote(kv[0]), quote(kv[1]))
		}
		b.WriteString("    },\n")
	}
	if len(s.DependsOn) > 0 {
		fmt.Fprintf(b, "    depends_on = [%s],\n", strings.Join(s.DependsOn, ", "))
	}
	if len(s.Interfaces) > 0 {
		i := s.Interfaces[0]
		if i.Protocol == "http" {
			fmt.Fprintf(b, "    healthcheck = http(%s),\n", quote(fmt.Sprintf("localhost:%d%s", i.Port, orElse(s.Health, "/"))))
		} else {
			fmt.Fprintf(b, "    healthcheck = tcp(%s),\n", quote(fmt.Sprintf("localhost:%d", i.Port)))
		}
	}
	b.WriteString(")\n\n")
}

func writeFaults(b *strings.Builder, services []Service, scenarios []Scenario) {
	b.WriteString(`
# What can go wrong. A fault that never acts makes its leaf INCONCLUSIVE, never PASS:
# optional = True says that it may stay away.
`)
	var faults []string
	for _, s := range services {
		prefix := ""
		if len(services) > 1 {
			prefix = s.Name + "_"
		}
		fmt.Fprintf(b, "%[1]sdisk_full = fault_assumption(\"%[1]sdisk_full\",\n    target = %[2]s,\n    write = deny(\"ENOSPC\", optional = True),\n)\n", prefix, s.Name)
		fmt.Fprintf(b, "%[1]sslow_disk = fault_assumption(\"%[1]sslow_disk\",\n    target = %[2]s,\n    fsync = delay(\"200ms\", optional = True),\n)\n", prefix, s.Name)
		faults = append(faults, prefix+"disk_full", prefix+"slow_disk")
		for _, d := range s.DependsOn {
			name := fmt.Sprintf("%s_without_%s", s.Name, d)
			fmt.Fprintf(b, "%[1]s = fault_assumption(\"%[1]s\",\n    rules = [partition(%[2]s, %[3]s, optional = True)],\n)\n", name, s.Name, d)
			faults = append(faults, name)
		}
	}
	var names []string
	for _, s := range scenarios {
		names = append(names, s.Name)
	}
	fmt.Fprintf(b, `
# Every scenario under every fault, and once without any.
fault_matrix(
    scenarios = [%s],
    faults = [%s],
    default_expect = lambda r: %s,
`, strings.Join(names, ", "), strings.Join(faults, ", "), commonExpect(scenarios))
	b.WriteString(")\n")
}

// commonExpect is what holds of every scenario.
func commonExpect(scenarios []Scenario) string {
	first := scenarios[0].Expect
	for _, s := range scenarios {
		if s.Expect != first {
			return "assert_true(r != None)"
		}
	}
	return first
}

// order puts services behind those that they depend on, and otherwise leaves them as they are.
func order(services []Service) []Service {
	var out []Service
	placed := map[string]bool{}
	var place func(s Service, deep int)
	place = func(s Service, deep int) {
		if placed[s.Name] || deep > len(services) {
			return
		}
		for _, d := range s.DependsOn {
			if i := slices.IndexFunc(services, func(o Service) bool { return o.Name == d }); i >= 0 {
				place(services[i], deep+1)
			}
		}
		if !placed[s.Name] {
			placed[s.Name] = true
			out = append(out, s)
		}
	}
	for _, s := range services {
		place(s, 0)
	}
	return out
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + `"`
}

func quoteAll(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, quote(s))
	}
	return strings.Join(out, ", ")
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
