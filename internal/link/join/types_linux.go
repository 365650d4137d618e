package join

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// typesFile describes the running kernel's types in BTF.
const typesFile = "/sys/kernel/btf/vmlinux"

// places are where the program finds things in the kernel's structures.
type places struct {
	cookie, ulp, socket, file, flags int16
}

// member is one of a kernel structure; at is where its offset goes.
type member struct {
	of, name string
	at       *int16
}

func findPlaces() (p places, err error) {
	data, err := os.ReadFile(typesFile)
	if err != nil {
		return p, fmt.Errorf("%w: types: %w", ErrUnsupported, err)
	}
	want := []member{
		{"sock_common", "skc_cookie", &p.cookie},
		{"inet_connection_sock", "icsk_ulp_ops", &p.ulp},
		{"sock", "sk_socket", &p.socket},
		{"socket", "file", &p.file},
		{"file", "f_flags", &p.flags},
	}
	return p, locate(data, want)
}

// Kinds of types that are followed by something, from linux/btf.h.
const (
	btfInt       = 1
	btfArray     = 3
	btfStruct    = 4
	btfUnion     = 5
	btfEnum      = 6
	btfFuncProto = 13
	btfVar       = 14
	btfDatasec   = 15
	btfDeclTag   = 17
	btfEnum64    = 19

	btfMagic  = 0xeb9f
	btfHeader = 24
	btfType   = 12
)

// trailer returns how many bytes follow a type.
func trailer(kind, members uint32) uint32 {
	switch kind {
	case btfInt, btfVar, btfDeclTag:
		return 4
	case btfArray:
		return 12
	case btfStruct, btfUnion, btfDatasec, btfEnum64:
		return 12 * members
	case btfEnum, btfFuncProto:
		return 8 * members
	}
	return 0
}

// locate reads the offsets of members. Of a structure that is there twice the first one counts.
func locate(data []byte, want []member) error {
	u32 := func(at uint32) uint32 { return binary.NativeEndian.Uint32(data[at:]) }
	if len(data) < btfHeader || binary.NativeEndian.Uint16(data) != btfMagic {
		return fmt.Errorf("%w: types: not BTF", ErrUnsupported)
	}
	at := u32(4) + u32(8)
	end := at + u32(12)
	names := u32(4) + u32(16)
	if uint64(names)+uint64(u32(20)) > uint64(len(data)) || end > names && uint64(end) > uint64(len(data)) {
		return fmt.Errorf("%w: types: cut off", ErrUnsupported)
	}
	is := func(offset uint32, name string) bool {
		text := data[min(uint64(names)+uint64(offset), uint64(len(data))):]
		return len(text) > len(name) && text[len(name)] == 0 && bytes.HasPrefix(text, []byte(name))
	}
	found := 0
	for at+btfType <= end {
		name, info := u32(at), u32(at+4)
		kind, count := info>>24&0x1f, info&0xffff
		size := trailer(kind, count)
		at += btfType
		if kind == btfStruct && at+size <= end {
			for i := range want {
				if w := &want[i]; w.at != nil && is(name, w.of) && offsetOf(data[at:at+size], w, is) {
					w.at = nil
					found++
				}
			}
		}
		at += size
	}
	if found < len(want) {
		return fmt.Errorf("%w: types: members are missing", ErrUnsupported)
	}
	return nil
}

// offsetOf looks a member up among a structure's: each has a name, a type, and an offset in bits.
func offsetOf(members []byte, w *member, is func(uint32, string) bool) bool {
	for ; len(members) >= 12; members = members[12:] {
		if is(binary.NativeEndian.Uint32(members), w.name) {
			*w.at = int16(binary.NativeEndian.Uint32(members[8:]) & 0xffffff / 8)
			return true
		}
	}
	return false
}
