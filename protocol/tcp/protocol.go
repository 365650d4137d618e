// Package tcp is plain TCP: lines of text, for services with a protocol of their own.
package tcp

import "github.com/squallhq/squall/protocol"

// Protocol is plain TCP.
type Protocol struct{}

// Info describes it.
func (Protocol) Info() protocol.Info {
	return protocol.Info{
		Name: "tcp",
		Doc:  "lines of text over TCP",
		Methods: []protocol.Method{
			{
				Name: "send",
				Doc:  "sends one line and reads one line; on a connection of its own, or on the one that connect opened",
				Params: []protocol.Param{
					{Name: "data", Type: "bytes", Required: true, Doc: "the line; a line feed is added where it has none"},
				},
			},
			{Name: "connect", Doc: "opens a connection that later steps use, in place of an earlier one"},
			{Name: "close", Doc: "closes the connection that connect opened"},
		},
	}
}
