package run

import (
	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/run/args"
)

// peer says whom a call's socket is connected with, or is about to be; nil where the service has not made that
// connection itself, or it leads to nothing that is declared.
func (s *service) peer(session intercept.Session, c intercept.Call, f fault.Family) *inject.Peer {
	if f.Descriptor < 0 {
		return nil
	}
	socket, err := session.Descriptor(c, int(int32(c.Args[f.Descriptor])))
	if err != nil {
		return nil
	}
	defer unix.Close(socket)
	var address []byte
	switch {
	case c.Name == "connect":
		address = args.SocketAddress(session, c, c.Args[1], c.Args[2])
	case c.Name == "sendto" && c.Args[4] != 0:
		address = args.SocketAddress(session, c, c.Args[4], c.Args[5])
	}
	flow, ok := s.l.system.net.dialer.Peer(s.Name, socket, address)
	if !ok {
		return nil
	}
	return &inject.Peer{Client: flow.Client, Server: flow.Server, Interface: flow.Interface}
}
