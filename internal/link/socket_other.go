//go:build !linux

package link

import (
	"syscall"

	"github.com/squallhq/squall/internal/vtime"
)

// socketSilencer is not available on this system.
type socketSilencer struct{ raw syscall.RawConn }

func (*socketSilencer) silence(bool) error { return ErrNeedsOwnedNetwork }
func (*socketSilencer) withheld() bool     { return false }

func tune(Conn)                 {}
func narrow(_, _ Conn, _ int64) {}
func flush(Conn, vtime.Clock)   {}
