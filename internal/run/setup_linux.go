package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/internal/run/wire"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// setup runs what the scenario needs before it begins. It is no part of what is judged: where it does not
// come to its end the leaf is open, unless a property is violated meanwhile.
func (l *leaf) setup(ctx context.Context) (result any, end *check.Ending) {
	timeout := l.timeout()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	l.alive.Expect(timeout+wire.Patience, fmt.Sprintf("the setup did not return within %s after its timeout of %s: its code does not look at its context", wire.Patience, timeout))
	defer cancel()
	result, err := l.plan.Scenario.Setup(ctx, &world{l: l, setup: true})
	got := l.prepared(ctx, err, timeout)
	if got == nil {
		return result, nil
	}
	if got.Kind == check.Decided || got.Kind == check.Interrupted {
		return nil, got
	}
	why := unprepared(got, err, "setup", timeout)
	why.Code = string(verdict.SetupFailed)
	return nil, &check.Ending{Kind: check.Cut, Err: why}
}

// prepared says how code ended that runs before the body; nil means as it should.
func (l *leaf) prepared(ctx context.Context, err error, timeout time.Duration) *check.Ending {
	if err == nil {
		l.drain()
		err = l.violated()
	}
	if err == nil && ctx.Err() == nil {
		return nil
	}
	got := ending(ctx, err, timeout)
	return &got
}

// unprepared says why such code did not come to its end.
func unprepared(got *check.Ending, err error, what string, timeout time.Duration) *spec.Ended {
	why := &spec.Ended{Detail: fmt.Sprint(got.Err), Position: place(err)}
	var violated *property.Violation
	var ended *spec.Ended
	switch {
	case got.Kind == check.Timeout:
		why.Detail = fmt.Sprintf("the %s was not done after %s", what, timeout)
	case errors.Is(err, errTerminated):
		why.Detail = "terminate_when was true before the body began"
	case errors.As(err, &violated):
		why.Position = violated.Position
	case errors.As(err, &ended):
		why.Detail, why.Subject, why.Position = ended.Error(), ended.Subject, ended.Position
	}
	return why
}
