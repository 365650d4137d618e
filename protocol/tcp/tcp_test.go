package tcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/protocoltest"
	"github.com/squallhq/squall/protocol/tcp"
	"github.com/squallhq/squall/spec"
)

func send(data string) spec.Operation {
	return spec.Operation{Method: "send", Args: map[string]any{"data": data}}
}

func TestConformance(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Protocol: tcp.Protocol{},
		Serve:    echo,
		Op:       send("hello"),
		Check: func(t *testing.T, r spec.Response) {
			if !r.OK || r.Body != "1 hello" || r.Error != "" {
				t.Errorf("%+v", r)
			}
		},
		Missing: []spec.Operation{{Method: "send"}, {Method: "send", Args: map[string]any{"data": 3}}},
	})
}

// echo answers each line with its number on this connection.
func echo(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	for n := 1; lines.Scan(); n++ {
		_, _ = fmt.Fprintf(conn, "%d %s\r\n", n, lines.Text())
	}
}

// script returns a client of a server that answers each connection's first line with answer and then
// closes it.
func script(t *testing.T, answer string) protocol.Client {
	return clientOf(t, func(conn net.Conn) {
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, answer)
	})
}

func clientOf(t *testing.T, serve func(net.Conn)) protocol.Client {
	return tcp.Protocol{}.Client(func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer func() { _ = there.Close() }()
			serve(there)
		}()
		return here, nil
	}, spec.Target{Service: "svc", Interface: "main"})
}

func do(t *testing.T, c protocol.Client, op spec.Operation) spec.Response {
	t.Helper()
	r, err := c.Do(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLines(t *testing.T) {
	for _, tc := range []struct {
		name, answer, body, failure string
	}{
		{"a line", "ok\n", "ok", ""},
		{"an empty line", "\n", "", ""},
		{"CR LF", "ok\r\n", "ok", ""},
		{"more than a line", "ok\nmore\n", "ok", ""},
		{"no answer", "", "", "connection closed"},
		{"half a line", "o", "o", "connection closed"},
		{"a long line", strings.Repeat("x", 100_000) + "\n", strings.Repeat("x", 100_000), ""},
		{"a line without an end", strings.Repeat("x", 2<<20), strings.Repeat("x", 1<<20), "the line is longer than 1 MiB"},
	} {
		r := do(t, script(t, tc.answer), send("hello"))
		if r.Body != tc.body || r.Error != tc.failure || r.OK != (tc.failure == "") {
			t.Errorf("%s: ok %v, %d bytes, error %q", tc.name, r.OK, len(r.Body), r.Error)
		}
	}
}

func TestConnectKeepsAConnectionForLaterSteps(t *testing.T) {
	c := clientOf(t, echo)
	defer func() { _ = c.Close() }()
	op := func(m string) spec.Operation { return spec.Operation{Method: m} }
	var got []string
	for _, o := range []spec.Operation{send("a"), send("b"), op("connect"), send("c"), send("d\n"), send("x"), op("connect"), send("e"), op("close"), send("f"), op("close")} {
		if r := do(t, c, o); r.OK {
			got = append(got, strings.TrimSpace(r.Body))
		} else {
			t.Errorf("%+v: %s", o, r.Error)
		}
	}
	if want := "1 a,1 b,,1 c,2 d,3 x,,1 e,,1 f,"; strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", strings.Join(got, ","), want)
	}
}

// After a step that failed, an answer that comes late must not be taken for another step's.
func TestAFailedStepGivesItsConnectionUp(t *testing.T) {
	n := 0
	c := clientOf(t, func(conn net.Conn) {
		if n++; n > 1 {
			echo(conn)
		}
	})
	do(t, c, spec.Operation{Method: "connect"})
	if r := do(t, c, send("a")); r.OK {
		t.Errorf("%+v", r)
	}
	if r := do(t, c, send("b")); r.Body != "1 b" {
		t.Errorf("%+v", r)
	}
}
