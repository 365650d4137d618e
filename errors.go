package squall

import "errors"

// ErrNoScenario is wrapped by the error for a specification that declares no scenario: nothing
// would be tested.
var ErrNoScenario = errors.New("it declares no scenario, so there is nothing to test")

// ErrNeedsLinux is returned by what can only work on Linux.
var ErrNeedsLinux = errors.New("squall: running programs under supervision needs Linux")
