// Package udp is plain UDP: one datagram out, one datagram back.
package udp

import "github.com/squallhq/squall/protocol"

// Protocol is plain UDP.
type Protocol struct{}

// Info describes it.
func (Protocol) Info() protocol.Info {
	return protocol.Info{
		Name: "udp", Doc: "datagrams over UDP", Datagram: true,
		Methods: []protocol.Method{{
			Name: "send", Doc: "sends one datagram and waits for one",
			Params: []protocol.Param{{Name: "data", Type: "bytes", Required: true, Doc: "the datagram's content"}},
		}},
	}
}
