// Package fault says what can go wrong: rules, each a match and an effect.
//
// A rule is plain data. What it does to a call or to a connection is decided by
// internal/inject, a pure function, and carried out by internal/intercept and
// internal/link.
package fault

import (
	"fmt"
	"strings"
	"time"
)

// Rule is a match and an effect. Exactly one of Syscall, Link, Message and Process is set.
type Rule struct {
	// ID is stable from run to run; draws and records are keyed by it: "disk_full/write".
	ID string `json:"id"`
	// Assumption is the named fault that the rule belongs to, or "" for one made in a body.
	Assumption string   `json:"assumption,omitempty"`
	Syscall    *Syscall `json:"syscall,omitempty"`
	Link       *Link    `json:"link,omitempty"`
	Message    *Message `json:"message,omitempty"`
	Process    *Process `json:"process,omitempty"`
	When       When     `json:"when"`
	// Optional rules may never fire without harm to a PASS.
	Optional bool `json:"optional,omitempty"`
	// During says when it is in force: "body" (or "") or "start", from before the programs run.
	During string `json:"during,omitempty"`
	// Position is file:line:column in the spec.
	Position string `json:"position,omitempty"`
}

// When limits how often a matching operation is hit. The zero value hits every one.
type When struct {
	// Probability in (0, 1]; 0 means 1.
	Probability float64 `json:"probability,omitempty"`
	// Nth hits the n-th match only, counting from 1; After skips so many; Every hits each n-th.
	Nth   int `json:"nth,omitempty"`
	After int `json:"after,omitempty"`
	Every int `json:"every,omitempty"`
	// MaxFires ends the rule after so many hits; 0 means no limit.
	MaxFires int `json:"max_fires,omitempty"`
	// Exhaustive has the first MaxFires matches decided by leaves, one for each way in which they can be hit and
	// spared, instead of drawn with Probability; later ones are spared.
	Exhaustive bool `json:"exhaustive,omitempty"`
}

// Syscall is a rule on system calls of one service.
type Syscall struct {
	Service string `json:"service"`
	// Family is the name that the spec used: a family of Families, or one call.
	Family string `json:"family"`
	// Calls are the system calls concerned, by their kernel names.
	Calls []string `json:"calls"`
	// On lists the kinds of descriptor that the rule applies to; empty means any.
	On []Descriptor `json:"on,omitempty"`
	// Path is a glob over the file's absolute path ("*" does not cross "/", "**" does); "" means any.
	Path string `json:"path,omitempty"`
	// Errno is the error to give, by name; "" for a rule that only delays.
	Errno string `json:"errno,omitempty"`
	// Delay is how long the call is held before it goes on, or before it fails with Errno.
	Delay time.Duration `json:"delay_ns,omitempty"`
	// Partial has the call move so many bytes at most; one that would not move more is no match. 0 means all.
	Partial int64 `json:"partial,omitempty"`
	// Hold has the call wait until the rule lets it go or is lifted.
	Hold bool `json:"hold,omitempty"`
	// Crash ends the service instead of making the call, or once Partial bytes are moved.
	Crash bool `json:"crash,omitempty"`
	// Link limits it to sockets that are connected so; nil means any.
	Link *Pair `json:"link,omitempty"`
}

// Descriptor is what a file descriptor leads to.
type Descriptor string

// The kinds of descriptor.
const (
	File   Descriptor = "file"
	Socket Descriptor = "socket"
	Pipe   Descriptor = "pipe"
	TTY    Descriptor = "tty"
	Other  Descriptor = "other"
)

// Link is a rule on the connections between services.
type Link struct {
	Pair Pair `json:"pair"`
	// Direction chooses the bytes concerned.
	Direction Direction  `json:"direction"`
	Effect    LinkEffect `json:"effect"`
}

// Pair chooses connections by their two ends.
type Pair struct {
	// A and B are services; "" stands for any. Where Directed, A must be the one that connects.
	A string `json:"a"`
	B string `json:"b"`
	// Interface limits it to one interface of the connected side; "" means each.
	Interface string `json:"interface,omitempty"`
	Directed  bool   `json:"directed,omitempty"`
}

