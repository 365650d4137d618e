package order

import (
	"sync"
)

// Baton makes parallel branches coroutines: only its holder runs the scenario's code. A branch
// gives it away while it waits inside a World call; who asked first gets it first. A nil Baton
// belongs to a body without branches.
type Baton struct {
	mu    sync.Mutex
	held  bool
	queue []chan struct{}
}

// Join asks for the baton; it is the caller's once the channel is closed.
func (b *Baton) Join() <-chan struct{} {
	mine := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held {
		b.queue = append(b.queue, mine)
		return mine
	}
	b.held = true
	close(mine)
	return mine
}

// Take waits until the baton is the caller's.
func (b *Baton) Take() {
	if b != nil {
		<-b.Join()
	}
}

// Give hands it to who asked first.
func (b *Baton) Give() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.held = false
		return
	}
	close(b.queue[0])
	b.queue = b.queue[1:]
}
