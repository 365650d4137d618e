package dial

import (
	"encoding/binary"
	"errors"
)

const (
	// maxName is the most of an address that is looked at, the size of struct sockaddr_storage.
	maxName = 128
	// maxMessages is how many messages of one sendmmsg are looked at, the kernel's own limit.
	maxMessages = 1024
	// sizeMsghdr and sizeMmsghdr are sizes of struct msghdr and struct mmsghdr on 64-bit Linux.
	sizeMsghdr  = 56
	sizeMmsghdr = 64
)

var errNotSending = errors.New("dial: not a call that sends")

// Names returns the addresses that a sendto, sendmsg or sendmmsg names, each once, and the flags of the
// call. read fills p from the program's memory at an address.
func Names(call string, args [6]uint64, read func(addr uint64, p []byte) error) (names [][]byte, flags int, err error) {
	add := func(addr, length uint64) error {
		if addr == 0 || length == 0 {
			return nil
		}
		name := make([]byte, min(length, maxName))
		if err := read(addr, name); err != nil {
			return err
		}
		for _, n := range names {
			if string(n) == string(name) {
				return nil
			}
		}
		names = append(names, name)
		return nil
	}
	header := func(addr uint64) error {
		var b [sizeMsghdr]byte
		if err := read(addr, b[:]); err != nil {
			return err
		}
		return add(binary.NativeEndian.Uint64(b[:]), uint64(binary.NativeEndian.Uint32(b[8:])))
	}
	switch call {
	case "sendto":
		err := add(args[4], args[5]&0xffffffff)
		return names, int(args[3]), err
	case "sendmsg":
		err := header(args[1])
		return names, int(args[2]), err
	case "sendmmsg":
		for i := range min(args[2]&0xffffffff, maxMessages) {
			if err := header(args[1] + i*sizeMmsghdr); err != nil {
				return names, int(args[3]), err
			}
		}
		return names, int(args[3]), nil
	}
	return nil, 0, errNotSending
}
