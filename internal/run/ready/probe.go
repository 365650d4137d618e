// Package ready asks services whether they are ready, and dials them as somebody within their network does.
package ready

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Timeout is how long a service may take where its healthcheck does not say.
const Timeout = 10 * time.Second

// Limit is how long a service may take to be ready.
func Limit(s *spec.Service) time.Duration {
	if s.Health != nil && s.Health.Timeout > 0 {
		return s.Health.Timeout
	}
	return Timeout
}

// The pause between two probes grows from the first to the last of these, so that quick services
// are not waited for and slow ones are not disturbed.
const (
	firstPause = time.Millisecond
	lastPause  = 20 * time.Millisecond
)

// ErrEnded is returned by Await when the service's process has ended.
var ErrEnded = errors.New("its process ended")

// Service is a service that can be asked.
type Service struct {
	*spec.Service
	Network Network
	// Find finds its protocols.
	Find func(name string) (protocol.Protocol, bool)
}

// Network is a service's network.
type Network interface {
	// Dial connects to a literal address in it.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Listening reports whether somebody listens at a TCP port of loopback, Bound the same of UDP.
	Listening(port int) (v4, v6 bool)
	Bound(port int) (v4, v6 bool)
}

// probe asks a service whether it is ready.
type probe struct {
	// tried says in words what one attempt is.
	tried string
	// once is one attempt; nil means ready.
	once func(ctx context.Context) error
}

// Await asks until the service is ready, its process ends or the time is up; the error then says what was tried and
// what was answered last.
func Await(ctx context.Context, clock vtime.Clock, s Service, ended <-chan struct{}) error {
	return await(ctx, clock, s.probe(), Limit(s.Service), ended)
}

// probe returns how the service is asked. Without a healthcheck, a service is ready when something listens at each of
// its ports, and accepts at each of its sockets.
func (s Service) probe() probe {
	h := s.Health
	if h == nil {
		return probe{"", func(ctx context.Context) error { return allListen(ctx, s.Service, s.Network) }}
	}
	switch h.Kind {
	case "http":
		return probe{"GET " + h.Address, func(ctx context.Context) error { return probeHTTP(ctx, h, s.Network) }}
	case "ready":
		return s.question()
	}
	return probe{"a connection to " + h.Address, func(ctx context.Context) error {
		conn, err := dialHealth(ctx, s.Network, h.Address)
		if err != nil {
			return err
		}
		return conn.Close()
	}}
}

// question asks an interface in the terms of its protocol.
func (s Service) question() probe {
	for _, face := range s.Interfaces {
		p, ok := s.Find(face.Protocol)
		if face.Name != s.Health.Address || !ok {
			continue
		}
		t := spec.Target{Service: s.Name, Interface: face.Name, Protocol: face.Protocol, Port: face.Port, Path: face.Path, Env: s.Env}
		at := "port " + strconv.Itoa(face.Port)
		if face.Path != "" {
			at = face.Path
		}
		what := "a connection to "
		if prober, ok := p.(protocol.Prober); ok {
			what = prober.Asks() + " at "
		}
		return probe{what + t.String() + " (" + at + ")", func(ctx context.Context) error {
			return protocol.Ready(ctx, p, Dialer(s.Network, t, p.Info().Datagram), t)
		}}
	}
	return probe{"", func(context.Context) error { return fmt.Errorf("there is no interface %q to ask", s.Health.Address) }}
}

func allListen(ctx context.Context, s *spec.Service, n Network) error {
	for _, i := range s.Interfaces {
		if i.Path != "" {
			// A file that a program left behind looks like a listener until somebody connects.
			conn, err := dialSocket(ctx, i.Path)
			if err != nil {
				return fmt.Errorf("nothing accepts at %s: %w", i.Path, errors.Unwrap(err))
			}
			_ = conn.Close()
			continue
		}
		look := n.Listening
		if i.Protocol == "udp" {
			look = n.Bound
		}
		if v4, v6 := look(i.Port); !v4 && !v6 {
			return fmt.Errorf("nothing listens at port %d", i.Port)
		}
	}
	return nil
}

