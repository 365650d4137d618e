package dial

import "golang.org/x/sys/unix"

// dropAll is a socket filter that lets nothing in.
func dropAll() []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
}

// synTo is a socket filter for a raw TCP socket that lets in SYNs to a port. On IPv4 such a socket
// sees the IP header too; on IPv6 the segment only.
func synTo(port uint16, v6 bool) []unix.SockFilter {
	const wholePacket = 0xffffffff
	start := unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0}
	if v6 {
		start = unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_W | unix.BPF_IMM, K: 0}
	}
	return []unix.SockFilter{
		start,
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 2},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4, K: uint32(port)},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: 13},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: 0x02},
		{Code: unix.BPF_RET | unix.BPF_K, K: wholePacket},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}

func attachFilter(fd int, f []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}
