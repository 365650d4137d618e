package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
)

func needJoin(t testing.TB) {
	t.Helper()
	if err := CanJoin(); err != nil {
		t.Skip(err)
	}
}

// carriedBy waits until a flow's directions have lanes, by talking, and returns what they carry.
func (b *bench) carriedBy(t *testing.T, f Flow) (up, down func() int64) {
	t.Helper()
	b.Network.mu.Lock()
	var s *stream
	for r := range b.relays {
		if r.identity() == f {
			s = r.(*stream)
		}
	}
	b.Network.mu.Unlock()
	for end := time.Now().Add(5 * time.Second); s.up.past.carried() == 0 || s.down.past.carried() == 0; {
		if time.Now().After(end) {
			t.Fatal("nothing goes past the relay")
		}
		say(t, b.client, b.server, "ping")
		say(t, b.server, b.client, "pong")
	}
	return s.up.past.carried, s.down.past.carried
}

func TestShortcutCountsWhatItCarries(t *testing.T) {
	needJoin(t)
	b := newBench(t)
	b.carriedBy(t, b.flow)
	for range 100 {
		say(t, b.client, b.server, "question")
		say(t, b.server, b.client, "and the answer")
	}
	b.client.Close()
	b.server.Close()
	if r := b.await(t, OpClose); r.Up < 800 || (r.Up-800)%4 != 0 || r.Down-r.Up != 600 {
		t.Errorf("%d up, %d down", r.Up, r.Down)
	}
}

// TestShortcutEndsBeforeARule: once Install has returned nothing goes past the rule.
func TestShortcutEndsBeforeARule(t *testing.T) {
	needJoin(t)
	b := newBench(t)
	up, down := b.carriedBy(t, b.flow)
	for i := range 50 {
		id := fmt.Sprint("p", i)
		if err := b.Install(rule(id, fault.LinkEffect{Kind: fault.Latency, Delay: time.Hour})); err != nil {
			t.Fatal(err)
		}
		before := up() + down()
		for _, c := range []net.Conn{b.client, b.server} {
			if _, err := c.Write([]byte("held")); err != nil {
				t.Fatal(err)
			}
		}
		if n := up() + down() - before; n > 0 {
			t.Fatalf("%d bytes went past the rule", n)
		}
		for end := time.Now().Add(5 * time.Second); b.Fired(id) < 2; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("fired %d times", b.Fired(id))
			}
		}
		b.Lift(id)
		hear(t, b.server, "held")
		hear(t, b.client, "held")
		b.carriedBy(t, b.flow)
	}
}

// TestShortcutOffsets: a rule's offsets count from where it came into force, whatever went past the relay before.
func TestShortcutOffsets(t *testing.T) {
	needJoin(t)
	b := newBench(t)
	up, _ := b.carriedBy(t, b.flow)
	if up() == 0 {
		t.Fatal("nothing carried")
	}
	if err := b.Install(toward(rule("c", fault.LinkEffect{Kind: fault.Reset, AfterBytes: 10}), fault.Up)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.Write([]byte("0123456789abc")); err != nil {
		t.Fatal(err)
	}
	if err := fails(t, b.client); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client: %v", err)
	}
	if r := b.await(t, OpReset); r.Up%4 != 2 {
		t.Errorf("%d bytes, want pings and ten more", r.Up)
	}
}

// ends is one way for a connection to end, told by what both programs see.
type ends func(t *testing.T, c, s *net.TCPConn) string

// seen is what a program sees when it reads to the end, and then tries to write.
func seen(t *testing.T, c net.Conn) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	data, err := io.ReadAll(c)
	_, errWrite := c.Write([]byte("x"))
	return fmt.Sprintf("[%q %v %v]", data, errnoName(err), errnoName(errWrite))
}

func errnoName(err error) string {
	var e syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return unix.ErrnoName(e)
	}
	return err.Error()
}

// polled waits for events of a socket and returns them.
func polled(t *testing.T, c *net.TCPConn, events int16) string {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	p := []unix.PollFd{{Events: events | unix.POLLRDHUP}}
	_ = raw.Control(func(fd uintptr) {
		p[0].Fd = int32(fd)
		for until := time.Now().Add(5 * time.Second); ; {
			if n, err := unix.Poll(p, 1000); n == 1 || err != nil && err != unix.EINTR || time.Now().After(until) {
				return
			}
		}
	})
	return fmt.Sprintf("%#x", p[0].Revents)
}

