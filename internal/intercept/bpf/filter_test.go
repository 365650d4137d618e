//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/sys"
)

// want says directly what a filter has to answer.
func want(names map[int32]string, sub intercept.Subscription, d sys.Data) uint32 {
	if d.Arch != auditArch || x32Bit != 0 && uint32(d.Nr) >= x32Bit {
		return NoSuchCall
	}
	name := names[d.Nr]
	flags := map[string]int{"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
	if i, ok := flags[name]; ok && slices.Contains(sub.Calls, "connect") && d.Args[i]&unix.MSG_FASTOPEN != 0 {
		return NotSupported
	}
	option, option0 := int32(d.Args[2]), int32(d.Args[0])
	switch {
	case name == "":
		return Allow
	case slices.Contains(sub.Calls, name),
		sub.Children && name == "execve",
		sub.Children && name == "execveat" && d.Args[0]>>32 != sys.LaunchMark,
		sub.Chance && name == "getrandom" && (d.Args[1] != 8 || uint32(d.Args[2]) != 1),
		sub.Clocks && (name == "time" || name == "gettimeofday"),
		sub.Clocks && name == "clock_gettime" && option0 >= 0 && option0 != 2 && option0 != 3,
		sub.NoIOUring && name == "io_uring_setup",
		sub.Addressed && name == "sendto" && d.Args[4] != 0,
		sub.SharedMappings && name == "mmap" && d.Args[2]&unix.PROT_WRITE != 0 && d.Args[3]&unix.MAP_SHARED != 0 && d.Args[3]&unix.MAP_ANONYMOUS == 0,
		sub.Sockets && name == "ioctl" && (uint32(d.Args[1]) == 0x541b || uint32(d.Args[1]) == 0x5421),
		sub.Sockets && name == "fcntl" && uint32(d.Args[1]) == unix.F_SETFL && d.Args[2]&unix.O_NONBLOCK == 0,
		sub.Sockets && name == "setsockopt" && int32(d.Args[1]) == unix.IPPROTO_TCP && option == unix.TCP_ULP,
		sub.Sockets && name == "setsockopt" && int32(d.Args[1]) == unix.SOL_SOCKET && option == unix.SO_ZEROCOPY,
		sub.Output && (name == "write" || name == "writev") && (int32(d.Args[0]) == 1 || int32(d.Args[0]) == 2),
		sub.Getsockopt && name == "getsockopt" && int32(d.Args[1]) == unix.SOL_SOCKET && (option == unix.SO_ERROR || option == unix.SO_PEERNAME):
		return Notify
	}
	return Allow
}

func check(t *testing.T, sub intercept.Subscription, d sys.Data) {
	t.Helper()
	code, err := Compile(sub)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Evaluate(code, d)
	if err != nil {
		t.Fatalf("%+v: %v", sub, err)
	}
	if w := want(Names(), sub, d); got != w {
		t.Fatalf("%+v on %s %+v: got %#x, want %#x", sub, Names()[d.Nr], d, got, w)
	}
}

func nr(name string) int32 { return int32(callNumbers()[name]) }

func TestFilterCases(t *testing.T) {
	connect := intercept.Subscription{Calls: []string{"connect"}}
	addressed := intercept.Subscription{Addressed: true, Getsockopt: true}
	sockets := intercept.Subscription{Sockets: true}
	leaks := intercept.Subscription{Children: true, Chance: true, Clocks: true}
	mappings := intercept.Subscription{SharedMappings: true}
	cases := []struct {
		name string
		sub  intercept.Subscription
		d    sys.Data
		want uint32
	}{
		{"launch's own exec", leaks, sys.Data{Nr: nr("execveat"), Arch: auditArch, Args: [6]uint64{sys.LaunchMark<<32 | 0xffffff9c}}, Allow},
		{"execveat", leaks, sys.Data{Nr: nr("execveat"), Arch: auditArch, Args: [6]uint64{0xffffff9c}}, Notify},
		{"execve", leaks, sys.Data{Nr: nr("execve"), Arch: auditArch}, Notify},
		{"random bytes", leaks, sys.Data{Nr: nr("getrandom"), Arch: auditArch, Args: [6]uint64{1: 16}}, Notify},
		{"eight random bytes", leaks, sys.Data{Nr: nr("getrandom"), Arch: auditArch, Args: [6]uint64{1: 8}}, Notify},
		{"malloc's guard", leaks, sys.Data{Nr: nr("getrandom"), Arch: auditArch, Args: [6]uint64{1: 8, 2: 1}}, Allow},
		{"many bytes, low half as the guard's", leaks, sys.Data{Nr: nr("getrandom"), Arch: auditArch, Args: [6]uint64{1: 1<<32 | 8, 2: 1}}, Notify},
		{"wall clock", leaks, sys.Data{Nr: nr("clock_gettime"), Arch: auditArch}, Notify},
		{"clock past those of CPU time", leaks, sys.Data{Nr: nr("clock_gettime"), Arch: auditArch, Args: [6]uint64{7}}, Notify},
		{"thread's CPU time", leaks, sys.Data{Nr: nr("clock_gettime"), Arch: auditArch, Args: [6]uint64{3}}, Allow},
		{"another process's CPU time", leaks, sys.Data{Nr: nr("clock_gettime"), Arch: auditArch, Args: [6]uint64{0xfffffffe}}, Allow},
		{"time of day", leaks, sys.Data{Nr: nr("gettimeofday"), Arch: auditArch}, Notify},
		{"time of day, not asked for", connect, sys.Data{Nr: nr("gettimeofday"), Arch: auditArch}, Allow},
		{"asks for bytes", sockets, sys.Data{Nr: nr("ioctl"), Arch: auditArch, Args: [6]uint64{3, 0x541b}}, Notify},
		{"sets blocking by ioctl", sockets, sys.Data{Nr: nr("ioctl"), Arch: auditArch, Args: [6]uint64{3, 0x5421}}, Notify},
		{"another ioctl", sockets, sys.Data{Nr: nr("ioctl"), Arch: auditArch, Args: [6]uint64{3, 0x5401}}, Allow},
		{"sets blocking", sockets, sys.Data{Nr: nr("fcntl"), Arch: auditArch, Args: [6]uint64{3, unix.F_SETFL, unix.O_APPEND}}, Notify},
		{"sets non-blocking", sockets, sys.Data{Nr: nr("fcntl"), Arch: auditArch, Args: [6]uint64{3, unix.F_SETFL, unix.O_NONBLOCK}}, Allow},
		{"another fcntl", sockets, sys.Data{Nr: nr("fcntl"), Arch: auditArch, Args: [6]uint64{3, unix.F_GETFL}}, Allow},
		{"upper layer", sockets, sys.Data{Nr: nr("setsockopt"), Arch: auditArch, Args: [6]uint64{3, unix.IPPROTO_TCP, unix.TCP_ULP}}, Notify},
		{"zero copy", sockets, sys.Data{Nr: nr("setsockopt"), Arch: auditArch, Args: [6]uint64{3, unix.SOL_SOCKET, unix.SO_ZEROCOPY}}, Notify},
		{"zero copy's number elsewhere", sockets, sys.Data{Nr: nr("setsockopt"), Arch: auditArch, Args: [6]uint64{3, unix.IPPROTO_TCP, unix.SO_ZEROCOPY}}, Allow},
		{"upper layer's number elsewhere", sockets, sys.Data{Nr: nr("setsockopt"), Arch: auditArch, Args: [6]uint64{3, unix.SOL_SOCKET, unix.TCP_ULP}}, Allow},
		{"another option", sockets, sys.Data{Nr: nr("setsockopt"), Arch: auditArch, Args: [6]uint64{3, unix.SOL_SOCKET, unix.SO_KEEPALIVE}}, Allow},
		{"named", connect, sys.Data{Nr: nr("connect"), Arch: auditArch}, Notify},
		{"not named", connect, sys.Data{Nr: nr("bind"), Arch: auditArch}, Allow},
		{"not in the table", connect, sys.Data{Nr: unix.SYS_FUTEX, Arch: auditArch}, Allow},
		{"i386", connect, sys.Data{Nr: nr("connect"), Arch: unix.AUDIT_ARCH_I386}, NoSuchCall},
		{"negative", connect, sys.Data{Nr: -1, Arch: auditArch}, map[bool]uint32{true: NoSuchCall, false: Allow}[x32Bit != 0]},
		{"fast open", connect, sys.Data{Nr: nr("sendto"), Arch: auditArch, Args: [6]uint64{3: unix.MSG_FASTOPEN}}, NotSupported},
		{"fast open by sendmsg", connect, sys.Data{Nr: nr("sendmsg"), Arch: auditArch, Args: [6]uint64{2: unix.MSG_FASTOPEN | 1}}, NotSupported},
		{"no fast open", connect, sys.Data{Nr: nr("sendto"), Arch: auditArch, Args: [6]uint64{3: 0x4000}}, Allow},
		{"addressed low", addressed, sys.Data{Nr: nr("sendto"), Arch: auditArch, Args: [6]uint64{4: 1}}, Notify},
		{"addressed high", addressed, sys.Data{Nr: nr("sendto"), Arch: auditArch, Args: [6]uint64{4: 1 << 32}}, Notify},
		{"unaddressed", addressed, sys.Data{Nr: nr("sendto"), Arch: auditArch}, Allow},
		{"SO_ERROR", addressed, sys.Data{Nr: nr("getsockopt"), Arch: auditArch, Args: [6]uint64{1: 1, 2: 4}}, Notify},
		{"SO_PEERNAME, high halves set", addressed, sys.Data{Nr: nr("getsockopt"), Arch: auditArch, Args: [6]uint64{1: 1<<32 | 1, 2: 1<<40 | 28}}, Notify},
		{"another level", addressed, sys.Data{Nr: nr("getsockopt"), Arch: auditArch, Args: [6]uint64{1: 6, 2: 4}}, Allow},
		{"another option", addressed, sys.Data{Nr: nr("getsockopt"), Arch: auditArch, Args: [6]uint64{1: 1, 2: 3}}, Allow},
		{"io_uring", intercept.Subscription{NoIOUring: true}, sys.Data{Nr: nr("io_uring_setup"), Arch: auditArch}, Notify},
		{"mapped shared and writable", mappings, sys.Data{Nr: nr("mmap"), Arch: auditArch, Args: [6]uint64{2: 3, 3: 1}}, Notify},
		{"mapped and validated", mappings, sys.Data{Nr: nr("mmap"), Arch: auditArch, Args: [6]uint64{2: 2, 3: 3}}, Notify},
		{"mapped for reading", mappings, sys.Data{Nr: nr("mmap"), Arch: auditArch, Args: [6]uint64{2: 1, 3: 1}}, Allow},
		{"mapped private", mappings, sys.Data{Nr: nr("mmap"), Arch: auditArch, Args: [6]uint64{2: 3, 3: 2}}, Allow},
		{"mapped without a file", mappings, sys.Data{Nr: nr("mmap"), Arch: auditArch, Args: [6]uint64{2: 3, 3: 0x21}}, Allow},
		{"mapped, not asked for", connect, sys.Data{Nr: nr("mmap"), Arch: auditArch, Args: [6]uint64{2: 3, 3: 1}}, Allow},
		{"printed", intercept.Subscription{Output: true}, sys.Data{Nr: nr("write"), Arch: auditArch, Args: [6]uint64{0: 1}}, Notify},
		{"printed by writev, high half set", intercept.Subscription{Output: true}, sys.Data{Nr: nr("writev"), Arch: auditArch, Args: [6]uint64{0: 1<<32 | 2}}, Notify},
		{"written to a file", intercept.Subscription{Output: true}, sys.Data{Nr: nr("write"), Arch: auditArch, Args: [6]uint64{0: 3}}, Allow},
		{"printed, not asked for", connect, sys.Data{Nr: nr("write"), Arch: auditArch, Args: [6]uint64{0: 1}}, Allow},
		{"io_uring not asked for", connect, sys.Data{Nr: nr("io_uring_setup"), Arch: auditArch}, Allow},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if w := want(Names(), c.sub, c.d); w != c.want {
				t.Fatalf("the reference says %#x, the table %#x", w, c.want)
			}
			check(t, c.sub, c.d)
		})
	}
}

