// Package transfer makes system calls that move bytes come up short: it moves fewer bytes in a program's place.
//
// The bytes go through a duplicate of the program's descriptor, which shares its offset and its flags, so the
// file or the connection is as after a short call of the program itself. Nothing here waits: what could block
// is found out by Look, and waited for by Ready. Whatever it can't cut short it leaves alone, and the call is then made by the
// kernel: datagrams, urgent data, descriptors that travel as control data, terminals.
package transfer
