// Package tcp takes steps over a plain TCP connection: a line out, a line back.
package tcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// lineLimit bounds an answer.
const lineLimit = 1 << 20

// Protocol is plain TCP.
type Protocol struct{}

// Info implements protocol.Protocol.
func (Protocol) Info() protocol.Info {
	return protocol.Info{
		Name: "tcp", Doc: "a plain TCP connection, line by line",
		Methods: []protocol.Method{
			{Name: "send", Doc: "sends a line and returns the line that comes back", Params: []protocol.Param{
				{Name: "data", Type: "string", Required: true, Doc: "the line, without its end"},
			}},
			{Name: "connect", Doc: "opens a connection and closes it"},
		},
	}
}

// Client implements protocol.Protocol.
func (Protocol) Client(dial protocol.Dialer, _ spec.Target) protocol.Client { return client{dial} }

type client struct{ dial protocol.Dialer }

func (client) Close() error { return nil }

func (c client) Do(ctx context.Context, op spec.Operation) (spec.Response, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return spec.Response{Error: Explain(err)}, nil
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	switch op.Method {
	case "connect":
		return spec.Response{OK: true}, nil
	case "send":
		data, _ := op.Args["data"].(string)
		if strings.ContainsAny(data, "\r\n") {
			return spec.Response{}, fmt.Errorf("tcp: send: data holds an end of line")
		}
		line, err := exchange(conn, data)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return spec.Response{Body: line, Error: Explain(err)}, nil
		}
		return spec.Response{OK: true, Body: line}, nil
	}
	return spec.Response{}, fmt.Errorf("tcp: no method %q", op.Method)
}

func exchange(conn net.Conn, data string) (string, error) {
	if _, err := io.WriteString(conn, data+"\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, lineLimit)).ReadString('\n')
	if err == io.EOF && line != "" {
		err = io.ErrUnexpectedEOF
	}
	return strings.TrimRight(line, "\r\n"), err
}

// Explain says what went wrong with a connection, without addresses and ports that differ from run
// to run.
func Explain(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed in the middle of the answer"
	case errors.Is(err, io.EOF):
		return "connection closed without an answer"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}
