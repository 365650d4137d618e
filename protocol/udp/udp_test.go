package udp_test

import (
	"net"
	"testing"

	"github.com/squallhq/squall/protocol/protocoltest"
	"github.com/squallhq/squall/protocol/udp"
	"github.com/squallhq/squall/spec"
)

func TestConformance(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Protocol: udp.Protocol{},
		Serve: func(conn net.Conn) {
			buf := make([]byte, 64)
			n, _ := conn.Read(buf)
			_, _ = conn.Write(append([]byte("got "), buf[:n]...))
		},
		Op: spec.Operation{Method: "send", Args: map[string]any{"data": "a\x00b"}},
		Check: func(t *testing.T, r spec.Response) {
			if !r.OK || r.Body != "got a\x00b" {
				t.Errorf("%+v", r)
			}
		},
		Missing: []spec.Operation{{Method: "send"}},
	})
}
