//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/sys"
)

// Evaluate runs a filter on a call as the kernel would and returns its answer. It knows the instructions
// that Compile uses and refuses any other.
func Evaluate(code []unix.SockFilter, d sys.Data) (uint32, error) {
	var a uint32
	for pc := 0; pc < len(code); pc++ {
		in := code[pc]
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			w, err := word(d, in.K)
			if err != nil {
				return 0, err
			}
			a = w
		case unix.BPF_RET | unix.BPF_K:
			return in.K, nil
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		default:
			holds, err := test(in, a)
			if err != nil {
				return 0, err
			}
			if holds {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
	}
	return 0, errors.New("bpf: program runs off its end")
}

func test(in unix.SockFilter, a uint32) (bool, error) {
	switch in.Code {
	case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
		return a == in.K, nil
	case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
		return a >= in.K, nil
	case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
		return a > in.K, nil
	case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
		return a&in.K != 0, nil
	}
	return false, fmt.Errorf("bpf: instruction %#x", in.Code)
}

// word is the 32 bits of struct seccomp_data at an offset.
func word(d sys.Data, off uint32) (uint32, error) {
	half := func(v uint64) uint32 { return uint32(v >> (8 * (off % 8))) }
	switch {
	case off%4 != 0 || off >= 64:
		return 0, fmt.Errorf("bpf: load at offset %d", off)
	case off == offNr:
		return uint32(d.Nr), nil
	case off == offArch:
		return d.Arch, nil
	case off < offArgs:
		return half(d.IP), nil
	}
	return half(d.Args[(off-offArgs)/8]), nil
}
