package link

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/seed"
)

// udpPair returns two connected datagram sockets of loopback.
func udpPair(t testing.TB) (*net.UDPConn, *net.UDPConn) {
	t.Helper()
	hold, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a, err := net.Dial("udp", hold.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	hold.Close()
	b, err := net.DialUDP("udp", hold.LocalAddr().(*net.UDPAddr), a.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.UDPConn), b
}

// post is a network with one datagram flow.
type post struct {
	*Network
	journal
	client, server *net.UDPConn
}

func newPost(t testing.TB, s seed.Seed, rules ...fault.Rule) *post {
	t.Helper()
	p := &post{}
	p.Network = New(Config{Seed: s, Record: p.add})
	t.Cleanup(p.Close)
	if err := p.Install(rules...); err != nil {
		t.Fatal(err)
	}
	var c, srv *net.UDPConn
	p.client, c = udpPair(t)
	srv, p.server = udpPair(t)
	if err := p.RelayDatagram(p.Open("api", "db", "dns"), c, srv); err != nil {
		t.Fatal(err)
	}
	return p
}

// hears collects datagrams until one says "end".
func hears(t *testing.T, c *net.UDPConn) []string {
	t.Helper()
	var got []string
	buf := make([]byte, 1500)
	for {
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		if string(buf[:n]) == "end" {
			return got
		}
		got = append(got, string(buf[:n]))
	}
}

func (p *post) exchange(t *testing.T, n int) []string {
	t.Helper()
	for i := range n {
		fmt.Fprintf(p.client, "%d", i)
	}
	// The last word is sent once no rule is in force.
	for _, r := range p.Matching("api", "db", "dns") {
		waitFor(t, func() bool { return p.decided(r.ID) >= n })
		p.Lift(r.ID)
	}
	p.client.Write([]byte("end"))
	return hears(t, p.server)
}

func (p *post) decided(rule string) int {
	n := 0
	for _, d := range p.Decisions() {
		if d.Rule == rule {
			n++
		}
	}
	return n
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in five seconds")
		}
	}
}

func TestDatagramsPassUnchanged(t *testing.T) {
	p := newPost(t, 1)
	p.client.Write([]byte("hello"))
	p.client.Write(nil) // empty ones are datagrams too
	p.client.Write([]byte("end"))
	if got := hears(t, p.server); !slices.Equal(got, []string{"hello", ""}) {
		t.Errorf("server heard %q", got)
	}
	p.server.Write([]byte("answer"))
	p.server.Write([]byte("end"))
	if got := hears(t, p.client); !slices.Equal(got, []string{"answer"}) {
		t.Errorf("client heard %q", got)
	}
}

func TestLossFollowsTheSeed(t *testing.T) {
	lost := func(s seed.Seed) ([]string, []bundle.Decision) {
		p := newPost(t, s, toward(rule("l", fault.LinkEffect{Kind: fault.Loss, Probability: 0.3}), fault.Up))
		got := p.exchange(t, 100)
		if fired := p.Fired("l"); fired+len(got) != 100 {
			t.Errorf("%d arrived and %d lost of 100", len(got), fired)
		}
		return got, p.Decisions()
	}
	a, da := lost(5)
	b, db := lost(5)
	c, _ := lost(6)
	if !slices.Equal(a, b) || !reflect.DeepEqual(da, db) {
		t.Errorf("the same seed lost other datagrams:\n%v\n%v", a, b)
	}
	if slices.Equal(a, c) {
		t.Error("another seed lost the same datagrams")
	}
	if len(a) < 50 || len(a) > 90 {
		t.Errorf("%d of 100 arrived at a loss of 0.3", len(a))
	}
}

func TestLossLimitedToSoMany(t *testing.T) {
	r := toward(rule("l", fault.LinkEffect{Kind: fault.Loss, Probability: 0.3}), fault.Up)
	r.When.MaxFires = 2
	p := newPost(t, 5, r)
	if got := p.exchange(t, 50); len(got) != 48 {
		t.Errorf("%d of 50 arrived, two may be lost", len(got))
	}
	r = rule("n", fault.LinkEffect{Kind: fault.Loss})
	r.When.Nth = 3
	p = newPost(t, 5, r)
	if got := strings.Join(p.exchange(t, 5), ""); got != "0134" {
		t.Errorf("heard %s; the third is to be lost", got)
	}
}

func TestDuplicateAndReorder(t *testing.T) {
	r := rule("d", fault.LinkEffect{Kind: fault.Duplicate, Count: 1})
	r.When.Nth = 2
	p := newPost(t, 1, r)
	if got := strings.Join(p.exchange(t, 4), ""); got != "01123" {
		t.Errorf("duplicate: heard %s", got)
	}
	r = rule("o", fault.LinkEffect{Kind: fault.Reorder, Count: 2})
	r.When.Nth = 2
	p = newPost(t, 1, r)
	if got := strings.Join(p.exchange(t, 5), ""); got != "02314" {
		t.Errorf("reorder: heard %s", got)
	}
	if p.Fired("o") != 1 {
		t.Errorf("fired %d", p.Fired("o"))
	}
}

func TestDatagramPartitionLosesAndHeals(t *testing.T) {
	p := newPost(t, 1, rule("p", fault.LinkEffect{Kind: fault.Partition}))
	if got := p.exchange(t, 3); len(got) != 0 {
		t.Errorf("heard %q through a partition", got)
	}
	want := []Op{OpInstalled, OpEstablished, OpFired, OpStall, OpHeal, OpLifted}
	if got := p.ops(); !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	if p.Fired("p") != 3 {
		t.Errorf("fired %d", p.Fired("p"))
	}
}

// A peer that is not there refuses datagrams; the flow goes on when it comes back.
func TestRefusedDatagramsLeaveTheFlow(t *testing.T) {
	p := newPost(t, 1)
	addr, peer := p.server.LocalAddr().(*net.UDPAddr), p.server.RemoteAddr().(*net.UDPAddr)
	p.server.Close()
	for range 3 {
		p.client.Write([]byte("into the void"))
		time.Sleep(5 * time.Millisecond)
	}
	again, err := net.DialUDP("udp", addr, peer)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	p.client.Write([]byte("back"))
	p.client.Write([]byte("end"))
	if got := hears(t, again); !slices.Contains(got, "back") {
		t.Errorf("heard %q", got)
	}
}

// Limits let single datagrams pass by a delay or a blackhole.
func TestLimitsOnDatagramsThatWait(t *testing.T) {
	r := rule("b", fault.LinkEffect{Kind: fault.Blackhole})
	r.When.Every = 2
	p := newPost(t, 1, r)
	if got := strings.Join(p.exchange(t, 5), ""); got != "024" {
		t.Errorf("blackhole: heard %s", got)
	}
	r = rule("s", fault.LinkEffect{Kind: fault.Latency, Delay: time.Hour})
	r.When.Nth = 1
	p = newPost(t, 1, r)
	if got := strings.Join(p.exchange(t, 3), ""); got != "120" {
		t.Errorf("latency: heard %s", got)
	}
}
