package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// setup runs what the scenario needs before it begins. It is no part of what is judged: where it does not
// come to its end the leaf is open, unless a property is violated meanwhile.
func (l *leaf) setup(ctx context.Context) (result any, end *check.Ending) {
	timeout := l.timeout()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	l.alive.expect(timeout+patience, fmt.Sprintf("the setup did not return within %s after its timeout of %s: its code does not look at its context", patience, timeout))
	defer cancel()
	result, err := l.plan.Scenario.Setup(ctx, &world{l: l, setup: true})
	if err == nil {
		l.drain()
		err = l.violated()
	}
	if err == nil && ctx.Err() == nil {
		return result, nil
	}
	got := ending(ctx, err, timeout)
	if got.Kind == check.Decided || got.Kind == check.Interrupted {
		return nil, &got
	}
	why := &spec.Ended{Code: string(verdict.SetupFailed), Detail: fmt.Sprint(got.Err)}
	var violated *property.Violation
	var ended *spec.Ended
	switch {
	case got.Kind == check.Timeout:
		why.Detail = fmt.Sprintf("the setup was not done after %s", timeout)
	case errors.As(err, &violated):
		why.Position = violated.Position
	case errors.As(err, &ended):
		why.Detail, why.Subject, why.Position = ended.Error(), ended.Subject, ended.Position
	}
	return nil, &check.Ending{Kind: check.Cut, Err: why}
}
