// Package bpf compiles a subscription into a seccomp filter.
//
// A filter is a classic BPF program that the kernel runs on every system call of the program and of its children. It
// sees the call's number and arguments, not the memory they point to. Calls that the subscription does not name
// are allowed whatever their arguments; the kernel finds these when the filter is installed and answers them
// from a bitmap, without running the program.
//
// Calls through another table than the machine's own (32-bit programs, x32) get ENOSYS. They have other numbers
// and other layouts in memory; letting them pass would let a program slip past every rule, and stopping at
// them would need a second decoder of everything. A 32-bit program dies at its start: that is seen, not silent.
//
// With connect in the subscription, sending with MSG_FASTOPEN gets EOPNOTSUPP, as from a kernel where it is switched
// off: it is a connect under another name, and programs fall back to the plain one.
package bpf