// Matches reports whether a connection from client to an interface of server is chosen.
func (p Pair) Matches(client, server, iface string) bool {
	if p.Interface != "" && p.Interface != iface {
		return false
	}
	fits := func(want, got string) bool { return want == "" || want == got }
	if fits(p.A, client) && fits(p.B, server) {
		return true
	}
	return !p.Directed && fits(p.A, server) && fits(p.B, client)
}

// Direction is a way through a connection. AToB and BToA follow the Pair, whoever connected;
// Up is from the client to the server, Down from the server to the client.
type Direction string

// The directions.
const (
	Both Direction = "both"
	AToB Direction = "a_to_b"
	BToA Direction = "b_to_a"
	Up   Direction = "up"
	Down Direction = "down"
)

// Covers reports whether a rule with direction d over pair p acts on the given way (Up or Down) of
// a connection that client made.
func (d Direction) Covers(p Pair, client string, way Direction) bool {
	switch d {
	case Both, "":
		return true
	case Up, Down:
		return d == way
	}
	clientIsA := p.A == client || (p.A == "" && p.B != client)
	return clientIsA == ((d == AToB) == (way == Up))
}

// LinkKind is what is done to a connection; LinkKinds has one row for each.
type LinkKind string

// The kinds of link effect.
const (
	Latency   LinkKind = "latency"
	Bandwidth LinkKind = "bandwidth"
	Reset     LinkKind = "reset"
	Refuse    LinkKind = "refuse"
	TimeOut   LinkKind = "timeout"
	Blackhole LinkKind = "blackhole"
	HalfOpen  LinkKind = "half_open"
	Cut       LinkKind = "cut"
	Partition LinkKind = "partition"
	Loss      LinkKind = "loss"
	Duplicate LinkKind = "duplicate"
	Reorder   LinkKind = "reorder"
)

// LinkEffect is the effect of a link rule. Which fields count depends on Kind, see LinkKinds.
type LinkEffect struct {
	Kind LinkKind `json:"kind"`
	// Delay is the latency one way, or how long a timeout waits.
	Delay time.Duration `json:"delay_ns,omitempty"`
	// Jitter is added to Delay, drawn uniformly from [0, Jitter).
	Jitter time.Duration `json:"jitter_ns,omitempty"`
	// Connect makes latency hold the connection's opening too.
	Connect bool `json:"connect,omitempty"`
	// BytesPerSecond is the bandwidth.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
	// AfterBytes lets so many bytes of the direction pass first.
	AfterBytes int64 `json:"after_bytes,omitempty"`
	// How says how a cut ends: "fin" or "rst".
	How string `json:"how,omitempty"`
	// Probability hits so many datagrams, in (0, 1].
	Probability float64 `json:"probability,omitempty"`
	// Count is how many extra copies are made, or how many datagrams later one arrives.
	Count int `json:"count,omitempty"`
}

// Target returns the service that the rule acts on, or the pair's two ends.
func (r Rule) Target() string {
	if r.Syscall != nil {
		return r.Syscall.Service
	}
	if r.Message != nil {
		return r.Message.target()
	}
	if r.Process != nil {
		return r.Process.Service
	}
	if r.Link == nil {
		return ""
	}
	return r.Link.Pair.String()
}

// Effect says what the rule does in the words of the spec, for records and reports.
func (r Rule) Effect() string {
	if s := r.Syscall; s != nil {
		return s.effect()
	}
	if r.Message != nil {
		return r.Message.effect()
	}
	if r.Process != nil {
		return r.Process.effect()
	}
	if r.Link == nil {
		return "nothing"
	}
	e := r.Link.Effect
	var args []string
	add := func(ok bool, format string, v any) {
		if ok {
			args = append(args, fmt.Sprintf(format, v))
		}
	}
	add(e.Delay > 0, "%q", e.Delay.String())
	add(e.Jitter > 0, "jitter=%q", e.Jitter.String())
	add(e.BytesPerSecond > 0, "%dB/s", e.BytesPerSecond)
	add(e.AfterBytes > 0, "after_bytes=%d", e.AfterBytes)
	add(e.How != "", "how=%q", e.How)
	add(e.Probability > 0, "probability=%g", e.Probability)
	add(e.Count > 0, "count=%d", e.Count)
	add(r.Link.Direction != "" && r.Link.Direction != Both, "direction=%q", string(r.Link.Direction))
	return fmt.Sprintf("%s(%s)", e.Kind, strings.Join(args, ", "))
}
