package http

import (
	"context"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"slices"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Client returns a client whose requests each have a connection of their own: a fault on one never
// shows in the next, and no request is sent twice behind the scenario's back.
func (Protocol) Client(dial protocol.Dialer, target spec.Target) protocol.Client {
	return client{target, &nethttp.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives:  true,
		DisableCompression: true,
	}}
}

// Asks names the question of Ready.
func (Protocol) Asks() string { return "GET /" }

// Ready wants an answer to GET / that is no server error: 404 too is said by a server that works.
func (p Protocol) Ready(ctx context.Context, dial protocol.Dialer, target spec.Target) error {
	c := p.Client(dial, target)
	defer func() { _ = c.Close() }()
	r, err := c.Do(ctx, spec.Operation{Method: "get"})
	switch {
	case err != nil:
		return err
	case r.TimedOut:
		return context.DeadlineExceeded
	case r.Status == 0:
		return errors.New(r.Error)
	case r.Status >= 500:
		return fmt.Errorf("it answered %s", r.Error)
	}
	return nil
}

type client struct {
	target    spec.Target
	transport *nethttp.Transport
}

func (c client) Do(ctx context.Context, op spec.Operation) (spec.Response, error) {
	known := func(m protocol.Method) bool { return m.Name == op.Method }
	if !slices.ContainsFunc(Protocol{}.Info().Methods, known) {
		return spec.Response{}, protocol.Unknown("http", op)
	}
	req, err := request(c.target, op)
	if err != nil {
		return spec.Response{}, fmt.Errorf("http: %s %s: %w", op.Method, c.target, err)
	}
	ctx, cancel := protocol.Bound(ctx, op)
	defer cancel()
	resp, err := c.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return protocol.Failed(op, spec.Response{}, err)
	}
	defer func() { _ = resp.Body.Close() }()
	r, err := response(resp)
	if err != nil {
		return protocol.Failed(op, r, err)
	}
	return r, nil
}

// Close ends connections that a request may have left.
func (c client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}
