package intercept

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// ErrTooLong is wrapped by ReadString's error for a string without an end in the allowed length.
var ErrTooLong = errors.New("string too long")

// readPage bounds one read: the string may end right before memory that cannot be read.
const readPage = 4096

// ReadString reads a NUL-terminated string of at most limit bytes from a caller's memory.
func ReadString(s Session, c Call, addr uint64, limit int) (string, error) {
	var out []byte
	// Most strings are short; a page is only read when one is not.
	piece := 256
	for len(out) < limit {
		at := addr + uint64(len(out))
		size := min(piece, readPage-int(at%readPage), limit-len(out))
		piece = readPage
		buf := make([]byte, size)
		n, err := s.ReadMemory(c, at, buf)
		if err != nil {
			return "", fmt.Errorf("intercept: string at %#x: %w", addr, err)
		}
		if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
			return string(append(out, buf[:end]...)), nil
		}
		out = append(out, buf[:n]...)
		if n < size {
			return "", fmt.Errorf("intercept: string at %#x: memory ends in it", addr)
		}
	}
	return "", fmt.Errorf("intercept: string at %#x: %w", addr, ErrTooLong)
}

// Sockaddr is a socket's address as a program gave it.
type Sockaddr struct {
	// Family is AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC or another.
	Family int
	// Addr is set for AF_INET and AF_INET6, the latter with its scope as zone.
	Addr netip.AddrPort
	// Path is set for AF_UNIX; an abstract name begins with "@".
	Path string
}

// The families that ReadSockaddr decodes, by their numbers on Linux.
const (
	FamilyUnspec = 0
	FamilyUnix   = 1
	FamilyInet   = 2
	FamilyInet6  = 10
)

// maxSockaddr is the kernel's bound, sizeof(struct sockaddr_storage).
const maxSockaddr = 128

// ReadSockaddr reads a socket address from a caller's memory. Where the kernel would refuse its length
// it fails.
func ReadSockaddr(s Session, c Call, addr, length uint64) (Sockaddr, error) {
	length &= 0xffffffff
	if length < 2 || length > maxSockaddr {
		return Sockaddr{}, fmt.Errorf("intercept: socket address of %d bytes", length)
	}
	buf := make([]byte, length)
	n, err := s.ReadMemory(c, addr, buf)
	if err == nil && n < len(buf) {
		err = errors.New("memory ends in it")
	}
	if err != nil {
		return Sockaddr{}, fmt.Errorf("intercept: socket address at %#x: %w", addr, err)
	}
	return DecodeSockaddr(buf)
}

// DecodeSockaddr decodes a struct sockaddr.
func DecodeSockaddr(b []byte) (Sockaddr, error) {
	if len(b) < 2 {
		return Sockaddr{}, fmt.Errorf("intercept: socket address of %d bytes", len(b))
	}
	a := Sockaddr{Family: int(binary.NativeEndian.Uint16(b))}
	switch a.Family {
	case FamilyInet:
		if len(b) < 8 {
			return a, fmt.Errorf("intercept: IPv4 address of %d bytes", len(b))
		}
		a.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case FamilyInet6:
		if len(b) < 24 {
			return a, fmt.Errorf("intercept: IPv6 address of %d bytes", len(b))
		}
		ip := netip.AddrFrom16([16]byte(b[8:24]))
		if len(b) >= 28 {
			if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 {
				ip = ip.WithZone(fmt.Sprint(scope))
			}
		}
		a.Addr = netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:]))
	case FamilyUnix:
		path := b[2:]
		if len(path) > 0 && path[0] == 0 {
			a.Path = "@" + string(path[1:])
			break
		}
		if end := bytes.IndexByte(path, 0); end >= 0 {
			path = path[:end]
		}
		a.Path = string(path)
	}
	return a, nil
}