func allEnds() map[string]ends {
	write := func(c net.Conn, text string) { _, _ = c.Write([]byte(text)) }
	return map[string]ends{
		"client closes": func(t *testing.T, c, s *net.TCPConn) string {
			write(c, "last")
			c.Close()
			return seen(t, s)
		},
		"server closes": func(t *testing.T, c, s *net.TCPConn) string {
			write(s, "last")
			s.Close()
			return seen(t, c)
		},
		"client half-closes": func(t *testing.T, c, s *net.TCPConn) string {
			write(c, "last")
			_ = c.CloseWrite()
			hear(t, s, "last")
			events := polled(t, s, unix.POLLIN)
			write(s, "answer")
			_ = s.CloseWrite()
			return events + seen(t, c) + seen(t, s)
		},
		"server half-closes": func(t *testing.T, c, s *net.TCPConn) string {
			write(s, "last")
			_ = s.CloseWrite()
			hear(t, c, "last")
			events := polled(t, c, unix.POLLIN)
			write(c, "more")
			hear(t, s, "more")
			c.Close()
			return events + seen(t, s)
		},
		"client resets": func(t *testing.T, c, s *net.TCPConn) string {
			_ = c.SetLinger(0)
			c.Close()
			return polled(t, s, unix.POLLIN) + seen(t, s)
		},
		"server resets": func(t *testing.T, c, s *net.TCPConn) string {
			_ = s.SetLinger(0)
			s.Close()
			return polled(t, c, unix.POLLIN) + seen(t, c)
		},
		"server closes with unread": func(t *testing.T, c, s *net.TCPConn) string {
			write(c, "unread")
			polled(t, s, unix.POLLIN)
			s.Close()
			return polled(t, c, unix.POLLHUP) + seen(t, c)
		},
		"writable": func(t *testing.T, c, s *net.TCPConn) string {
			return polled(t, c, unix.POLLOUT) + polled(t, s, unix.POLLOUT)
		},
	}
}

