//go:build !linux

package link

import (
	"syscall"

	"github.com/squallhq/squall/internal/vtime"
)

// socketSilencer is not available on this system.
type socketSilencer struct {
	raw   syscall.RawConn
	clock vtime.Clock
}

func (*socketSilencer) silence(bool) error { return ErrNeedsOwnedNetwork }
func (*socketSilencer) withheld() bool     { return false }
func (*socketSilencer) anew() error        { return nil }

func tune(Conn)                 {}
func narrow(_, _ Conn, _ int64) {}
func flush(Conn, vtime.Clock)   {}

// sentinel and prober see nothing on this system.
type (
	sentinel struct{}
	prober   struct{}
)

func newSentinel(Conn) *sentinel { return nil }
func newProber(Conn) *prober     { return nil }

func (*sentinel) watch(func()) func() { return func() {} }
func (*prober) try([]byte) int        { return 0 }

// shortcut does not exist on this system.
type shortcut struct{}

func newShortcut(_ *half, _, _ Conn) *shortcut { return nil }

func (*shortcut) read([]byte) (int, error) { return 0, nil }
func (*shortcut) delivered(int)            {}
func (*shortcut) bar()                     {}
func (*shortcut) unbar()                   {}
func (*shortcut) leave()                   {}
func (*shortcut) carried() int64           { return 0 }
