package spec

import "context"

type setupKey struct{}

// WithSetup returns a context that carries what a scenario's setup returned.
func WithSetup(ctx context.Context, result any) context.Context {
	return context.WithValue(ctx, setupKey{}, result)
}

// SetupResult returns what the scenario's setup returned, or nil.
func SetupResult(ctx context.Context) any { return ctx.Value(setupKey{}) }
