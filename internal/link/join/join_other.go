//go:build !linux

package join

// Kernel is what joining needs.
type Kernel struct{}

// New fails.
func New() (*Kernel, error) { return nil, ErrUnsupported }

// Permitted is false.
func Permitted() bool { return false }

// Close does nothing.
func (k *Kernel) Close() {}

// Enter fails.
func (k *Kernel) Enter(source, target int) (*Lane, error) { return nil, ErrUnsupported }

// Plain does nothing.
func (k *Kernel) Plain(socket int) {}

// Lane is one direction of a connection.
type Lane struct{}

// Counts is false.
func (l *Lane) Counts() bool { return false }

// Settle does nothing.
func (l *Lane) Settle(source int) {}

// Open does nothing, as do the others.
func (l *Lane) Open(taken uint64, target int) {}

// Pause does nothing.
func (l *Lane) Pause() {}

// Resume does nothing.
func (l *Lane) Resume() {}

// Bar does nothing.
func (l *Lane) Bar() {}

// Unbar does nothing.
func (l *Lane) Unbar() {}

// Leave does nothing.
func (l *Lane) Leave() {}

// Carried is 0.
func (l *Lane) Carried() int64 { return 0 }
