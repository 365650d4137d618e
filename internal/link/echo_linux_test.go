package link

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// BenchmarkEcho64 measures round trips of 64 bytes on a direct connection, through a bare Go relay and
// through ours with no rule in force, and past ours where the kernel can, interleaved in rounds, and prints the medians of the rounds'
// ratios with their quartiles.
func BenchmarkEcho64(b *testing.B) {
	direct, echo := tcpPair(b)
	go echoAll(echo)
	bareClient, bareC := tcpPair(b)
	bareS, bareEcho := tcpPair(b)
	go echoAll(bareEcho)
	go bareCopy(bareS, bareC)
	go bareCopy(bareC, bareS)
	relayed, joined := newBench(b), newBench(b)
	relayed.cfg.Join = false
	ours, server, _ := relayed.connect(b)
	go echoAll(server)
	go echoAll(joined.server)
	for range 100 {
		roundTrip(b, joined.client)
	}

	const perRound = 200
	lanes := []net.Conn{direct, bareClient, ours, joined.client}
	var took [4][]float64
	for b.Loop() {
		for i, c := range lanes {
			start := time.Now()
			for range perRound {
				roundTrip(b, c)
			}
			took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/perRound)
		}
	}
	ratios := func(over, under int) []float64 {
		var out []float64
		for i := range took[over] {
			out = append(out, took[over][i]/took[under][i])
		}
		slices.Sort(out)
		return out
	}
	quartile := func(v []float64, q float64) float64 { return v[int(q*float64(len(v)-1))] }
	for i, name := range []string{"direct-ns", "bare-ns", "ours-ns", "joined-ns"} {
		slices.Sort(took[i])
		b.ReportMetric(quartile(took[i], 0.5), name)
	}
	r := ratios(2, 1)
	b.ReportMetric(quartile(r, 0.25), "ours/bare-p25")
	b.ReportMetric(quartile(r, 0.5), "ours/bare-p50")
	b.ReportMetric(quartile(r, 0.75), "ours/bare-p75")
	b.ReportMetric(quartile(ratios(2, 0), 0.5), "ours/direct-p50")
	if CanJoin() == nil {
		r = ratios(3, 0)
		b.ReportMetric(quartile(r, 0.25), "joined/direct-p25")
		b.ReportMetric(quartile(r, 0.5), "joined/direct-p50")
		b.ReportMetric(quartile(r, 0.75), "joined/direct-p75")
	}
	b.ReportMetric(0, "ns/op")
}

func roundTrip(b testing.TB, c net.Conn) {
	var buf [64]byte
	if _, err := c.Write(buf[:]); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(c, buf[:]); err != nil {
		b.Fatal(err)
	}
}

func echoAll(c net.Conn) {
	buf := make([]byte, 64<<10)
	bareLoop(c, c, buf)
}

// bareCopy is the plain relay that ours is measured against.
func bareCopy(dst, src net.Conn) { bareLoop(dst, src, make([]byte, 32<<10)) }

func bareLoop(dst, src net.Conn, buf []byte) {
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

// BenchmarkThroughput moves 64 MiB one way through a bare relay and through ours.
func BenchmarkThroughput(b *testing.B) {
	const size = 64 << 20
	move := func(b *testing.B, client, server net.Conn) {
		b.SetBytes(size)
		chunk := make([]byte, 64<<10)
		for b.Loop() {
			go func() {
				for range size / len(chunk) {
					client.Write(chunk)
				}
			}()
			if _, err := io.CopyN(io.Discard, server, size); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("bare", func(b *testing.B) {
		client, c := tcpPair(b)
		s, server := tcpPair(b)
		go bareCopy(s, c)
		move(b, client, server)
	})
	for name, join := range map[string]bool{"ours": false, "ours, of messages before": true} {
		b.Run(name, func(b *testing.B) {
			n := newBench(b)
			n.cfg.Join = join
			client, server, _ := n.connect(b)
			for range 100 {
				if _, err := client.Write([]byte("x")); err != nil {
					b.Fatal(err)
				}
				if _, err := server.Read(make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
			}
			move(b, client, server)
		})
	}
}
