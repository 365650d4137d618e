// Package inject decides what happens to a system call: a pure function of the rules in force, how
// often each has matched, the seed and the call.
//
// It touches no kernel, clock or file, so it is tested by tables and used again by replay. The
// order of decisions: rules are asked in the order of their installation; the first one that hits
// decides. A rule that matches but whose When spares the call lets the next one be asked. Every
// match takes the next index of its (rule, service), and a draw is keyed by that index, so what
// other rules, services and links do never changes it.
package inject

import (
	"time"

	"github.com/squallhq/squall/fault"
)

// Call is a system call as a rule sees it.
type Call struct {
	// Service is whose call it is.
	Service string
	// Name is the call, by its kernel name.
	Name string
	// Descriptor is the kind of its descriptor; "" where it has none or where Needs did not ask.
	Descriptor fault.Descriptor
	// Path is the absolute path of its file; "" where there is none or where Needs did not ask.
	Path string
	// Other is the second path of a call that has two, such as the new name of a file.
	Other string
	// Size is how many bytes it would move; 0 where that can't be cut short or where Needs did not ask.
	Size int64
	// Peer is whom its socket is connected with; nil where it is not known or where Needs did not ask.
	Peer *Peer
	// Thread and Args name the call again when a signal withdrew it and the thread reissues it.
	Thread int
	Args   [6]uint64
}

// Peer is the connection of a socket: who connected, to which interface of whom.
type Peer struct{ Client, Server, Interface string }

// Verb is what becomes of a call.
type Verb string

// The verbs. Deny may come with a Delay before it.
const (
	Allow Verb = "allow"
	Deny  Verb = "deny"
	Delay Verb = "delay"
	// Partial moves some of the call's bytes, Hold keeps it until it is let go.
	Partial Verb = "partial"
	Hold    Verb = "hold"
	// Crash ends the service, once Bytes bytes of the call are moved where that is not 0.
	Crash Verb = "crash"
)

// Decision is the answer for one call.
type Decision struct {
	Verb Verb
	// Errno is the error's number, for Deny.
	Errno int
	// Delay is how long to hold the call before it goes on or fails.
	Delay time.Duration
	// Bytes is how many bytes to move at most, for Partial.
	Bytes int64
	// Size is the call's, when it was decided.
	Size int64
	// Moved is set where that was done but the program did not get to know: it is to be answered, and
	// nothing moved again.
	Moved int64
	// Told is set where it has been written down already that the call is held.
	Told bool
	// Rule is the rule that decided; "" where none did.
	Rule string
	// Index is how many calls that rule had matched on this service, from 1.
	Index int64

	// matched tells that the call has taken an index from at least one rule.
	matched bool
}

// Needs says what a caller has to find out about a call before it asks for a decision.
type Needs struct {
	// Decide is false where no rule in force can concern the call: it goes on at once.
	Decide bool
	// Descriptor and Path tell whether a rule looks at these.
	Descriptor, Path bool
	// Size and Peer likewise.
	Size, Peer bool
}

// Fill returns a rule's match with what the spec left open taken from the table of families: the
// calls, and the kinds of descriptor that the family means by default. A spec that asks for any
// kind must not be filled.
func Fill(s fault.Syscall) fault.Syscall {
	f, ok := fault.FamilyOf(s.Family)
	if !ok {
		return s
	}
	if len(s.Calls) == 0 {
		s.Calls = f.Calls
	}
	if len(s.On) == 0 {
		s.On = f.On
	}
	return s
}
