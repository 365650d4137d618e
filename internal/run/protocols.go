package run

import (
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/all"
)

// Protocols describes the wire protocols that this build knows.
func Protocols() []protocol.Info { return all.Infos() }
