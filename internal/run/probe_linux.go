package run

import (
	"context"

	"github.com/squallhq/squall/internal/intercept/notify"
	"github.com/squallhq/squall/internal/launch"
)

// Probe tries to supervise a program, for real, and returns why that would not work here.
func Probe() error { return notify.New(notify.Options{}).Probe() }

// ProbeWorlds tries what worlds can be made of here.
func ProbeWorlds(ctx context.Context) (launch.Report, error) { return launch.Probe(ctx) }
