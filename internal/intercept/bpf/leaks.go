//go:build linux

package bpf

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/sys"
)

// guardBytes is how much glibc draws for the guard of malloc in each program, with GRND_NONBLOCK.
const guardBytes = 8

// always returns the calls that a subscription stops at whatever their arguments are, beside those that it names.
func always(sub intercept.Subscription) []string {
	var names []string
	if sub.NoIOUring {
		names = append(names, "io_uring_setup")
	}
	if sub.Children {
		names = append(names, "execve")
	}
	if sub.Clocks {
		names = append(names, "gettimeofday", "time")
	}
	return names
}

// leaks stops at what Subscription.Children, Chance and Clocks say.
func (p *program) leaks(sub intercept.Subscription, whole []uint32) {
	for _, part := range []struct {
		wanted bool
		name   string
		add    func(uint32)
	}{{sub.Children, "execveat", p.execveat}, {sub.Chance, "getrandom", p.getrandom}, {sub.Clocks, "clock_gettime", p.clock}} {
		if nr := callNumbers()[part.name]; part.wanted && !slices.Contains(whole, nr) {
			part.add(nr)
		}
	}
}

// execveat stops at all but the exec by which a program is launched.
func (p *program) execveat(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 4)
	p.load(argument(0) + 4)
	p.retIf(unix.BPF_JEQ, sys.LaunchMark, Allow)
	p.ret(Notify)
}

// getrandom stops at all but the guard of malloc.
func (p *program) getrandom(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 8)
	p.load(argument(1))
	p.jump(unix.BPF_JEQ, guardBytes, 0, 5)
	p.load(argument(1) + 4)
	p.jump(unix.BPF_JEQ, 0, 0, 3)
	p.load(argument(2))
	p.jump(unix.BPF_JEQ, unix.GRND_NONBLOCK, 0, 1)
	p.ret(Allow)
	p.ret(Notify)
}

// clock stops at clocks that tell the time, not at those that tell how long a process or thread has computed: 2, 3 and
// the negative ones.
func (p *program) clock(nr uint32) {
	p.jump(unix.BPF_JEQ, nr, 0, 6)
	p.load(argument(0))
	p.jump(unix.BPF_JEQ, unix.CLOCK_PROCESS_CPUTIME_ID, 2, 0)
	p.jump(unix.BPF_JEQ, unix.CLOCK_THREAD_CPUTIME_ID, 1, 0)
	p.jump(unix.BPF_JGE, 1<<31, 0, 1)
	p.ret(Allow)
	p.ret(Notify)
}
