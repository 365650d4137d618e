//go:build linux

package notify

import (
	"testing"

	"github.com/squallhq/squall/internal/intercept/intercepttest"
)

func TestMain(m *testing.M) { intercepttest.Main(m, New(Options{})) }

func TestConformance(t *testing.T) { intercepttest.Run(t, New(Options{})) }

func TestConformanceWaitKillable(t *testing.T) {
	intercepttest.Run(t, New(Options{WaitKillable: true}))
}

func TestProbe(t *testing.T) {
	for _, o := range []Options{{}, {WaitKillable: true}} {
		if err := New(o).Probe(); err != nil {
			t.Error(o, err)
		}
	}
}
