package bind

import (
	"errors"
	"fmt"

	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// WorldError is an error of the world, with the step that met it.
type WorldError struct {
	position, step string
	cause          error
}

// Error says where, in which step and why.
func (e *WorldError) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.position, e.step, e.cause)
}

// Unwrap returns what the world gave.
func (e *WorldError) Unwrap() error { return e.cause }

// Worldly wraps an error that the world gave to a builtin.
func (c *Call) Worldly(err error) error {
	if err == nil {
		return nil
	}
	var ended *spec.Ended
	if errors.As(err, &ended) {
		if ended.Position == "" {
			ended.Position = c.Site.Start().String()
		}
		return err
	}
	var violation *property.Violation
	var script *source.ScriptError
	if errors.As(err, &violation) || errors.As(err, &script) {
		return err // of the spec's own code, which the world has called
	}
	return &WorldError{position: c.Site.Start().String(), step: c.Entry.Name, cause: err}
}
