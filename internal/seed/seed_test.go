package seed

import "testing"

func TestDrawsAreKeyed(t *testing.T) {
	s := Seed(7)
	if s.Float(1, "rule", "flow") != s.Float(1, "rule", "flow") {
		t.Error("the same key must draw the same")
	}
	for name, other := range map[string]float64{
		"index": s.Float(2, "rule", "flow"),
		"key":   s.Float(1, "rulef", "low"),
		"seed":  Seed(8).Float(1, "rule", "flow"),
	} {
		if other == s.Float(1, "rule", "flow") {
			t.Errorf("another %s must draw another value", name)
		}
	}
}

func TestDrawsAreUniform(t *testing.T) {
	const n = 20000
	var sum float64
	var bins [4]int
	for i := range int64(n) {
		sum += Seed(1).Float(i, "x")
		bins[Seed(1).IntN(4, i, "y")]++
	}
	if mean := sum / n; mean < 0.49 || mean > 0.51 {
		t.Errorf("mean of %d draws is %f", n, mean)
	}
	for i, c := range bins {
		if c < n/4*9/10 || c > n/4*11/10 {
			t.Errorf("bin %d has %d of %d", i, c, n)
		}
	}
}
