// Package protocol is what Squall has to know of a wire protocol.
//
// Each protocol is a folder beside this file with the same file names; the list
// of all is protocol/all. What a protocol can do beyond the required methods is
// found by assertion.
package protocol

import (
	"context"
	"net"

	"github.com/squallhq/squall/spec"
)

// Protocol is one wire protocol.
type Protocol interface {
	Info() Info
	// Client returns a client whose connections are made by dial; target is for messages only.
	Client(dial Dialer, target spec.Target) Client
}

// Dialer makes a connection to the interface that a client is for, inside its service's network.
type Dialer func(ctx context.Context) (net.Conn, error)

// Client takes steps. One step is in flight at a time.
type Client interface {
	// Do takes a step. A refusal, a time-out or an error answer is a Response with OK false;
	// an error is for a step that cannot be taken at all, such as a missing argument.
	Do(ctx context.Context, op spec.Operation) (spec.Response, error)
	Close() error
}

// Info describes a protocol.
type Info struct {
	Name string
	Doc  string
	// Datagram says that it runs over UDP.
	Datagram bool
	Methods  []Method
	// Messages is what rules can do to its messages; nil where they can't be told apart. The list of all
	// protocols fills it in.
	Messages *Messages
}

// Method is a step that a client can take.
type Method struct {
	Name   string
	Doc    string
	Params []Param
}

// Param is an argument of a method.
type Param struct {
	Name string
	// Type is string, int, bytes or map.
	Type     string
	Required bool
	Doc      string
}
