package http_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/http"
	"github.com/squallhq/squall/protocol/protocoltest"
	"github.com/squallhq/squall/spec"
)

func TestConformance(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Protocol: http.Protocol{},
		Serve: func(conn net.Conn) {
			if req, err := nethttp.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(req.URL.Path), req.URL.Path)
			}
		},
		Op: spec.Operation{Method: "get", Args: map[string]any{"path": "/orders"}},
		Check: func(t *testing.T, r spec.Response) {
			if !r.OK || r.Status != 200 || r.Body != "/orders" || r.Error != "" {
				t.Errorf("%+v", r)
			}
		},
		Missing: []spec.Operation{
			{Method: "get", Args: map[string]any{"headers": "x"}},
			{Method: "get", Args: map[string]any{"headers": map[string]any{"a": 1}}},
			{Method: "get", Args: map[string]any{"path": "/%zz"}},
			{Method: "post", Args: map[string]any{"body": map[string]any{"f": func() {}}}},
		},
	})
}

// server starts a real server and returns a client of it, and a count of its connections.
func server(t *testing.T, h nethttp.HandlerFunc) (protocol.Client, *int) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	dials := 0
	c := http.Protocol{}.Client(func(ctx context.Context) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}, spec.Target{Service: "api", Interface: "http", Port: 8080})
	return c, &dials
}

func do(t *testing.T, c protocol.Client, method string, args map[string]any) spec.Response {
	t.Helper()
	r, err := c.Do(t.Context(), spec.Operation{Method: method, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRequests(t *testing.T) {
	c, dials := server(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s host=%s type=%s x=%s te=%v%s", r.Method, r.URL.RequestURI(), r.Host, r.Header.Get("Content-Type"), r.Header.Get("X-A"), r.TransferEncoding, r.Header.Get("Accept-Encoding")))
		_, _ = w.Write(body)
	})
	for i, tc := range []struct {
		method     string
		args       map[string]any
		seen, body string
	}{
		{"get", nil, "GET / host=localhost:8080 type= x= te=[]", ""},
		{"get", map[string]any{"path": "/a/b?c=d%20e"}, "GET /a/b?c=d%20e host=localhost:8080 type= x= te=[]", ""},
		{"get", map[string]any{"path": "orders"}, "GET /orders host=localhost:8080 type= x= te=[]", ""},
		{"head", map[string]any{"path": "/x"}, "HEAD /x host=localhost:8080 type= x= te=[]", ""},
		{"post", map[string]any{"body": `{"n":1}`}, "POST / host=localhost:8080 type=application/json x= te=[]", `{"n":1}`},
		{"post", map[string]any{"body": `[1`}, "POST / host=localhost:8080 type=text/plain; charset=utf-8 x= te=[]", `[1`},
		{"put", map[string]any{"body": map[string]any{"b": int64(1), "a": []any{"x", nil}}}, "PUT / host=localhost:8080 type=application/json x= te=[]", `{"a":["x",null],"b":1}`},
		{"patch", map[string]any{"body": []byte("hello")}, "PATCH / host=localhost:8080 type=text/plain; charset=utf-8 x= te=[]", "hello"},
		{"delete", map[string]any{"path": "/x", "headers": map[string]any{"x-a": "1", "Host": "shop.test", "Content-Type": "a/b"}}, "DELETE /x host=shop.test type=a/b x=1 te=[]", ""},
	} {
		r := do(t, c, tc.method, tc.args)
		headers, _ := r.Fields["headers"].(map[string]any)
		if headers["x-seen"] != tc.seen || r.Body != tc.body || !r.OK {
			t.Errorf("%s: seen %q, body %q, ok %v", tc.method, headers["x-seen"], r.Body, r.OK)
		}
		if *dials != i+1 {
			t.Errorf("%d requests on %d connections", i+1, *dials)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		status int
		ok     bool
		says   string
	}{
		{200, true, ""}, {204, true, ""}, {302, true, ""}, {399, true, ""},
		{400, false, "400 Bad Request"}, {503, false, "503 Service Unavailable"}, {599, false, "599"},
	} {
		c, dials := server(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(tc.status)
		})
		r := do(t, c, "get", nil)
		if r.Status != tc.status || r.OK != tc.ok || r.Error != tc.says || *dials != 1 {
			t.Errorf("%d: %+v, %d connections", tc.status, r, *dials)
		}
	}
}

func TestLongAndCutAnswers(t *testing.T) {
	for _, tc := range []struct {
		name      string
		announced int
		sent      int
		kept      int
		truncated any
		says      string
	}{
		{"just fits", 1 << 20, 1 << 20, 1 << 20, nil, ""},
		// So long that the server only ends once the client has closed.
		{"longer", 64 << 20, 64 << 20, 1 << 20, true, ""},
		{"longer by one", 1<<20 + 1, 1<<20 + 1, 1 << 20, true, ""},
		{"cut in the middle", 1000, 10, 10, nil, "connection closed"},
	} {
		c, _ := server(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(tc.announced))
			_, _ = io.WriteString(w, strings.Repeat("x", tc.sent))
		})
		r := do(t, c, "get", nil)
		if r.Status != 200 || len(r.Body) != tc.kept || r.Fields["truncated"] != tc.truncated || r.Error != tc.says || r.OK != (tc.says == "") {
			t.Errorf("%s: status %d, %d bytes, %v, ok %v, error %q", tc.name, r.Status, len(r.Body), r.Fields["truncated"], r.OK, r.Error)
		}
	}
}

// A server that answers the headers and then nothing is bounded by the step's time as well.
func TestSilenceInTheBody(t *testing.T) {
	c, _ := server(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "12345")
		w.(nethttp.Flusher).Flush()
		<-r.Context().Done()
	})
	r, err := c.Do(t.Context(), spec.Operation{Method: "get", Timeout: 50 * time.Millisecond})
	if err != nil || r.OK || r.Status != 200 || r.Body != "12345" || r.Error != "timeout after 50ms" {
		t.Errorf("%+v, %v", r, err)
	}
}
