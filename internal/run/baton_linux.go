package run

import (
	"context"
	"errors"
	"sync"

	"github.com/squallhq/squall/spec"
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

// Parallel runs the branches to their ends and returns the errors of all, in their order.
func (w *world) Parallel(ctx context.Context, branches ...func(context.Context, spec.World) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.baton.give()
	defer w.baton.take()
	shared := &baton{}
	errs := make([]error, len(branches))
	done := make(chan struct{})
	for i, branch := range branches {
		turn := shared.join()
		go func() {
			defer func() { done <- struct{}{} }()
			inner := *w
			inner.baton = shared
			<-turn
			defer shared.give()
			if errs[i] = branch(ctx, &inner); errs[i] != nil {
				cancel()
			}
		}()
	}
	for range branches {
		<-done
	}
	return firstCause(errs)
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