// TestShortcutEndsAsWithout: programs see the same of a connection's end, whether bytes went past the relay or not.
func TestShortcutEndsAsWithout(t *testing.T) {
	needJoin(t)
	for name, end := range allEnds() {
		t.Run(name, func(t *testing.T) {
			plain := newBench(t)
			plain.cfg.Join = false
			c, s, _ := plain.connect(t)
			say(t, c, s, "ping")
			say(t, s, c, "pong")
			want := end(t, c, s)
			for range 20 {
				b := newBench(t)
				b.carriedBy(t, b.flow)
				if got := end(t, b.client, b.server); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}

// TestShortcutResetWhileSending: a program that sends without a pause learns of a reset by ECONNRESET first.
func TestShortcutResetWhileSending(t *testing.T) {
	needJoin(t)
	epipe := 0
	for range 200 {
		b := newBench(t)
		b.carriedBy(t, b.flow)
		go func() {
			buf := make([]byte, 4096)
			for range 20 {
				_, _ = b.server.Read(buf)
			}
			_ = b.server.SetLinger(0)
			b.server.Close()
		}()
		var err error
		for err == nil {
			_, err = b.client.Write([]byte("message"))
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			epipe++
		}
		b.Close()
	}
	if epipe > 0 {
		t.Errorf("%d of 200 senders learnt of the reset otherwise", epipe)
	}
}

// flood is one end's stream of bytes, which both ends can tell.
type flood struct {
	*rand.ChaCha8
	n int64
}

func newFlood(seed uint64) *flood {
	var key [32]byte
	key[0], key[1], key[2], key[3] = byte(seed), byte(seed>>8), byte(seed>>16), byte(seed>>24)
	return &flood{ChaCha8: rand.NewChaCha8(key)}
}

func (f *flood) next(n int) []byte {
	p := make([]byte, n)
	_, _ = f.Read(p)
	f.n += int64(n)
	return p
}

// check reads n bytes, or to the end where n is negative, and compares each.
func (f *flood) check(c net.Conn, n int, slow bool) error {
	buf := make([]byte, 32<<10)
	for n != 0 {
		part := buf
		if n > 0 {
			part = buf[:min(n, len(buf))]
		}
		got, err := c.Read(part)
		at := f.n
		if want := f.next(got); !bytes.Equal(part[:got], want) {
			return fmt.Errorf("wrong bytes within %d of %d", got, at)
		}
		if n > 0 {
			n -= got
		}
		if err != nil {
			return err
		}
		if slow && rand.IntN(8) == 0 {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		}
	}
	return nil
}

// torment is one connection's life: talk, floods, talk, and an end.
type torment struct {
	r       *rand.Rand
	ends    [2]*net.TCPConn // client, server
	sent    [2]*flood
	arrived [2]*flood // at the other end
	// plain gives one end's socket back to plain TCP.
	plain func(side int)
}

func (x *torment) talk(rounds int) error {
	for range rounds {
		for side, c := range x.ends {
			size := 1 + x.r.IntN(1<<x.r.IntN(14))
			if _, err := c.Write(x.sent[side].next(size)); err != nil {
				return err
			}
			if err := x.arrived[side].check(x.ends[1-side], size, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// pour sends both ways at once, without regard for each other.
func (x *torment) pour() error {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for side := range 2 {
		var sizes []int
		total := 0
		for range 1 + x.r.IntN(30) {
			sizes = append(sizes, 1+x.r.IntN(1<<x.r.IntN(21)))
			total += sizes[len(sizes)-1]
		}
		slow, pause := x.r.IntN(2) == 0, x.r.IntN(2) == 0
		wg.Go(func() {
			for _, n := range sizes {
				if _, err := x.ends[side].Write(x.sent[side].next(n)); err != nil {
					errs[side] = err
					return
				}
				if pause {
					time.Sleep(200 * time.Microsecond)
				}
			}
		})
		if back := time.Duration(x.r.IntN(5000)) * time.Microsecond; x.r.IntN(4) == 0 {
			wg.Go(func() {
				time.Sleep(back)
				x.plain(side)
			})
		}
		wg.Go(func() { errs[2+side] = x.arrived[side].check(x.ends[1-side], total, slow) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// part ends the connection in order: first says who ends first, 2 both at once.
func (x *torment) part(first int) error {
	finish := func(side int) error {
		if _, err := x.ends[side].Write(x.sent[side].next(1 + x.r.IntN(3000))); err != nil {
			return err
		}
		return x.ends[side].CloseWrite()
	}
	drain := func(side int) error {
		if err := x.arrived[side].check(x.ends[1-side], -1, false); err != io.EOF {
			return fmt.Errorf("end: %w", err)
		}
		if x.arrived[side].n != x.sent[side].n {
			return fmt.Errorf("%d bytes of %d arrived", x.arrived[side].n, x.sent[side].n)
		}
		return nil
	}
	if first == 2 {
		return errors.Join(finish(0), finish(1), drain(0), drain(1))
	}
	if err := errors.Join(finish(first), drain(first)); err != nil {
		return err
	}
	if err := x.talkOneWay(1 - first); err != nil {
		return err
	}
	return errors.Join(finish(1-first), drain(1-first))
}

func (x *torment) talkOneWay(side int) error {
	for range x.r.IntN(20) {
		size := 1 + x.r.IntN(5000)
		if _, err := x.ends[side].Write(x.sent[side].next(size)); err != nil {
			return err
		}
		if err := x.arrived[side].check(x.ends[1-side], size, false); err != nil {
			return err
		}
	}
	return nil
}

// reset ends the connection by RST while both send. What arrived must be a beginning of what was sent.
func (x *torment) reset(by int) error {
	other := x.ends[1-by]
	writer := make(chan error, 1)
	go func() {
		for {
			if _, err := other.Write(x.sent[1-by].next(1 + rand.IntN(2000))); err != nil {
				writer <- err
				return
			}
		}
	}()
	go func() {
		for range 20 {
			_, _ = x.ends[by].Write(x.sent[by].next(100))
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
		_ = x.ends[by].SetLinger(0)
		_ = x.ends[by].Close()
	}()
	err := x.arrived[by].check(other, -1, false)
	errWrite := <-writer
	for _, e := range []error{err, errWrite} {
		if errors.Is(e, syscall.ECONNRESET) {
			return nil
		}
	}
	return fmt.Errorf("reset: read %w, write %w", err, errWrite)
}

func (x *torment) live() error {
	if err := x.talk(x.r.IntN(100)); err != nil {
		return fmt.Errorf("talk: %w", err)
	}
	if x.r.IntN(2) == 0 {
		if err := x.pour(); err != nil {
			return fmt.Errorf("pour: %w", err)
		}
	}
	if err := x.talk(x.r.IntN(60)); err != nil {
		return fmt.Errorf("talk again: %w", err)
	}
	if how := x.r.IntN(5); how < 3 {
		return x.part(how)
	} else {
		return x.reset(how - 3)
	}
}

// TestShortcutTorture wants every byte of many connections that live and end in all ways, under rules that come and
// go. SQUALL_FLOWS says how many connections.
func TestShortcutTorture(t *testing.T) {
	needJoin(t)
	flows := 200
	if n, err := strconv.Atoi(os.Getenv("SQUALL_FLOWS")); err == nil {
		flows = n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := newBench(t)
	var carried, moved atomic.Int64
	b.cfg.Record = func(r Record) {
		if r.Op == OpClose || r.Op == OpReset {
			moved.Add(r.Bytes)
		}
	}
	stop := make(chan struct{})
	var rules sync.WaitGroup
	rules.Go(func() { b.harass(t, seed, stop) })
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < flows; i += 8 {
				carried.Add(b.torture(t, seed+uint64(i)))
			}
		})
	}
	wg.Wait()
	close(stop)
	rules.Wait()
	t.Logf("%d flows, %d bytes, of which %d went past the relay", flows, moved.Load(), carried.Load())
	if carried.Load() < int64(flows)*1000 {
		t.Error("hardly anything went past the relay")
	}
}

func (b *bench) torture(t *testing.T, seed uint64) int64 {
	c, s, f := b.connect(t)
	for _, end := range []*net.TCPConn{c, s} {
		_ = end.SetDeadline(time.Now().Add(60 * time.Second))
		defer end.Close()
	}
	x := &torment{r: rand.New(rand.NewPCG(seed, 1)), ends: [2]*net.TCPConn{c, s}}
	x.plain = func(side int) {
		fd, err := peered{peer: x.ends[side]}.Peer()
		if err != nil {
			t.Error(err)
			return
		}
		b.Plain(fd)
		_ = unix.Close(fd)
	}
	for side := range 2 {
		x.sent[side], x.arrived[side] = newFlood(2*seed+uint64(side)), newFlood(2*seed+uint64(side))
	}
	b.Network.mu.Lock()
	var st *stream
	for r := range b.relays {
		if r.identity() == f {
			st = r.(*stream)
		}
	}
	b.Network.mu.Unlock()
	if err := x.live(); err != nil {
		t.Errorf("flow %d: %v", seed, err)
	}
	return st.up.past.carried() + st.down.past.carried()
}

// harass lets rules that lose nothing come and go.
func (b *bench) harass(t *testing.T, seed uint64, stop chan struct{}) {
	r := rand.New(rand.NewPCG(seed, 2))
	effects := []fault.LinkEffect{
		{Kind: fault.Latency, Delay: time.Millisecond, Jitter: time.Millisecond},
		{Kind: fault.Partition}, {Kind: fault.Blackhole}, {Kind: fault.HalfOpen},
	}
	for i := 0; ; i++ {
		id := fmt.Sprint("r", i)
		rl := rule(id, effects[r.IntN(len(effects))])
		if r.IntN(2) == 0 && rl.Link.Effect.Kind == fault.Latency {
			rl = toward(rl, [2]fault.Direction{fault.Up, fault.Down}[r.IntN(2)])
		}
		if err := b.Install(rl); err != nil {
			t.Error(err)
			return
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
		b.Lift(id)
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(r.IntN(20000)) * time.Microsecond):
		}
	}
}
