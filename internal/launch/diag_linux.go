package launch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The layout of a request and an answer of NETLINK_SOCK_DIAG, from linux/inet_diag.h.
const (
	diagHeader  = unix.SizeofNlMsghdr
	diagRequest = diagHeader + 56
	diagByID    = 20 // SOCK_DIAG_BY_FAMILY
	tcpListen   = 10 // TCP_LISTEN
)

// past is a deadline that has gone by.
func past() time.Time { return time.Unix(1, 0) }

// Listening reports whether a TCP connection to 127.0.0.1 or ::1 at the port would find a listener.
func (n *Network) Listening(port int) (v4, v6 bool) {
	return n.lookup(unix.IPPROTO_TCP, port)
}

// Bound reports whether a UDP datagram to 127.0.0.1 or ::1 at the port would find an unconnected
// socket.
func (n *Network) Bound(port int) (v4, v6 bool) {
	return n.lookup(unix.IPPROTO_UDP, port)
}

func (n *Network) lookup(proto byte, port int) (v4, v6 bool) {
	var err error
	if v4, err = n.find(proto, netip.AddrFrom4([4]byte{127, 0, 0, 1}), port); err == nil {
		if v6, err = n.find(proto, netip.IPv6Loopback(), port); err == nil {
			return v4, v6
		}
	}
	v4, v6, err = n.readTables(proto, port)
	if err != nil {
		return false, false
	}
	return v4, v6
}

// find asks the kernel which socket a packet to the address would reach: a hash lookup, where
// dumping all listeners walks a table of the whole machine.
func (n *Network) find(proto byte, addr netip.Addr, port int) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.diag < 0 {
		return false, unix.EBADF
	}
	if err := unix.Sendto(n.diag, diagLookup(proto, addr, port), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, err
	}
	var answer [1024]byte
	length, _, err := unix.Recvfrom(n.diag, answer[:], 0)
	if err != nil {
		return false, err
	}
	return readDiag(answer[:length], proto)
}

func diagLookup(proto byte, addr netip.Addr, port int) []byte {
	m := make([]byte, diagRequest)
	native := binary.NativeEndian
	native.PutUint32(m, diagRequest)
	native.PutUint16(m[4:], diagByID)
	native.PutUint16(m[6:], unix.NLM_F_REQUEST)
	family := byte(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	r := m[diagHeader:]
	r[0], r[1] = family, proto
	native.PutUint32(r[4:], ^uint32(0)) // any state
	// The lookup takes the receiver from the source for TCP and from the destination for UDP, "for
	// historical reasons" (udp_diag.c).
	portAt, addrAt := 8, 12
	if proto == unix.IPPROTO_UDP {
		portAt, addrAt = 10, 28
	}
	binary.BigEndian.PutUint16(r[portAt:], uint16(port))
	copy(r[addrAt:], addr.AsSlice())
	native.PutUint64(r[48:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	return m
}

func readDiag(m []byte, proto byte) (bool, error) {
	if len(m) < diagHeader+4 {
		return false, io.ErrUnexpectedEOF
	}
	switch kind := binary.NativeEndian.Uint16(m[4:]); kind {
	case unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(binary.NativeEndian.Uint32(m[diagHeader:])))
		// ENOENT is the answer "none" and also that of a kernel that lacks the module for the
		// protocol: then the module's absence hides no listener only if the tables agree.
		if errno == unix.ENOENT {
			return false, nil
		}
		return false, errno
	case diagByID:
		return proto != unix.IPPROTO_TCP || m[diagHeader+1] == tcpListen, nil
	default:
		return false, fmt.Errorf("netlink message of type %d", kind)
	}
}

// readTables finds the same in /proc.
func (n *Network) readTables(proto byte, port int) (v4, v6 bool, err error) {
	name, state := "tcp", "0A"
	if proto == unix.IPPROTO_UDP {
		name, state = "udp", "07"
	}
	err = n.thread.do(func() error {
		f, err := os.Open("/proc/thread-self/net/" + name)
		if err != nil {
			return err
		}
		defer f.Close()
		v4, _, err = readTable(f, port, state)
		if err != nil {
			return err
		}
		f6, err := os.Open("/proc/thread-self/net/" + name + "6")
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f6.Close()
		any4, loop6, err := readTable(f6, port, state)
		v4, v6 = v4 || any4, loop6
		return err
	})
	return v4, v6, err
}

// readTable reads the format of /proc/net/tcp: addresses are words in the machine's order. v4 means
// that 127.0.0.1 reaches a socket, v6 that ::1 does. A table does not say whether a socket at :: takes
// v4 too; it usually does.
func readTable(r io.Reader, port int, state string) (v4, v6 bool, err error) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 4 || f[3] != state {
			continue
		}
		addr, p, ok := strings.Cut(f[1], ":")
		number, err := strconv.ParseUint(p, 16, 16)
		if !ok || err != nil || int(number) != port {
			continue
		}
		switch {
		case len(addr) == 8 && (addr == "00000000" || addr == hexWords(netip.AddrFrom4([4]byte{127, 0, 0, 1}))):
			v4 = true
		case len(addr) == 32 && strings.Trim(addr, "0") == "":
			v4, v6 = true, true
		case addr == hexWords(netip.IPv6Loopback()):
			v6 = true
		}
	}
	return v4, v6, s.Err()
}

func hexWords(a netip.Addr) string {
	var s strings.Builder
	b := a.AsSlice()
	for i := 0; i < len(b); i += 4 {
		fmt.Fprintf(&s, "%08X", binary.NativeEndian.Uint32(b[i:]))
	}
	return s.String()
}
