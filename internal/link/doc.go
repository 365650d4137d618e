// Package link is the data plane: what happens to bytes and datagrams between services.
//
// Its heart is a Stage, a pure state machine for one rule, one flow and one
// direction: it is told what reaches it and when, and says what leaves it and
// when. A Chain composes the stages that are in force. A Network holds the
// rules of one leaf and relays its flows; only the relay has goroutines, a clock
// and sockets.
//
// # Order of composition
//
// Whatever the order in which rules were installed, bytes meet their stages in this order,
// and rules of one rank in the order of their installation:
//
//	sender → loss → duplicate → reorder → bandwidth → latency
//	       → blackhole, half_open, partition → cut → reset → receiver
//
// So a lost datagram is not duplicated; the sender is slowed before the wire
// delays; what a partition withholds has been counted by nobody yet; and cut and
// reset count what was delivered, not what was sent. A stage that is taken away
// hands what it withheld to the next one at once; no other stage notices.
//
// # Direction and silence on streams
//
// A flow has two sockets of the relay: C faces the client, S the server. Where a
// blackhole or partition covers the way up, C gets a socket filter; where it
// covers the way down, S gets one. The filter keeps segments from the socket, so
// the kernel of the sender sees no acknowledgement and keepalive and
// TCP_USER_TIMEOUT run as with a pulled cable. One way (up), with a the client:
//
//	a ──data──▶ ✗ C                  not delivered, not acknowledged: a retransmits
//	a ◀─data─── C ═══ relay ═══ S ◀──data── b
//	a ──ack───▶ ✗ C                  lost too: after a congestion window of segments
//	                                 from b, C falls silent and backs off, as b would
//	                     S ──ack──▶ b   nearer than the truth: b is acknowledged for
//	                                 what the relay took, up to its buffers
//
// The last line is where the relay differs from a real one-way loss: what b sends is
// acknowledged up to the relay's bounded buffers, so b's own TCP_USER_TIMEOUT runs later.
// For the first moments of a silence, until what the relay had sent is acknowledged, bare acknowledgements
// still pass: else the relay's kernel would repeat it, and a repetition is a sign of life. Where a program
// reads slowly, so that the relay has more for it than was sent, this is not done: the acknowledgements
// would let the rest go on. Such a program's keepalive runs later by as long as the relay's kernel repeats.
//
// A half_open withholds both ways but filters C alone: for the client the server
// is gone without a word, while the server's side of the connection looks idle.
//
// Urgent data (MSG_OOB) goes through a relay at its place among the rest, and is not urgent any more.
//
// # When limits, and what counts as fired
//
// On streams the limits of fault.When decide once per connection, when it is opened or,
// for a connection that stands already, when the rule is installed (refuse and timeout leave those out): how bytes are cut into
// reads is not reproducible, the order of connections is. On datagrams they decide once per
// datagram. Nth, After, Every and MaxFires count over all flows of the rule; a
// Probability is drawn per flow (and direction and index, for datagrams), so that flows do not
// disturb one another.
//
// A rule fires only where it acted: bytes delayed or withheld, a connection refused,
// reset or cut, a datagram dropped or doubled. On streams it counts once per connection and
// direction (reset, cut, refuse and timeout once per connection), on datagrams once
// per datagram; latency and bandwidth on datagrams once per flow and direction.
package link
