package run

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/link/dial"
)

// errShort is for memory that ends before what was to be read.
var errShort = errors.New("run: memory ends")

// datagram prepares the way of what a program sends to an address. The kernel then sends it.
func (s *service) datagram(session intercept.Session, c intercept.Call) {
	names, flags, err := dial.Names(c.Name, c.Args, func(at uint64, p []byte) error {
		n, err := session.ReadMemory(c, at, p)
		if err == nil && n < len(p) {
			err = errShort
		}
		return err
	})
	if err != nil {
		s.reply(session, c, intercept.Reply{}) // the kernel says what is wrong with it
		return
	}
	for _, name := range names {
		s.asksNames(name, true)
		if !s.l.system.datagrams {
			continue
		}
		socket, err := session.Descriptor(c, int(int32(c.Args[0])))
		if err != nil {
			break
		}
		if r := s.l.system.net.dialer.Send(dial.Datagram{Client: s.Name, Socket: socket, Addr: name, Flags: flags}); !r.Native {
			s.connected(session, c, r)
			return
		}
	}
	s.reply(session, c, intercept.Reply{})
}

// bind lets a datagram socket share its port with the relays of other services.
func (s *service) bind(session intercept.Session, c intercept.Call) {
	if socket, err := session.Descriptor(c, int(int32(c.Args[0]))); err == nil {
		s.l.system.net.dialer.Bind(socket)
		_ = unix.Close(socket)
	}
	s.reply(session, c, intercept.Reply{})
}
