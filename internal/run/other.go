//go:build !linux

package run

import (
	"context"
	"errors"

	"github.com/squallhq/squall/spec"
)

// ErrNoNamespaces is wrapped by Start's error where the machine refuses namespaces.
var ErrNoNamespaces = errors.New("namespaces are not available")

// Worlds starts the worlds of a run; here it cannot.
type Worlds struct{}

// NewWorlds returns an error: there are no worlds here.
func NewWorlds() (*Worlds, error) { return nil, ErrNeedsLinux }

// Close does nothing.
func (*Worlds) Close() {}

// Start returns an error.
func (*Worlds) Start(context.Context, Job, Sink) (Done, error) { return Done{}, ErrNeedsLinux }

// Inside reports that this process is no world's.
func Inside(spec.Loader) (code int, ok bool) { return 0, false }
