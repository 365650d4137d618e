//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
)

// ErrUnknownCall is wrapped by Compile's error for a name that no machine has.
var ErrUnknownCall = errors.New("unknown system call")

// The answers of a filter.
const (
	Allow  uint32 = unix.SECCOMP_RET_ALLOW
	Notify uint32 = unix.SECCOMP_RET_USER_NOTIF
	// NoSuchCall is ENOSYS and NotSupported is EOPNOTSUPP.
	NoSuchCall   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	NotSupported = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
)

// Offsets in struct seccomp_data; both machines are little-endian, so an argument's low half comes first.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

const (
	solSocket  = 1
	soError    = 4
	soPeerName = 28
	fionbio    = 0x5421
)

// Compile returns the filter of a subscription.
func Compile(sub intercept.Subscription) ([]unix.SockFilter, error) {
	whole, connects, err := numbers(sub)
	if err != nil {
		return nil, err
	}
	p := &program{}
	p.load(offArch)
	p.jumpUnless(unix.BPF_JEQ, auditArch, 1, NoSuchCall)
	p.load(offNr)
	if x32Bit != 0 {
		p.retIf(unix.BPF_JGE, x32Bit, NoSuchCall)
	}
	if connects {
		p.fastOpen(callNumbers()["sendto"], 3)
		p.fastOpen(callNumbers()["sendmsg"], 2)
		p.fastOpen(callNumbers()["sendmmsg"], 3)
	}
	for _, name := range []string{"write", "writev"} {
		if nr := callNumbers()[name]; sub.Output && !slices.Contains(whole, nr) {
			p.output(nr)
		}
	}
	if nr := callNumbers()["mmap"]; sub.SharedMappings && !slices.Contains(whole, nr) {
		p.sharedMapping(nr)
	}
	if nr := callNumbers()["sendto"]; sub.Addressed && !slices.Contains(whole, nr) {
		p.addressed(nr)
	}
	if nr := callNumbers()["getsockopt"]; sub.Getsockopt && !slices.Contains(whole, nr) {
		p.getsockopt(nr)
	}
	if sub.Sockets {
		p.sockets(whole)
	}
	p.leaks(sub, whole)
	p.search(whole)
	return p.code, nil
}

// numbers returns the calls to stop at always, in order, and whether connect is among them.
func numbers(sub intercept.Subscription) ([]uint32, bool, error) {
	table := callNumbers()
	names := slices.Concat(sub.Calls, always(sub))
	set := map[uint32]bool{}
	for _, name := range names {
		if nr, ok := table[name]; ok {
			set[nr] = true
			continue
		}
		if !slices.Contains(elsewhere(), name) {
			return nil, false, fmt.Errorf("bpf: %q: %w", name, ErrUnknownCall)
		}
	}
	var whole []uint32
	for nr := range set {
		whole = append(whole, nr)
	}
	slices.Sort(whole)
	return whole, set[table["connect"]], nil
}

// program is a filter in the making. The call's number is in the accumulator between its parts.
type program struct{ code []unix.SockFilter }

func (p *program) add(op uint16, k uint32, jt, jf uint8) {
	p.code = append(p.code, unix.SockFilter{Code: op, Jt: jt, Jf: jf, K: k})
}

func (p *program) load(off uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, off, 0, 0) }

func (p *program) ret(answer uint32) { p.add(unix.BPF_RET|unix.BPF_K, answer, 0, 0) }

func (p *program) jump(op uint16, k uint32, jt, jf uint8) {
	p.add(unix.BPF_JMP|op|unix.BPF_K, k, jt, jf)
}

// retIf answers where the test holds.
func (p *program) retIf(op uint16, k, answer uint32) {
	p.jump(op, k, 0, 1)
	p.ret(answer)
}

// jumpUnless answers where the test fails.
func (p *program) jumpUnless(op uint16, k uint32, skip uint8, answer uint32) {
	p.jump(op, k, skip, 0)
	p.ret(answer)
}

// argument is the offset of an argument's low half.
func argument(i uint32) uint32 { return offArgs + 8*i }

// fastOpen refuses a send whose flags, argument i, open a connection.
func (p *program) fastOpen(nr, i uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 4)
	p.load(argument(i))
	p.retIf(unix.BPF_JSET, unix.MSG_FASTOPEN, NotSupported)
	p.load(offNr)
}

