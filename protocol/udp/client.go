package udp

import (
	"context"
	"fmt"
	"io"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// maxDatagram is the most that a datagram can hold.
const maxDatagram = 65535

// Client returns a client; each step has a socket of its own, so that no late answer is taken for
// another step's.
func (Protocol) Client(dial protocol.Dialer, target spec.Target) protocol.Client {
	return client{dial, target}
}

type client struct {
	dial   protocol.Dialer
	target spec.Target
}

func (c client) Do(ctx context.Context, op spec.Operation) (spec.Response, error) {
	if op.Method != "send" {
		return spec.Response{}, protocol.Unknown("udp", op)
	}
	data, ok := protocol.Text(op, "data")
	if !ok {
		return spec.Response{}, fmt.Errorf("udp: send to %s: data is missing", c.target)
	}
	ctx, cancel := protocol.Bound(ctx, op)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return protocol.Failed(op, spec.Response{}, err)
	}
	defer func() { _ = conn.Close() }()
	r := spec.Response{}
	err = protocol.Within(ctx, conn, func() error {
		if _, err := io.WriteString(conn, data); err != nil {
			return err
		}
		answer := make([]byte, maxDatagram)
		n, err := conn.Read(answer)
		r.Body = string(answer[:n])
		return err
	})
	if err != nil {
		return protocol.Failed(op, r, err)
	}
	r.OK = true
	return r, nil
}

// Close does nothing: no connection outlives its step.
func (client) Close() error { return nil }