// TestEveryNumber compares the compiler with the reference on every number of the table's range, for
// subscriptions of all sizes.
func TestEveryNumber(t *testing.T) {
	var all []string
	for name := range callNumbers() {
		all = append(all, name)
	}
	slices.Sort(all)
	r, names := rand.New(rand.NewPCG(1, 2)), Names()
	for size := 0; size <= len(all); size++ {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		sub := intercept.Subscription{Calls: all[:size], Addressed: size%2 == 0, Output: size%2 == 1, SharedMappings: size%3 == 1, Getsockopt: size%3 == 0, NoIOUring: size%5 == 0, Sockets: size%7 < 4,
			Children: size%4 == 1, Chance: size%4 > 1, Clocks: size%6 > 2}
		code, err := Compile(sub)
		if err != nil {
			t.Fatal(err)
		}
		for n := int32(0); n < 520; n++ {
			d := sys.Data{Nr: n, Arch: auditArch, Args: [6]uint64{0: uint64(r.IntN(9)), 1: uint64(r.IntN(2)), 2: uint64(4 * r.IntN(8)), 4: uint64(r.IntN(2)) << (31 * r.IntN(3))}}
			got, err := Evaluate(code, d)
			if err != nil {
				t.Fatal(err)
			}
			if w := want(names, sub, d); got != w {
				t.Fatalf("%+v on %d: got %#x, want %#x", sub, n, got, w)
			}
		}
	}
}

