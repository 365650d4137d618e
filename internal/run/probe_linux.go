package run

import (
	"context"

	"github.com/squallhq/squall/internal/intercept/notify"
	"github.com/squallhq/squall/internal/launch"
	"github.com/squallhq/squall/internal/link"
)

// Probe tries to supervise a program, for real, and returns why that would not work here.
func Probe() error { return notify.New(notify.Options{}).Probe() }

// ProbeWorlds tries what worlds can be made of here.
func ProbeWorlds(ctx context.Context) (launch.Report, error) { return launch.Probe(ctx) }

// ProbeShortcut tells why idle links go through the relay here all the time, nil where they do not.
func ProbeShortcut() error { return link.CanJoin() }
