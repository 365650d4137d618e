package run

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/link/dial"
)

// The layout of struct msghdr and struct mmsghdr on 64-bit Linux.
const (
	msghdrSize  = 56
	mmsghdrSize = 64
	// maxBatch is the most messages of one sendmmsg that the kernel takes.
	maxBatch = 1024
)

// datagram prepares the way of what a program sends to an address. The kernel then sends it.
func (s *service) datagram(session intercept.Session, c intercept.Call) {
	fd := int(int32(c.Args[0]))
	for _, g := range destinations(session, c) {
		socket, err := session.Descriptor(c, fd)
		if err != nil {
			break
		}
		g.Client, g.Socket = s.Name, socket
		if r := s.l.system.net.dialer.Send(g); !r.Native {
			connected(session, c, r)
			return
		}
	}
	reply(session, c, intercept.Reply{})
}

// destinations reads the addresses that a call sends to; a message without one has none.
func destinations(session intercept.Session, c intercept.Call) []dial.Datagram {
	switch c.Name {
	case "sendto":
		if raw := sockaddr(session, c, c.Args[4], c.Args[5]); raw != nil {
			return []dial.Datagram{{Addr: raw, Flags: int(c.Args[3])}}
		}
	case "sendmsg":
		if raw := messageName(session, c, c.Args[1]); raw != nil {
			return []dial.Datagram{{Addr: raw, Flags: int(c.Args[2])}}
		}
	case "sendmmsg":
		var out []dial.Datagram
		for i := range min(c.Args[2]&0xffffffff, maxBatch) {
			if raw := messageName(session, c, c.Args[1]+i*mmsghdrSize); raw != nil {
				out = append(out, dial.Datagram{Addr: raw, Flags: int(c.Args[3])})
			}
		}
		return out
	}
	return nil
}

// messageName reads the address that a struct msghdr points to.
func messageName(session intercept.Session, c intercept.Call, header uint64) []byte {
	var b [msghdrSize]byte
	if n, err := session.ReadMemory(c, header, b[:]); err != nil || n < len(b) {
		return nil
	}
	return sockaddr(session, c, binary.NativeEndian.Uint64(b[:]), uint64(binary.NativeEndian.Uint32(b[8:])))
}

// sockaddr reads a socket address, or returns nil where there is none.
func sockaddr(session intercept.Session, c intercept.Call, at, length uint64) []byte {
	b := make([]byte, min(length&0xffffffff, unix.SizeofSockaddrAny+16))
	if at == 0 || len(b) < 2 {
		return nil
	}
	if n, err := session.ReadMemory(c, at, b); err != nil || n < len(b) {
		return nil
	}
	return b
}

// bind lets a datagram socket share its port with the relays of other services.
func (s *service) bind(session intercept.Session, c intercept.Call) {
	if socket, err := session.Descriptor(c, int(int32(c.Args[0]))); err == nil {
		s.l.system.net.dialer.Bind(socket)
		_ = unix.Close(socket)
	}
	reply(session, c, intercept.Reply{})
}