// addressed stops at sendto where its fifth argument, the address, is not null.
func (p *program) addressed(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 7)
	p.load(argument(4))
	p.retIf(unix.BPF_JSET, ^uint32(0), Notify)
	p.load(argument(4) + 4)
	p.retIf(unix.BPF_JSET, ^uint32(0), Notify)
	p.ret(Allow)
}

// output stops at a write to standard output or error. A descriptor is an int: the kernel ignores its high half.
func (p *program) output(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 6)
	p.load(argument(0))
	p.retIf(unix.BPF_JEQ, 1, Notify)
	p.retIf(unix.BPF_JEQ, 2, Notify)
	p.ret(Allow)
}

// sharedMapping stops at mmap of a file, shared and writable.
func (p *program) sharedMapping(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 8)
	p.load(argument(2))
	p.jump(unix.BPF_JSET, unix.PROT_WRITE, 0, 5)
	p.load(argument(3))
	p.jump(unix.BPF_JSET, unix.MAP_ANONYMOUS, 3, 0)
	p.retIf(unix.BPF_JSET, unix.MAP_SHARED, Notify)
	p.ret(Allow)
	p.ret(Allow)
}

// getsockopt stops at the two options that would tell a program of its relay. Both arguments are ints: the
// kernel ignores their high halves.
func (p *program) getsockopt(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 7)
	p.load(argument(1))
	p.jump(unix.BPF_JEQ, solSocket, 0, 4)
	p.load(argument(2))
	p.jump(unix.BPF_JEQ, soError, 1, 0)
	p.jump(unix.BPF_JEQ, soPeerName, 0, 1)
	p.ret(Notify)
	p.ret(Allow)
}

// sockets stops at what Subscription.Sockets says, where that is not stopped at anyway.
func (p *program) sockets(whole []uint32) {
	parts := map[string]func(uint32){"fcntl": p.fcntl, "ioctl": p.ioctl, "setsockopt": p.setsockopt}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if nr := callNumbers()[name]; !slices.Contains(whole, nr) {
			parts[name](nr)
		}
	}
}

// ioctl stops at two requests; the kernel ignores the argument's high half.
func (p *program) ioctl(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 5)
	p.load(argument(1))
	p.jump(unix.BPF_JEQ, unix.TIOCINQ, 1, 0)
	p.jump(unix.BPF_JEQ, fionbio, 0, 1)
	p.ret(Notify)
	p.ret(Allow)
}

// fcntl stops at what makes a descriptor blocking.
func (p *program) fcntl(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 6)
	p.load(argument(1))
	p.jump(unix.BPF_JEQ, unix.F_SETFL, 0, 3)
	p.load(argument(2))
	p.jump(unix.BPF_JSET, unix.O_NONBLOCK, 1, 0)
	p.ret(Notify)
	p.ret(Allow)
}

// setsockopt stops at two options.
func (p *program) setsockopt(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 9)
	p.load(argument(1))
	p.jump(unix.BPF_JEQ, unix.IPPROTO_TCP, 0, 2)
	p.load(argument(2))
	p.jump(unix.BPF_JEQ, unix.TCP_ULP, 3, 4)
	p.jump(unix.BPF_JEQ, solSocket, 0, 3)
	p.load(argument(2))
	p.jump(unix.BPF_JEQ, unix.SO_ZEROCOPY, 0, 1)
	p.ret(Notify)
	p.ret(Allow)
}

// leaf is how many numbers are compared one after the other at the end of a search.
const leaf = 4

// search ends the program: it stops at the numbers of a sorted list. A jump reaches 255 instructions; the list is a part
// of a table of some 400 calls and each costs two at most, so the upper half is reached through an
// unconditional jump, whose reach is not limited.
func (p *program) search(sorted []uint32) {
	if len(sorted) <= leaf {
		for _, nr := range sorted {
			p.retIf(unix.BPF_JEQ, nr, Notify)
		}
		p.ret(Allow)
		return
	}
	middle := len(sorted) / 2
	p.jump(unix.BPF_JGE, sorted[middle], 0, 1)
	far := len(p.code)
	p.add(unix.BPF_JMP|unix.BPF_JA, 0, 0, 0)
	p.search(sorted[:middle])
	p.code[far].K = uint32(len(p.code) - far - 1)
	p.search(sorted[middle:])
}
