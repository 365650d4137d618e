//go:build linux

package bpf

import "golang.org/x/sys/unix"

const (
	auditArch        = unix.AUDIT_ARCH_AARCH64
	x32Bit    uint32 = 0
)

// ownCalls are those that this machine has and others may lack. Its kernel calls the stat of a path
// newfstatat as others do, under a number that the library files as fstatat.
func ownCalls() map[string]uint32 {
	return map[string]uint32{"renameat": unix.SYS_RENAMEAT, "newfstatat": unix.SYS_FSTATAT}
}
