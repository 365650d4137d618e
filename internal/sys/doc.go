// Package sys makes the raw system calls that supervision needs and that no library offers.
//
// Everything here is mechanism: seccomp filters and their listeners, descriptors and memory of other
// processes, and a fork whose child installs a filter before it runs a program. It knows nothing of
// faults. It is empty on systems other than Linux.
package sys
