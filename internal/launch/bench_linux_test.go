package launch

import (
	"testing"
)

// BenchmarkWorld is a world that does nothing: from StartWorld until all is gone.
func BenchmarkWorld(b *testing.B) {
	for _, m := range modes() {
		b.Run(string(m), func(b *testing.B) {
			l := launcher(b)
			for b.Loop() {
				inside(b, l, WorldConfig{Mode: m}, nil, "nothing")
			}
		})
	}
}

// BenchmarkSetup is a world that builds its files and three networks.
func BenchmarkSetup(b *testing.B) {
	l := launcher(b)
	sum := map[string]float64{}
	for b.Loop() {
		got := map[string]float64{}
		inside(b, l, WorldConfig{}, &got, "costs")
		for k, v := range got {
			sum[k] += v
		}
	}
	for k, v := range sum {
		b.ReportMetric(v/float64(b.N), k+"-ms")
	}
}
