package link

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
)

// await waits until a record of an operation is there.
func (j *journal) await(t *testing.T, op Op) Record {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		j.mu.Lock()
		i := slices.IndexFunc(j.recs, func(r Record) bool { return r.Op == op })
		if i >= 0 {
			defer j.mu.Unlock()
			return j.recs[i]
		}
		j.mu.Unlock()
	}
	t.Fatalf("no record %q in %v", op, j.ops())
	return Record{}
}

// tcpPair returns two connected sockets of loopback.
func tcpPair(t testing.TB) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	a, b := loosePair(t)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// loosePair is tcpPair for sockets that somebody else has to close.
func loosePair(t testing.TB) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// bench is a network with one relayed flow, api > db.pg.
type bench struct {
	*Network
	journal
	client, server *net.TCPConn
	flow           Flow
}

func newBench(t testing.TB, rules ...fault.Rule) *bench {
	t.Helper()
	b := &bench{}
	b.Network = New(Config{Seed: 1, Record: b.add, Join: true, Messages: through(t)})
	b.joining.after = 0
	t.Cleanup(b.Close)
	if err := b.Install(rules...); err != nil {
		t.Fatal(err)
	}
	b.client, b.server, b.flow = b.connect(t)
	return b
}

func (b *bench) connect(t testing.TB) (client, server *net.TCPConn, f Flow) {
	t.Helper()
	client, c := loosePair(t)
	s, server := loosePair(t)
	// The relay's own ends are its own to close; the leak check finds them otherwise.
	t.Cleanup(func() { client.Close(); server.Close() })
	f = b.Open("api", "db", "pg")
	if err := b.Relay(f, peered{c, client}, peered{s, server}); err != nil {
		t.Fatal(err)
	}
	return client, server, f
}

// peered is an end of the relay that knows its other end.
type peered struct {
	*net.TCPConn
	peer *net.TCPConn
}

func (p peered) Peer() (fd int, err error) {
	raw, err := p.peer.SyscallConn()
	if err != nil {
		return -1, err
	}
	if e := raw.Control(func(f uintptr) { fd, err = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 0) }); e != nil {
		return -1, e
	}
	return fd, err
}

func say(t *testing.T, from, to net.Conn, text string) {
	t.Helper()
	if _, err := from.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	hear(t, to, text)
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	defer c.SetReadDeadline(time.Time{})
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("read %q, %v; want %q", got, err, text)
	}
}

// fails reads until an error and returns it.
func fails(t *testing.T, c net.Conn) error {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := io.Copy(io.Discard, c); err != nil {
		return err
	} else if n > 0 {
		t.Logf("%d bytes before EOF", n)
	}
	return io.EOF
}

func TestRelayCopiesBothWays(t *testing.T) {
	b := newBench(t)
	say(t, b.client, b.server, "hello")
	say(t, b.server, b.client, "world, hello")
	b.client.Close()
	if err := fails(t, b.server); err != io.EOF {
		t.Fatalf("server sees %v, want EOF", err)
	}
	b.server.Close()
	if r := b.await(t, OpClose); r.Up != 5 || r.Down != 12 || r.Flow.String() != "api>db.pg#1" {
		t.Errorf("close record %+v", r)
	}
}

func TestRelayPassesHalfCloseInItsOwnDirection(t *testing.T) {
	for _, staged := range []bool{false, true} {
		b := newBench(t)
		if staged {
			if err := b.Install(rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 10 * time.Millisecond})); err != nil {
				t.Fatal(err)
			}
		}
		say(t, b.client, b.server, "request")
		b.client.CloseWrite()
		if err := fails(t, b.server); err != io.EOF {
			t.Fatalf("server sees %v, want EOF", err)
		}
		say(t, b.server, b.client, "answer after the client's FIN")
		b.server.Close()
		if err := fails(t, b.client); err != io.EOF {
			t.Fatalf("client sees %v, want EOF", err)
		}
		b.await(t, OpClose)
	}
}

func TestRelayPassesResetAsReset(t *testing.T) {
	for _, staged := range []bool{false, true} {
		for _, fromClient := range []bool{false, true} {
			b := newBench(t)
			if staged {
				if err := b.Install(rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 10 * time.Millisecond})); err != nil {
					t.Fatal(err)
				}
			}
			say(t, b.client, b.server, "x")
			from, to := b.client, b.server
			way := fault.Up
			if !fromClient {
				from, to, way = to, from, fault.Down
			}
			from.SetLinger(0)
			from.Close()
			if err := fails(t, to); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("staged %v: other end sees %v, want ECONNRESET", staged, err)
			}
			if r := b.await(t, OpReset); r.Direction != way || r.Rule != "" {
				t.Errorf("record %+v", r)
			}
		}
	}
}

// A relay does not keep urgent data apart, but it keeps it.
func TestRelayPassesUrgentData(t *testing.T) {
	b := newBench(t)
	for _, ends := range [][2]*net.TCPConn{{b.client, b.server}, {b.server, b.client}} {
		say(t, ends[0], ends[1], "before")
		control(ends[0], func(fd int) {
			if err := unix.Sendto(fd, []byte("urgent"), unix.MSG_OOB, nil); err != nil {
				t.Error(err)
			}
		})
		ends[0].Write([]byte(" after"))
		hear(t, ends[1], "urgent after")
	}
}

func TestResetRuleResetsBothEnds(t *testing.T) {
	b := newBench(t)
	say(t, b.client, b.server, "x")
	if err := b.Install(rule("r", fault.LinkEffect{Kind: fault.Reset})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{b.client, b.server} {
		if err := fails(t, c); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("an end sees %v, want ECONNRESET", err)
		}
	}
	if b.Fired("r") != 1 {
		t.Errorf("fired %d", b.Fired("r"))
	}
}

