// Package dial answers what a supervised program's connect leads to.
//
// A Resolver says, from the calling service and the address, where a connection
// goes: the program's own listener, a declared interface of a service, or nowhere. A
// Dialer carries that out on a duplicate of the program's own socket:
//
//   - direct: a socket made in the server's network namespace and connected there
//     takes the place of the program's; no relay exists. Where that would not do, since the program's is
//     in an epoll set or has two descriptors, the link is mediated.
//   - mediated: the peer is dialed in the server's namespace, then the duplicate is
//     connected to a relay listener in its own namespace, from the same address and
//     port, so that both programs agree on who talks to whom.
//   - held: where a rule keeps the opening back, the duplicate is connected to a
//     listener that drops everything, so the program's socket sits in SYN_SENT as it
//     would on a real network. Its SYN is kept and let in again, or answered with RST
//     or an ICMP error, when the rule says so.
//
// A Dialer works on descriptors only. It knows nothing of system call interception,
// so it is tested without it.
//
// Locks: a Dialer's table, each relay listener and each datagram relay have one mutex
// each; none is held while another is taken, and none across a wait for a program.
package dial
