// Package protocoltest is what every protocol's client has to keep to.
package protocoltest

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Suite is a protocol and a server that speaks it.
type Suite struct {
	Protocol protocol.Protocol
	// Serve answers one connection; it returns once that has ended. For a protocol over datagrams it
	// is called once for each.
	Serve func(net.Conn)
	// Op is a step that Serve answers well.
	Op spec.Operation
	// Check looks at the answer to Op.
	Check func(*testing.T, spec.Response)
	// Missing are operations that lack an argument.
	Missing []spec.Operation
}

// Run tests the protocol's client.
func Run(t *testing.T, s Suite) {
	t.Run("info", func(t *testing.T) { s.info(t) })
	t.Run("answer", func(t *testing.T) { s.answer(t) })
	t.Run("refused", func(t *testing.T) { s.refused(t) })
	t.Run("silence", func(t *testing.T) { s.silence(t) })
	t.Run("given up", func(t *testing.T) { s.givenUp(t) })
	t.Run("impossible", func(t *testing.T) { s.impossible(t) })
	t.Run("garbage", func(t *testing.T) { s.garbage(t) })
	if !s.Protocol.Info().Datagram {
		t.Run("closed", func(t *testing.T) { s.ended(t, false, "connection closed") })
		t.Run("reset", func(t *testing.T) { s.ended(t, true, "connection reset") })
	}
}

func (s Suite) info(t *testing.T) {
	i := s.Protocol.Info()
	if !regexp.MustCompile(`^[a-z][a-z0-9]*$`).MatchString(i.Name) || i.Doc == "" {
		t.Errorf("name %q, doc %q", i.Name, i.Doc)
	}
	methods := map[string]bool{}
	for _, m := range i.Methods {
		if methods[m.Name] || m.Name == "" || m.Doc == "" {
			t.Errorf("method %q is repeated, or has no name or doc", m.Name)
		}
		methods[m.Name] = true
		params := map[string]bool{}
		for _, p := range m.Params {
			if params[p.Name] || p.Name == "" || p.Doc == "" || !slices.Contains([]string{"string", "int", "bytes", "map"}, p.Type) {
				t.Errorf("%s: parameter %+v", m.Name, p)
			}
			params[p.Name] = true
		}
	}
	if !methods[s.Op.Method] {
		t.Errorf("the suite's method %q is not listed", s.Op.Method)
	}
}

func (s Suite) answer(t *testing.T) {
	c := s.client(t, s.Serve)
	for range 3 {
		s.Check(t, do(t, c, s.Op))
	}
}

// refused: a failed step is a result, the same each time, and the next one is not the worse for it.
func (s Suite) refused(t *testing.T) {
	refuse := true
	good := s.listen(t, s.Serve)
	target := spec.Target{Service: "svc", Interface: "main", Protocol: s.Protocol.Info().Name, Port: 80}
	c := s.Protocol.Client(func(ctx context.Context) (net.Conn, error) {
		if refuse {
			addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 41234}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: syscall.ECONNREFUSED}
		}
		return good(ctx)
	}, target)
	defer func() { _ = c.Close() }()
	for range 2 {
		failed(t, do(t, c, s.Op), "connection refused")
	}
	refuse = false
	s.Check(t, do(t, c, s.Op))
}

