//go:build !linux

package notify

import (
	"context"
	"fmt"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/spec"
)

// Options change how a backend works.
type Options struct {
	// WaitKillable has no effect here.
	WaitKillable bool
}

// New returns a backend that says that this system has none.
func New(Options) intercept.Backend { return backend{} }

type backend struct{}

func (backend) Name() string { return "notify" }

func (backend) Caps() intercept.Caps { return intercept.Caps{} }

func (backend) Probe() error {
	return fmt.Errorf("notify: %w: it needs Linux", intercept.ErrNotSupported)
}

func (b backend) Start(context.Context, spec.Process, intercept.Subscription) (intercept.Session, error) {
	return nil, b.Probe()
}
