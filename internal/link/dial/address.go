package dial

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Address families, with Linux's numbers.
const (
	familyUnspec = 0
	familyUnix   = 1
	familyINET   = 2
	familyINET6  = 10
)

// Addr is a socket address as a program passes it.
type Addr struct {
	// Family is the address family's number in Linux.
	Family int
	// AddrPort is set for the two internet families. A mapped IPv4 address stays mapped.
	AddrPort netip.AddrPort
}

// ErrShortAddress is returned for a socket address that is too short for its family; the kernel
// answers EINVAL to it.
var ErrShortAddress = errors.New("dial: socket address is too short")

// ParseAddr reads a struct sockaddr as it lies in a program's memory.
func ParseAddr(raw []byte) (Addr, error) {
	if len(raw) < 2 {
		return Addr{}, ErrShortAddress
	}
	a := Addr{Family: int(binary.NativeEndian.Uint16(raw))}
	switch a.Family {
	case familyINET:
		if len(raw) < 16 {
			return a, ErrShortAddress
		}
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), binary.BigEndian.Uint16(raw[2:]))
	case familyINET6:
		if len(raw) < 24 {
			return a, ErrShortAddress
		}
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])), binary.BigEndian.Uint16(raw[2:]))
	}
	return a, nil
}

// Raw returns the struct sockaddr of an internet address, as the kernel writes it.
func (a Addr) Raw() []byte {
	if a.Family == familyINET6 {
		raw := make([]byte, 28)
		binary.NativeEndian.PutUint16(raw, familyINET6)
		binary.BigEndian.PutUint16(raw[2:], a.AddrPort.Port())
		ip := a.AddrPort.Addr().As16()
		copy(raw[8:], ip[:])
		return raw
	}
	raw := make([]byte, 16)
	binary.NativeEndian.PutUint16(raw, familyINET)
	binary.BigEndian.PutUint16(raw[2:], a.AddrPort.Port())
	ip := a.AddrPort.Addr().Unmap().As4()
	copy(raw[4:], ip[:])
	return raw
}

// ServiceAddr returns the address of the n-th service, counting from 1: 127.77.0.n.
func ServiceAddr(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 77, byte(n >> 8), byte(n)})
}

// The loopback addresses.
func loopback4() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }
func loopback6() netip.Addr { return netip.IPv6Loopback() }
