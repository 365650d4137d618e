package tcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Client returns a client without a connection.
func (Protocol) Client(dial protocol.Dialer, target spec.Target) protocol.Client {
	return &client{dial: dial, target: target}
}

type client struct {
	dial   protocol.Dialer
	target spec.Target
	// kept is the connection that connect opened; nil where there is none.
	kept *connection
}

type connection struct {
	net.Conn
	r *bufio.Reader
}

func (c *client) Do(ctx context.Context, op spec.Operation) (spec.Response, error) {
	ctx, cancel := protocol.Bound(ctx, op)
	defer cancel()
	switch op.Method {
	case "send":
		data, ok := protocol.Text(op, "data")
		if !ok {
			return spec.Response{}, fmt.Errorf("tcp: send to %s: data is missing", c.target)
		}
		return c.send(ctx, op, data)
	case "connect":
		_ = c.Close()
		conn, err := c.open(ctx)
		if err != nil {
			return protocol.Failed(op, spec.Response{}, err)
		}
		c.kept = conn
		return spec.Response{OK: true}, nil
	case "close":
		_ = c.Close()
		return spec.Response{OK: true}, nil
	}
	return spec.Response{}, protocol.Unknown("tcp", op)
}

func (c *client) open(ctx context.Context) (*connection, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{conn, bufio.NewReader(conn)}, nil
}

func (c *client) send(ctx context.Context, op spec.Operation, data string) (spec.Response, error) {
	conn := c.kept
	if conn == nil {
		var err error
		if conn, err = c.open(ctx); err != nil {
			return protocol.Failed(op, spec.Response{}, err)
		}
		defer func() { _ = conn.Close() }()
	}
	var r spec.Response
	err := protocol.Within(ctx, conn, func() error {
		if _, err := io.WriteString(conn, line(data)); err != nil {
			return err
		}
		var err error
		r.Body, err = readLine(conn.r)
		return err
	})
	if err != nil {
		// What else comes on it would be taken for the answer to a later line.
		_ = c.Close()
		return protocol.Failed(op, r, err)
	}
	r.OK = true
	return r, nil
}

// Close closes the connection that connect opened.
func (c *client) Close() error {
	if c.kept == nil {
		return nil
	}
	err := c.kept.Close()
	c.kept = nil
	return err
}
