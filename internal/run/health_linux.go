package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// readyTimeout is how long a service may take where its healthcheck does not say.
const readyTimeout = 10 * time.Second

// The pause between two probes grows from the first to the last of these, so that quick services
// are not waited for and slow ones are not disturbed.
const (
	firstPause = time.Millisecond
	lastPause  = 20 * time.Millisecond
)

// errEnded is returned by a probe loop when the service's process has ended.
var errEnded = errors.New("its process ended")

// probe is one attempt; nil means ready.
type probe func(ctx context.Context) error

// dialing makes connections inside a service's network.
type dialing interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// listening is a network whose listeners can be seen.
type listening interface {
	dialing
	Listening(port int) (v4, v6 bool)
	Bound(port int) (v4, v6 bool)
}

// probeFor returns the probe of a service. Without a healthcheck, a service is ready when
// something listens at each of its ports.
func probeFor(s *spec.Service, n listening) probe {
	h := s.Health
	if h == nil {
		return func(context.Context) error { return allListen(s, n) }
	}
	if h.Kind == "http" {
		return func(ctx context.Context) error { return probeHTTP(ctx, h.Address, n) }
	}
	return func(ctx context.Context) error {
		conn, err := dialHealth(ctx, n, h.Address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func allListen(s *spec.Service, n listening) error {
	for _, i := range s.Interfaces {
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
func dialHealth(ctx context.Context, n dialing, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return n.Dial(ctx, "tcp", address)
	}
	return dialLocal(ctx, n, "tcp", port)
}

func probeHTTP(ctx context.Context, url string, n dialing) error {
	url = strings.TrimPrefix(url, "http://")
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
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return errors.New("it answered " + strconv.Itoa(resp.StatusCode))
	}
	return nil
}

// await probes until the service is ready, its process ends or the time is up; the error then has
// the last probe's in it.
func await(ctx context.Context, clock vtime.Clock, p probe, timeout time.Duration, ended <-chan struct{}) error {
	deadline := clock.Now() + timeout
	pause := firstPause
	for {
		attempt, cancel := context.WithTimeout(ctx, min(2*time.Second, max(deadline-clock.Now(), time.Millisecond)))
		err := p(attempt)
		cancel()
		select {
		case <-ended:
			return errEnded
		default:
		}
		if err == nil {
			return nil
		}
		if clock.Now() >= deadline {
			return fmt.Errorf("not ready after %s: %w", timeout, err)
		}
		if err := vtime.Sleep(ctx, clock, pause); err != nil {
			return err
		}
		pause = min(pause*2, lastPause)
	}
}