// silence: a server that takes everything and answers nothing ends with the step's time.
func (s Suite) silence(t *testing.T) {
	c := s.client(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	op := s.Op
	op.Timeout = 30 * time.Millisecond
	failed(t, do(t, c, op), "timeout after 30ms")
}

// givenUp: a step that the scenario cancels is no result.
func (s Suite) givenUp(t *testing.T) {
	reached := make(chan struct{}, 1)
	c := s.client(t, func(conn net.Conn) {
		reached <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-reached
		cancel()
	}()
	if r, err := c.Do(ctx, s.Op); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
}

func (s Suite) impossible(t *testing.T) {
	c := s.client(t, s.Serve)
	for _, op := range append(slices.Clone(s.Missing), spec.Operation{Method: "no-such-method"}) {
		if r, err := c.Do(t.Context(), op); err == nil {
			t.Errorf("%+v: %+v, want an error", op, r)
		}
	}
}

// garbage: whatever comes back, a client gives a result in time, and no panic.
func (s Suite) garbage(t *testing.T) {
	for i, text := range []string{"\x00\xff\xfe", "HTTP/1.1 ", "\r\n\r\n", "HTTP/9.9 999 \r\n\r\n", "-1\r\n", string(make([]byte, 5000))} {
		c := s.client(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_, _ = io.WriteString(conn, text)
		})
		op := s.Op
		op.Timeout = time.Second
		r := do(t, c, op)
		if r.OK == (r.Error != "") {
			t.Errorf("garbage %d: ok %v and error %q", i, r.OK, r.Error)
		}
		stable(t, r.Error)
	}
}

// ended: the server ends the connection once it has the request, by FIN or by RST.
func (s Suite) ended(t *testing.T, reset bool, want string) {
	c := s.client(t, func(conn net.Conn) {
		// The whole request is read first: a close with unread data would be a reset.
		_, _ = conn.Read(make([]byte, 64<<10))
		if reset {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
	})
	failed(t, do(t, c, s.Op), want)
}

// client returns a client of a server; when the test ends it wants all its connections closed.
func (s Suite) client(t *testing.T, serve func(net.Conn)) protocol.Client {
	t.Helper()
	dial := s.listen(t, serve)
	var mu sync.Mutex
	var conns []*counted
	c := s.Protocol.Client(func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		kept := &counted{Conn: conn, closed: make(chan struct{})}
		mu.Lock()
		conns = append(conns, kept)
		mu.Unlock()
		return kept, nil
	}, spec.Target{Service: "svc", Interface: "main", Protocol: s.Protocol.Info().Name, Port: 80})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			select {
			case <-conn.closed:
			case <-ctx.Done():
				t.Error("a connection outlives its client")
			}
		}
	})
	return c
}

type counted struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *counted) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// listen starts a server on the loopback and returns a dialer to it.
func (s Suite) listen(t *testing.T, serve func(net.Conn)) protocol.Dialer {
	t.Helper()
	if s.Protocol.Info().Datagram {
		return datagrams(t, serve)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return dialer("tcp", l.Addr())
}

func dialer(network string, to net.Addr) protocol.Dialer {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, to.String())
	}
}

// datagrams starts a server that shows each datagram to serve as a connection of its own.
func datagrams(t *testing.T, serve func(net.Conn)) protocol.Dialer {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		buf := make([]byte, 65535)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			serve(&datagram{PacketConn: pc, from: from, data: slices.Clone(buf[:n])})
		}
	})
	t.Cleanup(func() {
		_ = pc.Close()
		running.Wait()
	})
	return dialer("udp", pc.LocalAddr())
}

// datagram is one datagram as a connection: it can be read once and answered.
type datagram struct {
	net.PacketConn
	from net.Addr
	data []byte
	read bool
}

func (d *datagram) Read(p []byte) (int, error) {
	if d.read {
		return 0, io.EOF
	}
	d.read = true
	return copy(p, d.data), nil
}

func (d *datagram) Write(p []byte) (int, error) { return d.WriteTo(p, d.from) }
func (d *datagram) RemoteAddr() net.Addr        { return d.from }

func do(t *testing.T, c protocol.Client, op spec.Operation) spec.Response {
	t.Helper()
	r, err := c.Do(t.Context(), op)
	if err != nil {
		t.Fatalf("%s: %v", op.Method, err)
	}
	return r
}

func failed(t *testing.T, r spec.Response, want string) {
	t.Helper()
	if r.OK || r.Error != want {
		t.Errorf("ok %v, error %q, want %q", r.OK, r.Error, want)
	}
	stable(t, r.Error)
}

// stable: what a step says must not differ from run to run by an address or a port.
func stable(t *testing.T, text string) {
	t.Helper()
	if found := regexp.MustCompile(`(127\.0\.0\.1|\[::1\]|localhost)[:0-9]*`).FindString(text); found != "" {
		t.Errorf("%q has the address %s", text, found)
	}
}
