package ready

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Dialer connects to an interface of a service, inside the service's own network.
func Dialer(n Network, t spec.Target, datagram bool) protocol.Dialer {
	if t.Path != "" {
		return func(ctx context.Context) (net.Conn, error) { return dialSocket(ctx, t.Path) }
	}
	kind := "tcp"
	if datagram {
		kind = "udp"
	}
	return func(ctx context.Context) (net.Conn, error) {
		return dialLocal(ctx, n, kind, strconv.Itoa(t.Port))
	}
}

// dialSocket connects to a Unix socket, which is among the files that the whole world shares.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// dialLocal tries 127.0.0.1 and then ::1, as a program that asks for localhost does.
func dialLocal(ctx context.Context, n Network, kind, port string) (net.Conn, error) {
	conn, err := n.Dial(ctx, kind, net.JoinHostPort("127.0.0.1", port))
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
		return conn, err
	}
	if conn, err6 := n.Dial(ctx, kind, net.JoinHostPort("::1", port)); err6 == nil {
		return conn, nil
	}
	return nil, err
}
