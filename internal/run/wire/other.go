//go:build !linux

package wire

import (
	"context"
	"errors"
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
