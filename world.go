package squall

import (
	"github.com/squallhq/squall/internal/run"
	"github.com/squallhq/squall/spec"
)

// World runs a leaf where this process was started for one, and returns its exit code. ok is false in
// every other process. A program that calls Run or Replay calls World first in main, with the same
// loader.
func World(loader spec.Loader) (code int, ok bool) { return run.Inside(loader) }
