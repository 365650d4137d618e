package link

import (
	"fmt"

	"github.com/squallhq/squall/fault"
)

// Flow is the identity of a connection: the N-th from Client to an Interface of Server, counted
// from 1 in the order of connecting.
type Flow struct {
	Client, Server, Interface string
	N                         int
}

// String returns client>server.interface#n.
func (f Flow) String() string {
	return fmt.Sprintf("%s>%s.%s#%d", f.Client, f.Server, f.Interface, f.N)
}

// Op says what a Record is about.
type Op string

// The operations of records. The last three concern a rule as a whole.
const (
	OpConnect     Op = "connect"
	OpRefused     Op = "refused"
	OpEstablished Op = "established"
	OpClose       Op = "close"
	OpReset       Op = "reset"
	OpCut         Op = "cut"
	OpStall       Op = "stall"
	OpHeal        Op = "heal"
	OpDrop        Op = "drop"
	OpDuplicate   Op = "duplicate"
	OpReorder     Op = "reorder"
	OpInstalled   Op = "installed"
	OpFired       Op = "fired"
	OpLifted      Op = "lifted"
)

// Record is something worth a line in the event log. Deliveries are not: a rule that acts on many
// makes one OpFired record per flow and direction, with the first of them.
type Record struct {
	Op   Op
	Flow Flow
	// Direction is fault.Up, fault.Down, or "" where both are concerned.
	Direction fault.Direction
	// Bytes are the bytes concerned: those delivered before a cut, those held at a heal, all of them at a close.
	Bytes int64
	// Up and Down are the totals delivered each way, on a close and on a reset.
	Up, Down int64
	// Rule is the rule that acted, or "" where an endpoint did.
	Rule string
	// Index is the datagram's index within its flow and direction.
	Index int64
	// Errno is what the client was told, by name.
	Errno string
	// Count is how often the rule has fired so far.
	Count int
}
