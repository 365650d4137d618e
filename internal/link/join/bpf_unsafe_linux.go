package join

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapAttr, elemAttr, progAttr and attachAttr are the members of union bpf_attr that we use, from linux/bpf.h. Pointers
// are as wide as there on 64-bit systems only.
type (
	mapAttr struct{ kind, keySize, valueSize, entries, flags uint32 }

	elemAttr struct {
		fd         uint64
		key, value unsafe.Pointer
		flags      uint64
	}

	progAttr struct {
		kind, count   uint32
		code, license unsafe.Pointer
	}

	attachAttr struct{ target, prog, kind, flags uint32 }
)

// key is how the program finds the lane of a socket; the ports are as its context shows them.
type key struct {
	netns         uint64
	local, remote uint32
}

const keySize = 16

// instruction is one of eBPF: struct bpf_insn, with the destination in the low four bits of regs and the source in
// the others.
type instruction struct {
	code uint8
	regs uint8
	off  int16
	imm  int32
}

func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EAGAIN, unix.EINTR: // a signal came while the verifier worked
			continue
		}
		return -1, errno
	}
}

func createMap(a mapAttr) (int, error) {
	return bpf(unix.BPF_MAP_CREATE, unsafe.Pointer(&a), unsafe.Sizeof(a))
}

// putElement sets an element. K is as large as the map's keys are.
func putElement[K uint32 | key](m int, k K, value uint32) error {
	a := elemAttr{fd: uint64(m), key: unsafe.Pointer(&k), value: unsafe.Pointer(&value)}
	_, err := bpf(unix.BPF_MAP_UPDATE_ELEM, unsafe.Pointer(&a), unsafe.Sizeof(a))
	return err
}

func dropElement[K uint32 | key](m int, k K) error {
	a := elemAttr{fd: uint64(m), key: unsafe.Pointer(&k)}
	_, err := bpf(unix.BPF_MAP_DELETE_ELEM, unsafe.Pointer(&a), unsafe.Sizeof(a))
	return err
}

func loadProgram(kind uint32, code []instruction) (int, error) {
	text := append([]byte("Apache-2.0"), 0)
	a := progAttr{kind: kind, count: uint32(len(code)), code: unsafe.Pointer(&code[0]), license: unsafe.Pointer(&text[0])}
	return bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&a), unsafe.Sizeof(a))
}

func attachProgram(target, prog int, kind uint32) error {
	a := attachAttr{target: uint32(target), prog: uint32(prog), kind: kind}
	_, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&a), unsafe.Sizeof(a))
	return err
}

// word is one at an offset of memory that is shared with the kernel.
func word(memory []byte, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&memory[offset]))
}

// Places in SO_MEMINFO, from linux/sock_diag.h.
const (
	meminfoSendBuffer = 3
	meminfoQueued     = 5
	meminfoWords      = 9
)

// sendBuffer returns the size of a socket's send buffer, and how much of it is in use.
func sendBuffer(fd int) (size, queued uint64, err error) {
	var info [meminfoWords]uint32
	length := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return 0, 0, errno
	}
	return uint64(info[meminfoSendBuffer]), uint64(info[meminfoQueued]), nil
}
