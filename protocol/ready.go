package protocol

import (
	"context"

	"github.com/squallhq/squall/spec"
)

// Prober is a Protocol that can ask a service whether it is ready, in the protocol's own terms.
type Prober interface {
	Protocol
	// Ready asks once, on a connection of its own. Nil means that the service has answered as one that can be worked
	// with; any error means not yet. It ends with ctx.
	Ready(ctx context.Context, dial Dialer, target spec.Target) error
	// Asks says in a word or two what Ready asks.
	Asks() string
}

// Ready asks a service once whether it is ready: by its protocol where that can tell, and otherwise by making a
// connection, which proves a listener on streams and nothing at all on datagrams.
func Ready(ctx context.Context, p Protocol, dial Dialer, target spec.Target) error {
	if prober, ok := p.(Prober); ok {
		return prober.Ready(ctx, dial, target)
	}
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Credential returns the first of a service's environment variables that is set, or otherwise.
func Credential(target spec.Target, otherwise string, names ...string) string {
	for _, name := range names {
		if v := target.Env[name]; v != "" {
			return v
		}
	}
	return otherwise
}
