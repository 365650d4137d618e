package run

import (
	"context"
	"errors"
	"sync"
)

// baton makes parallel branches coroutines: only its holder runs the scenario's code. A branch
// gives it away while it waits inside a World call; who asked first gets it first. A nil baton
// belongs to a body without branches.
type baton struct {
	mu    sync.Mutex
	held  bool
	queue []chan struct{}
}

// join asks for the baton; it is the caller's once the channel is closed.
func (b *baton) join() <-chan struct{} {
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

func (b *baton) take() {
	if b != nil {
		<-b.join()
	}
}

func (b *baton) give() {
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

// firstCause prefers the error that cancelled the others over their cancellation.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}
