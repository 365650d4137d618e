// Package http takes steps over HTTP/1.1.
package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/tcp"
	"github.com/squallhq/squall/spec"
)

// bodyLimit bounds an answer's body.
const bodyLimit = 1 << 20

// Protocol is HTTP/1.1.
type Protocol struct{}

// Info implements protocol.Protocol.
func (Protocol) Info() protocol.Info {
	params := []protocol.Param{
		{Name: "path", Type: "string", Doc: "path and query; / if not given"},
		{Name: "body", Type: "bytes", Doc: "the body; a dict is sent as JSON"},
		{Name: "headers", Type: "map", Doc: "header fields"},
	}
	info := protocol.Info{Name: "http", Doc: "HTTP/1.1, each step on a connection of its own"}
	for _, m := range []string{"get", "post", "put", "patch", "delete", "head"} {
		info.Methods = append(info.Methods, protocol.Method{Name: m, Doc: "sends a " + strings.ToUpper(m) + " request", Params: params})
	}
	return info
}

// Client implements protocol.Protocol.
func (Protocol) Client(dial protocol.Dialer, target spec.Target) protocol.Client {
	t := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true, DisableCompression: true, Proxy: nil,
	}
	return client{transport: t, host: fmt.Sprintf("localhost:%d", target.Port)}
}

type client struct {
	transport *http.Transport
	host      string
}

func (c client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

func (c client) Do(ctx context.Context, op spec.Operation) (spec.Response, error) {
	req, err := c.request(ctx, op)
	if err != nil {
		return spec.Response{}, fmt.Errorf("http: %s: %w", op.Method, err)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return spec.Response{Error: explain(ctx, err)}, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
	out := spec.Response{
		Status: resp.StatusCode, OK: err == nil && resp.StatusCode >= 200 && resp.StatusCode < 400, Body: string(body),
		Fields: map[string]any{"headers": headers(resp.Header)},
	}
	if err != nil {
		out.Error = explain(ctx, err)
	}
	return out, nil
}

func explain(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return tcp.Explain(err)
}

func headers(h http.Header) map[string]any {
	out := map[string]any{}
	for k, v := range h {
		out[strings.ToLower(k)] = strings.Join(v, ", ")
	}
	return out
}

func (c client) request(ctx context.Context, op spec.Operation) (*http.Request, error) {
	path, _ := op.Args["path"].(string)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	body, kind, err := encode(op.Args["body"])
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(op.Method), "http://"+c.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	fields, _ := op.Args["headers"].(map[string]any)
	for k, v := range fields {
		req.Header.Set(k, fmt.Sprint(v))
	}
	return req, nil
}

// encode returns a body and its media type: text as it is, anything else as JSON.
func encode(v any) ([]byte, string, error) {
	switch b := v.(type) {
	case nil:
		return nil, "", nil
	case string:
		if json.Valid([]byte(b)) && b != "" {
			return []byte(b), "application/json", nil
		}
		return []byte(b), "text/plain; charset=utf-8", nil
	case []byte:
		return b, "application/octet-stream", nil
	}
	b, err := json.Marshal(v)
	return b, "application/json", err
}
