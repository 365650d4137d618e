package link

import (
	"github.com/squallhq/squall/internal/link/message"
)

// mediated is a server-side connection on whose messages rules act.
type mediated struct {
	*message.Conn
	// socket is the connection itself, for what is done to its kernel's end.
	socket Conn
	quiet  silencer
}

func (m *mediated) silence(on bool) error { return m.quiet.silence(on) }
func (m *mediated) withheld() bool        { return m.quiet.withheld() }
func (m *mediated) anew() error           { return m.quiet.anew() }

// mediate puts message rules into a connection to a server, where the configuration wants that.
func (n *Network) mediate(f Flow, server Conn) Conn {
	if n.cfg.Messages == nil {
		return server
	}
	cfg, ok := n.cfg.Messages(f)
	if !ok {
		return server
	}
	cfg.Clock = n.cfg.Clock
	return &mediated{message.New(cfg, server), server, silencerOf(server, n.cfg.Clock)}
}

// serve runs what a mediated connection needs beside the relay's halves.
func (n *Network) serve(c Conn) {
	if m, ok := c.(*mediated); ok {
		m.Run(newSentinel(m.socket).watch)
	}
}

// underneath is the socket of a connection.
func underneath(c Conn) Conn {
	if m, ok := c.(*mediated); ok {
		return m.socket
	}
	return c
}
