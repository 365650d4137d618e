package http_test

import (
	"context"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/protocol/http"
	"github.com/squallhq/squall/spec"
)

// TestReady has servers that are up, and are ready or not.
func TestReady(t *testing.T) {
	for name, tc := range map[string]struct {
		serve nethttp.HandlerFunc
		want  string
	}{
		"hello":     {func(nethttp.ResponseWriter, *nethttp.Request) {}, ""},
		"not found": {nethttp.NotFound, ""},
		"redirect": {func(w nethttp.ResponseWriter, r *nethttp.Request) {
			nethttp.Redirect(w, r, "/login", nethttp.StatusFound)
		}, ""},
		"starting": {func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(503) }, "it answered 503 Service Unavailable"},
		"hangs up": {func(nethttp.ResponseWriter, *nethttp.Request) { panic(nethttp.ErrAbortHandler) }, "connection closed"},
		"silent":   {func(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() }, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tc.serve)
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if tc.want == "" {
				ctx, cancel = context.WithCancel(t.Context())
			}
			defer cancel()
			dial := func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
			}
			err := http.Protocol{}.Ready(ctx, dial, spec.Target{Port: 80})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestSocketHasNoPort(t *testing.T) {
	client, server := net.Pipe()
	host := make(chan string, 1)
	go func() {
		_ = nethttp.Serve(&once{conn: server}, nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) { host <- r.Host }))
	}()
	c := http.Protocol{}.Client(func(context.Context) (net.Conn, error) { return client, nil }, spec.Target{Path: "/run/a.sock"})
	defer c.Close()
	if r, err := c.Do(t.Context(), spec.Operation{Method: "get"}); err != nil || !r.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := <-host; got != "localhost" {
		t.Errorf("the host is %q", got)
	}
}

// once is a listener with one connection.
type once struct{ conn net.Conn }

func (o *once) Accept() (net.Conn, error) {
	if o.conn == nil {
		return nil, net.ErrClosed
	}
	c := o.conn
	o.conn = nil
	return c, nil
}

func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.UnixAddr{Name: "/run/a.sock", Net: "unix"} }
