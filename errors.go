package squall

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/squallhq/squall/internal/run/wire"
)

// ErrNoScenario is wrapped by the error for a specification that declares no scenario: nothing
// would be tested.
var ErrNoScenario = errors.New("it declares no scenario, so there is nothing to test")

// RecordedSpecError is the error of a replay whose specification, which is in the bundle, does not load.
type RecordedSpecError struct {
	// Bundle is the bundle's path, Dir where the specification's programs were looked for.
	Bundle, Dir string
	// unpacked is where the files of the bundle were meanwhile; "" where the originals are as they were.
	unpacked string
	err      error
}

// Error says what is wrong, with places in the bundle.
func (e *RecordedSpecError) Error() string { return e.inBundle(e.err.Error()) }

// Unwrap returns the loader's error.
func (e *RecordedSpecError) Unwrap() error { return e.err }

// Render is Error over several lines, where the loader has that.
func (e *RecordedSpecError) Render(w io.Writer) error {
	var text bytes.Buffer
	var r interface{ Render(io.Writer) error }
	if !errors.As(e.err, &r) {
		fmt.Fprintln(&text, e.err)
	} else if err := r.Render(&text); err != nil {
		return err
	}
	_, err := io.WriteString(w, e.inBundle(text.String()))
	return err
}

// inBundle names files by their paths in the bundle.
func (e *RecordedSpecError) inBundle(text string) string {
	if e.unpacked == "" {
		return text
	}
	return strings.ReplaceAll(text, e.unpacked+"/", e.Bundle+":")
}

// ErrNeedsLinux is wrapped by the errors of what can only work on Linux.
var ErrNeedsLinux = wire.ErrNeedsLinux
