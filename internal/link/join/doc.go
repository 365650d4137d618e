// Package join lets the kernel carry a connection's bytes past the relay while nothing is to happen to them.
//
// The four sockets of a mediated connection are the client program's, the relay's two, and the server program's. A
// Lane is one direction. Its source is the sending program's own socket, its target the relay's socket that leads
// to the receiver. A program in the kernel (BPF_SK_MSG_VERDICT) sees each send on the source. While the lane's gate is
// open it sends the message out on the target instead, within the sender's own system call; so the receiver gets
// it by plain TCP from the same socket that the relay writes to. While the gate is shut the message goes to the relay.
//
// No received byte ever lies anywhere but in a TCP receive queue, so a socket that leaves loses nothing.
//
// Order. Redirecting is synchronous: what was redirected is ahead of whatever is sent later, however that goes. The
// other way round the gate is a word that counts the bytes that the kernel let pass to the relay. It is opened by one
// compare-and-swap from exactly the number that the relay has delivered, so nothing can be on its way then.
//
// Room. What a lane may take from one opening to the next is far less than the target's send buffer has room
// for, so a redirected send neither blocks nor fails where the sender's socket says that it is writable. A
// receiver that does not read is felt as through the relay: the lane's budget is used up, and what follows passes.
//
// A source answers some calls of its program otherwise than plain TCP: FIONREAD finds nothing, and in a blocked recv a
// signal may end in EAGAIN. So only non-blocking sockets become sources, and who supervises the programs calls Plain
// before such a call takes effect.
package join
