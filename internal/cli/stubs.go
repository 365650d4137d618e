package cli

import (
	"errors"
	"io"
)

type stubsCmd struct{}

// stubber is a loader that can describe its language.
type stubber interface{ Stubs() string }

// Run implements the command.
func (c *stubsCmd) Run(e *env) error {
	l, ok := e.loader.(stubber)
	if !ok {
		return errors.New("squall: stubs: the language of these specifications has no table of its names")
	}
	_, err := io.WriteString(e.stdout, l.Stubs())
	return err
}
