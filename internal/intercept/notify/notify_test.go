//go:build linux

package notify

import (
	"testing"

	"github.com/squallhq/squall/internal/intercept/intercepttest"
)

func TestMain(m *testing.M) { intercepttest.Main(m, New(Options{})) }

func TestConformance(t *testing.T) { intercepttest.Run(t, New(Options{})) }

func TestProbe(t *testing.T) {
	if err := New(Options{}).Probe(); err != nil {
		t.Fatal(err)
	}
}
