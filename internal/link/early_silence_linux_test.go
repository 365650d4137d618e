package link

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
)

// A cable that is pulled right after data has arrived: its acknowledgement, which the kernel delays, must
// not leave the relay repeating the data, since each repetition is a sign of life.
func TestSilenceRightAfterDataIsFeltInTime(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for _, kind := range []fault.LinkKind{fault.Blackhole, fault.Partition, fault.HalfOpen} {
		for _, towards := range []string{"client", "server"} {
			if kind == fault.HalfOpen && towards == "server" {
				continue // its server's side looks idle
			}
			t.Run(string(kind)+" "+towards, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				from, to := net.Conn(b.server), b.client
				if towards == "server" {
					from, to = b.client, b.server
				}
				to.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2})
				setOption(t, to, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 1500)
				setOption(t, to, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
				say(t, from, to, "before")
				start := time.Now()
				b.install(t, rule("p", fault.LinkEffect{Kind: kind}))
				if err := fails(t, to); !errors.Is(err, syscall.ETIMEDOUT) {
					t.Fatalf("it sees %v", err)
				}
				if d := time.Since(start); d < 1400*time.Millisecond || d > 3*time.Second {
					t.Errorf("timed out after %v", d)
				}
				if n := b.Fired("p"); n == 0 {
					t.Error("a keepalive that was withheld must count")
				}
			})
		}
	}
}

// While a silence begins acknowledgements pass, and nothing else.
func TestSilenceBeginsAtOnce(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for range 10 {
		b := newBench(t)
		setOption(t, b.client, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
		say(t, b.server, b.client, "before")
		b.install(t, rule("p", fault.LinkEffect{Kind: fault.Blackhole}))
		b.client.Write([]byte("late"))
		b.server.Write([]byte("late"))
		time.Sleep(20 * time.Millisecond)
		if n := b.Fired("p"); n != 2 {
			t.Fatalf("fired %d, want both directions", n)
		}
		if err := silentFor(b.server, time.Millisecond); err != nil {
			t.Fatalf("server: %v", err)
		}
		if err := silentFor(b.client, time.Millisecond); err != nil {
			t.Fatalf("client: %v", err)
		}
		b.Lift("p")
		hear(t, b.server, "late")
		hear(t, b.client, "late")
	}
}

// What one rule withheld does not count for another that is installed later.
func TestLaterSilenceCountsAnew(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	b := newBench(t)
	say(t, b.client, b.server, "before")
	b.install(t, rule("p", fault.LinkEffect{Kind: fault.Blackhole}))
	closed := time.Now()
	b.client.CloseWrite()
	b.await(t, OpStall)
	b.install(t, rule("q", fault.LinkEffect{Kind: fault.Partition}))
	n := b.Fired("q")
	// The FIN is repeated after 200 ms at the soonest.
	if took := time.Since(closed); took > 190*time.Millisecond {
		t.Skip("this machine is too busy to tell: ", took)
	}
	if n != 0 {
		t.Errorf("q fired %d before anything was sent again", n)
	}
	b.Lift("p")
	for end := time.Now().Add(5 * time.Second); b.Fired("q") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("q withholds the FIN too, and did not fire")
		}
	}
	if err := silentFor(b.server, time.Millisecond); err != nil {
		t.Errorf("server: %v", err)
	}
	b.Lift("q")
	if err := fails(t, b.server); err != io.EOF {
		t.Errorf("server sees %v", err)
	}
}
