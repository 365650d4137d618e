package squall

import (
	"errors"

	"github.com/squallhq/squall/internal/run"
)

// ErrNoScenario is wrapped by the error for a specification that declares no scenario: nothing
// would be tested.
var ErrNoScenario = errors.New("it declares no scenario, so there is nothing to test")

// ErrNeedsLinux is wrapped by the errors of what can only work on Linux.
var ErrNeedsLinux = run.ErrNeedsLinux