func TestResetWhileDataIsInFlight(t *testing.T) {
	b := newBench(t)
	sent := make(chan error, 1)
	go func() {
		_, err := b.client.Write(make([]byte, 64<<20)) // more than all buffers: the server does not read
		sent <- err
	}()
	hear(t, b.server, string(make([]byte, 1000)))
	if err := b.Install(rule("r", fault.LinkEffect{Kind: fault.Reset})); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; !resetByPeer(err) {
		t.Errorf("sender sees %v", err)
	}
	if err := fails(t, b.server); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("receiver sees %v", err)
	}
}

func TestResetAfterBytesOnNewConnection(t *testing.T) {
	b := newBench(t, toward(rule("r", fault.LinkEffect{Kind: fault.Reset, AfterBytes: 10}), fault.Down))
	say(t, b.client, b.server, "a request longer than ten bytes")
	say(t, b.server, b.client, "nine byte")
	if n := b.Fired("r"); n != 0 {
		t.Fatalf("fired %d before its bytes", n)
	}
	b.server.Write([]byte("more"))
	if err := fails(t, b.client); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("client sees %v", err)
	}
	if r := b.await(t, OpReset); r.Down != 10 || r.Rule != "r" {
		t.Errorf("record %+v", r)
	}
}

func TestCut(t *testing.T) {
	for _, how := range []string{"fin", "rst"} {
		b := newBench(t, toward(rule("c", fault.LinkEffect{Kind: fault.Cut, AfterBytes: 1000, How: how}), fault.Down))
		say(t, b.client, b.server, "request")
		b.server.Write(bytes.Repeat([]byte("y"), 5000))
		b.client.SetReadDeadline(time.Now().Add(5 * time.Second))
		got := make([]byte, 1000)
		if _, err := io.ReadFull(b.client, got); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		want := io.EOF
		if how == "rst" {
			want = syscall.ECONNRESET
		}
		if err := fails(t, b.client); !errors.Is(err, want) {
			t.Errorf("%s: client sees %v", how, err)
		}
		if r := b.await(t, OpCut); r.Down != 1000 || r.Rule != "c" {
			t.Errorf("record %+v", r)
		}
	}
}

func TestLatencyOneWayDoesNotBlockTheSender(t *testing.T) {
	b := newBench(t)
	say(t, b.client, b.server, "before")
	if err := b.Install(toward(rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 80 * time.Millisecond}), fault.AToB)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	b.client.Write([]byte("late"))
	if d := time.Since(start); d > 40*time.Millisecond {
		t.Errorf("the write took %v", d)
	}
	say(t, b.server, b.client, "other way")
	if d := time.Since(start); d > 60*time.Millisecond {
		t.Errorf("the other way took %v", d)
	}
	hear(t, b.server, "late")
	if d := time.Since(start); d < 80*time.Millisecond || d > 200*time.Millisecond {
		t.Errorf("arrived after %v", d)
	}
	b.Lift("slow")
	start = time.Now()
	say(t, b.client, b.server, "after")
	if d := time.Since(start); d > 40*time.Millisecond {
		t.Errorf("after lifting %v", d)
	}
	if b.Fired("slow") != 1 {
		t.Errorf("fired %d", b.Fired("slow"))
	}
}

func TestCopyStaysIntact(t *testing.T) {
	b := newBench(t,
		rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: 2 * time.Millisecond, Jitter: 3 * time.Millisecond}),
		rule("wide", fault.LinkEffect{Kind: fault.Bandwidth, BytesPerSecond: 64 << 20}))
	data := make([]byte, 16<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	go func() {
		b.client.Write(data)
		b.client.CloseWrite()
	}()
	// The rules come and go meanwhile; order and content must not suffer.
	go func() {
		time.Sleep(50 * time.Millisecond)
		b.Lift("slow")
		time.Sleep(50 * time.Millisecond)
		b.Lift("wide")
	}()
	sum := sha256.New()
	b.server.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := io.Copy(sum, b.server); err != nil || n != int64(len(data)) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if want := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), want[:]) {
		t.Error("content changed")
	}
}

// A program that resets while its data waits for a reader who does not read: the RST overtakes it.
func TestResetOvertakesUndeliveredData(t *testing.T) {
	for _, rules := range [][]fault.Rule{nil, {rule("slow", fault.LinkEffect{Kind: fault.Latency, Delay: time.Millisecond})}} {
		b := newBench(t, rules...)
		b.client.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := b.client.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write: %v", err)
		}
		b.client.SetLinger(0)
		b.client.Close()
		if r := b.await(t, OpReset); r.Direction != fault.Up || r.Rule != "" {
			t.Errorf("record %+v", r)
		}
		if err := fails(t, b.server); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("server sees %v", err)
		}
	}
}

// A connection whose both ways ended by FIN is closed for the kernel before all is delivered.
func TestOrderlyEndIsNoReset(t *testing.T) {
	b := newBench(t)
	b.server.CloseWrite()
	if err := fails(t, b.client); err != io.EOF {
		t.Fatal(err)
	}
	b.client.SetWriteBuffer(4 << 10)
	b.client.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	sent := 0
	for {
		n, err := b.client.Write(make([]byte, 32<<10))
		sent += n
		if err != nil {
			break // all buffers are full and the relay waits
		}
	}
	b.client.Close()
	// Room for the rest and the FIN of the client, but not for the relay to get through.
	hear(t, b.server, string(make([]byte, 128<<10)))
	time.Sleep(300 * time.Millisecond)
	n, err := io.Copy(io.Discard, b.server)
	if n+(128<<10) != int64(sent) || err != nil {
		t.Errorf("%d of %d bytes, %v", n+(128<<10), sent, err)
	}
}
