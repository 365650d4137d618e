package squall

import (
	"github.com/squallhq/squall/internal/run"
	"github.com/squallhq/squall/protocol"
)

// Protocols describes the wire protocols that this build knows.
func Protocols() []protocol.Info { return run.Protocols() }
