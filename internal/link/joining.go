package link

import (
	"sync"
	"sync/atomic"

	"github.com/squallhq/squall/internal/link/join"
)

// joining is what a network has for joining flows, made when the first is to be joined.
type joining struct {
	after int
	once  sync.Once
	made  atomic.Pointer[join.Kernel]
}

// joinAfter is after how many small reads a direction gets a lane: short connections would not gain.
const joinAfter = 16

// kernel returns nil where flows cannot be joined here.
func (n *Network) kernel() *join.Kernel {
	n.joining.once.Do(func() {
		if k, err := join.New(); err == nil {
			n.joining.made.Store(k)
		}
	})
	return n.joining.made.Load()
}

func (j *joining) close() {
	j.once.Do(func() {})
	if k := j.made.Load(); k != nil {
		k.Close()
	}
}

// Plain is called with a duplicate of a program's socket, before a call of the program takes effect that a joined socket
// does not answer as others do: FIONREAD, and what makes a socket blocking or gives it zero copy or an upper layer.
func (n *Network) Plain(socket int) {
	if k := n.joining.made.Load(); k != nil {
		k.Plain(socket)
	}
}

// MayJoin reports whether flows are likely to be joined here; it is quicker than CanJoin.
func MayJoin() bool { return join.Permitted() }

// CanJoin tells why flows cannot be joined here: join.ErrForbidden, join.ErrUnsupported, or nil where they can.
func CanJoin() error {
	k, err := join.New()
	if err != nil {
		return err
	}
	k.Close()
	return nil
}
