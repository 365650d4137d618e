package dial

import (
	"encoding/binary"
	"net/netip"
)

const (
	ipv4HeaderLen = 20
	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
)

// sum16 is the Internet checksum's sum (RFC 1071), not yet folded.
func sum16(sum uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// tcpOf4 returns the TCP segment in an IPv4 packet, nil where it holds none.
func tcpOf4(packet []byte) []byte {
	if len(packet) < ipv4HeaderLen || packet[0]>>4 != 4 || packet[9] != protoTCP {
		return nil
	}
	n := int(packet[0]&15) * 4
	if n < ipv4HeaderLen || len(packet) < n+ipv4HeaderLen {
		return nil
	}
	return packet[n:]
}

// ports returns the ports of a TCP segment.
func ports(segment []byte) (from, to uint16) {
	return binary.BigEndian.Uint16(segment), binary.BigEndian.Uint16(segment[2:])
}

// complete4 computes the TCP checksum of an IPv4 packet, which the loopback device leaves partial.
func complete4(packet []byte) {
	segment := tcpOf4(packet)
	segment[16], segment[17] = 0, 0
	sum := sum16(0, packet[12:20]) + protoTCP + uint32(len(segment))
	binary.BigEndian.PutUint16(segment[16:], fold(sum16(sum, segment)))
}

// Codes of the message "destination unreachable" of ICMP and ICMPv6.
const (
	icmpHost  = 1
	icmpPort  = 3
	icmp6Host = 3 // "address unreachable"
	icmp6Port = 4
)

// unreachable4 returns the ICMP packet that says so of an IPv4 packet (RFC 792): to its sender, from
// its destination, quoting its header and 8 bytes.
func unreachable4(packet []byte, code byte) []byte {
	n := int(packet[0]&15)*4 + 8
	out := make([]byte, ipv4HeaderLen+8+n)
	out[0], out[8], out[9] = 0x45, 64, protoICMP
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)))
	copy(out[12:16], packet[16:20])
	copy(out[16:20], packet[12:16])
	binary.BigEndian.PutUint16(out[10:], fold(sum16(0, out[:ipv4HeaderLen])))
	icmp := out[ipv4HeaderLen:]
	icmp[0], icmp[1] = 3, code
	copy(icmp[8:], packet[:n])
	binary.BigEndian.PutUint16(icmp[2:], fold(sum16(0, icmp)))
	return out
}

// unreachable6 returns the ICMPv6 message that says so (RFC 4443) of a TCP segment or UDP datagram between
// two IPv6 addresses; the kernel puts the header in front and computes the checksum.
func unreachable6(src, dst netip.Addr, proto, code byte, payload []byte) []byte {
	out := make([]byte, 8+40+len(payload))
	out[0], out[1] = 1, code
	header := out[8:]
	header[0], header[6], header[7] = 0x60, proto, 64
	binary.BigEndian.PutUint16(header[4:], uint16(len(payload)))
	from, to := src.As16(), dst.As16()
	copy(header[8:], from[:])
	copy(header[24:], to[:])
	copy(header[40:], payload)
	return out
}

// emptyUDP4 returns an IPv4 packet with a UDP header and nothing in it, to be quoted in an ICMP error.
func emptyUDP4(from, to netip.AddrPort) []byte {
	out := make([]byte, ipv4HeaderLen+8)
	out[0], out[8], out[9] = 0x45, 64, protoUDP
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)))
	src, dst := from.Addr().As4(), to.Addr().As4()
	copy(out[12:16], src[:])
	copy(out[16:20], dst[:])
	binary.BigEndian.PutUint16(out[10:], fold(sum16(0, out[:ipv4HeaderLen])))
	copy(out[ipv4HeaderLen:], emptyUDP(from.Port(), to.Port()))
	return out
}

// emptyUDP returns a UDP header with nothing behind it.
func emptyUDP(from, to uint16) []byte {
	out := make([]byte, 8)
	binary.BigEndian.PutUint16(out, from)
	binary.BigEndian.PutUint16(out[2:], to)
	binary.BigEndian.PutUint16(out[4:], uint16(len(out)))
	return out
}
