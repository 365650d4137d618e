//go:build !linux

package bundle

import "errors"

func newAnonymous(dir string) (*anonymous, error) { return newHidden(dir) }

func (a *anonymous) link(string) error { return errors.ErrUnsupported }
