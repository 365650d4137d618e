package spec

import "strings"

// Op is a name that a specification gives to some system calls of a service: what they do for it.
type Op struct {
	// Calls are names of families of calls, or of calls, as they were written.
	Calls []string
	// Path is a glob over the absolute path of the file concerned; "" means any.
	Path     string
	Position string
}

// Volume is a file or directory of the machine that a world shows at another place. All services of a leaf
// see it, and what they write below it is dropped with the leaf.
type Volume struct {
	// Service is the one that asked for it.
	Service string
	// Source is the machine's path, Target the world's; both are absolute.
	Source, Target string
	// ReadOnly refuses writes.
	ReadOnly bool
	Position string
}

// Nondeterminism is a source of chance that a service may use without losing what its runs are worth.
type Nondeterminism string

// The sources of chance.
const (
	Clock     Nondeterminism = "clock"
	Random    Nondeterminism = "rand"
	DNS       Nondeterminism = "dns"
	OutsideIO Nondeterminism = "network-unmediated"
	ForeignFS Nondeterminism = "fs-unmediated"
	Children  Nondeterminism = "children"
)

// Nondeterminisms lists the sources of chance.
func Nondeterminisms() []Nondeterminism {
	return []Nondeterminism{Clock, Random, DNS, OutsideIO, ForeignFS, Children}
}

// Determinism is a contract on how reproducible leaves are.
type Determinism struct {
	// Level is L0 or L1; "" stands for L1 that nobody asked for.
	Level string
	// Strict fails a leaf at the first use of a source of chance that is not allowed.
	Strict bool
	// Allow are the sources that every service may use.
	Allow []Nondeterminism
}

// Variable begins the names of the variables that tell programs where an interface of the service is:
// SQUALL_DB_PG_ with ADDR, HOST and PORT behind it.
func (s *Service) Variable(i *Interface) string {
	name := "SQUALL_" + s.Name + "_" + i.Name + "_"
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