// dialHealth connects to a healthcheck's address: a literal one as it is, any name as the
// service's own loopback, since a healthcheck speaks of its own service.
func dialHealth(ctx context.Context, n Network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return n.Dial(ctx, "tcp", address)
	}
	return dialLocal(ctx, n, "tcp", port)
}

// bodyLooked is how much of an answer is searched for the text that a healthcheck wants.
const bodyLooked = 1 << 20

func probeHTTP(ctx context.Context, h *spec.Health, n Network) error {
	url := strings.TrimPrefix(h.Address, "http://")
	host, path, _ := strings.Cut(url, "/")
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, "80")
	}
	conn, err := dialHealth(ctx, n, host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/"+path, nil)
	if err != nil {
		return err
	}
	req.Close = true
	if err := req.Write(conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	wanted := resp.StatusCode >= 200 && resp.StatusCode <= 399
	if len(h.Statuses) > 0 {
		wanted = slices.Contains(h.Statuses, resp.StatusCode)
	}
	if !wanted {
		return errors.New("it answered " + strconv.Itoa(resp.StatusCode))
	}
	if h.Body == "" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLooked))
	if err != nil {
		return err
	}
	if !strings.Contains(string(body), h.Body) {
		return fmt.Errorf("it answered %d, without %q in %q", resp.StatusCode, h.Body, body[:min(len(body), 200)])
	}
	return nil
}

// unready is a service that did not become ready in its time.
type unready struct {
	after time.Duration
	tried string
	times int
	// last is what came of the last attempt.
	last error
}

func (e *unready) Error() string {
	if e.tried == "" {
		return fmt.Sprintf("not ready after %s: %v", e.after, e.last)
	}
	attempts := "tried once"
	if e.times > 1 {
		attempts = fmt.Sprintf("tried %d times", e.times)
	}
	return fmt.Sprintf("not ready after %s: %s, %s; at last: %s", e.after, e.tried, attempts, e.why())
}

// why leaves out the words of Go's network package around what happened.
func (e *unready) why() string {
	var at *net.OpError
	switch {
	case errors.Is(e.last, context.DeadlineExceeded) || errors.Is(e.last, os.ErrDeadlineExceeded):
		return "no answer"
	case errors.Is(e.last, io.EOF) || errors.Is(e.last, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer"
	case errors.As(e.last, &at):
		return strings.TrimPrefix(strings.TrimPrefix(at.Err.Error(), "connect: "), "read: ")
	}
	return e.last.Error()
}

func (e *unready) Unwrap() error { return e.last }

// attemptLimit bounds one attempt, so that one that is not answered is no wait for ever. What came of one that had
// less than shortAttempt, since the time was up, says nothing.
const (
	attemptLimit = 2 * time.Second
	shortAttempt = 100 * time.Millisecond
)

// await is Await with a probe; its error is an *unready where the time is up.
func await(ctx context.Context, clock vtime.Clock, p probe, timeout time.Duration, ended <-chan struct{}) error {
	deadline := clock.Now() + timeout
	pause := firstPause
	var last error
	for times := 1; ; times++ {
		limit := min(attemptLimit, max(deadline-clock.Now(), time.Millisecond))
		attempt, cancel := context.WithTimeout(ctx, limit)
		err := p.once(attempt)
		if last == nil || limit >= shortAttempt || attempt.Err() == nil {
			last = err
		}
		cancel()
		select {
		case <-ended:
			return ErrEnded
		default:
		}
		if err == nil {
			return nil
		}
		if clock.Now() >= deadline {
			return &unready{timeout, p.tried, times, last}
		}
		if err := vtime.Sleep(ctx, clock, pause); err != nil {
			return err
		}
		pause = min(pause*2, lastPause)
	}
}