func TestUnknownName(t *testing.T) {
	if _, err := Compile(intercept.Subscription{Calls: []string{"wirte"}}); !errors.Is(err, ErrUnknownCall) {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"futex", "exit_group", "sched_yield"} {
		if _, err := Compile(intercept.Subscription{Calls: []string{name}}); !errors.Is(err, ErrUnknownCall) {
			t.Errorf("%s, which the launch makes behind the filter, can be subscribed: %v", name, err)
		}
	}
}

// TestFamilies holds the two tables together: every call that a rule can name compiles on every machine.
func TestFamilies(t *testing.T) {
	for _, f := range fault.Families() {
		if _, err := Compile(intercept.Subscription{Calls: f.Calls}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	for name := range ownCalls() {
		if !slices.Contains(elsewhere(), name) {
			t.Errorf("%s is not among the names of other machines", name)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint8(7), []byte{44, 0, 0, 0})
	var all []string
	for name := range callNumbers() {
		all = append(all, name)
	}
	slices.Sort(all)
	f.Fuzz(func(t *testing.T, picks []byte, bits uint8, call []byte) {
		sub := intercept.Subscription{Addressed: bits&1 != 0, Output: bits&8 != 0, SharedMappings: bits&32 != 0, Sockets: bits&64 != 0, Getsockopt: bits&2 != 0, NoIOUring: bits&4 != 0,
			Children: bits&2 != 0, Chance: bits&4 != 0, Clocks: bits&1 != 0}
		for _, p := range picks {
			sub.Calls = append(sub.Calls, all[int(p)%len(all)])
		}
		buf := make([]byte, 52)
		copy(buf, call)
		d := sys.Data{Nr: int32(binary.LittleEndian.Uint32(buf)), Arch: auditArch}
		if bits&8 != 0 {
			d.Arch = unix.AUDIT_ARCH_I386
		}
		if bits&16 == 0 {
			d.Nr = nr(all[int(buf[0])%len(all)])
		}
		for i := range d.Args {
			d.Args[i] = binary.LittleEndian.Uint64(buf[4+8*i:])
		}
		check(t, sub, d)
	})
}
