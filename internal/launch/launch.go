// Package launch builds the world of a leaf and takes it down again.
//
// There are two sides. Outside, a Launcher starts a world process: this program, executed again
// in namespaces of its own, as PID 1. Inside, that process calls Enter as the first thing in
// main, then Setup (files), NewNetwork (one for each service) and NewReaper (children).
// Killing PID 1 ends every process of the world; namespaces and mounts go with the last one.
//
// Where namespaces are forbidden (ModeShared) the same calls work on the machine's own files
// and network: see the fields and methods for what is then missing. A guard process between
// outside and world takes over what the kernel does elsewhere, ending all descendants.
package launch

import "errors"

// Mode says what a world is made of.
type Mode string

const (
	// ModeNamespaces: the world has its own PID, mount, UTS, IPC and network namespaces, and a user
	// namespace when the caller lacks the privilege.
	ModeNamespaces Mode = "namespaces"
	// ModeShared: no namespace; files and network are the machine's.
	ModeShared Mode = "shared"
)

var (
	// ErrNoNamespaces is wrapped by errors that mean that this machine refuses namespaces.
	ErrNoNamespaces = errors.New("namespaces are not available")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("closed")
)

// Exit says how a world process ended.
type Exit struct {
	// Code is the exit code, or 128 plus the number of the signal that ended it.
	Code int
	// Signal is the name of the signal that ended it, or empty.
	Signal string
}

// Finding is one thing that Probe tried.
type Finding struct {
	// Name is the thing's, OK says that it works, Detail says more.
	Name   string
	OK     bool
	Detail string
	// Without says what is worse where it does not work, Mend what would change that.
	Without, Mend string
}

// Report is what a machine allows worlds to be.
type Report struct {
	// Namespaces says that ModeNamespaces works.
	Namespaces bool
	Findings   []Finding
}

const (
	// modeVariable tells the re-executed program that it is a world; it never reaches the world's programs.
	modeVariable = "SQUALL_WORLD"

	controlFD  = 3
	eventsFD   = 4
	lifelineFD = 5
	extraFD    = 6
)
