package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/run/order"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// bodyLimit is how much of an answer's body stands in the log.
const bodyLimit = 2048

// world is spec.World over a running leaf. A copy with a baton of its own belongs to each branch.
type world struct {
	l     *leaf
	baton *order.Baton
	// branch is set in a branch whose operations are put in order.
	branch *order.Branch
	// setup is set before the body: nothing is injected then.
	setup bool
	// steps are those of a seed; nil elsewhere.
	steps *steps
}

// enter is called by each World method before it does something that takes time; the function that
// it returns, after. Properties are evaluated here, in the body's own goroutine, so that their code
// never runs beside the body's.
func (w *world) enter(op order.Operation) (leave func(), err error) {
	if err := w.l.violated(); err != nil {
		return nil, err
	}
	if w.steps == nil {
		w.l.operations.Store(true)
	}
	w.baton.Give()
	if err := w.branch.Begin(op); err != nil {
		w.baton.Take()
		return nil, err
	}
	return func() {
		w.branch.End()
		w.baton.Take()
	}, nil
}

func (w *world) Call(ctx context.Context, t spec.Target, op spec.Operation) (spec.Response, error) {
	client, err := w.l.client(t)
	if err != nil {
		return spec.Response{}, err
	}
	leave, err := w.enter(w.l.step(t, op))
	if err != nil {
		return spec.Response{}, err
	}
	sent := w.l.log.Append(event.Driver, event.StepSend, map[string]any{
		"target": t.String(), "protocol": t.Protocol, "method": op.Method, "args": maps.Clone(op.Args),
	})
	begin := w.l.clock.Now()
	resp, err := client.Do(ctx, op)
	resp.Duration = w.l.clock.Now() - begin
	leave()
	if err == nil {
		// The leaf's own time is up: what came of the step says nothing about the service.
		err = ctx.Err()
	}
	if err != nil {
		return resp, fmt.Errorf("%s: %s.%s: %w", op.Position, t, op.Method, err)
	}
	w.l.drain()
	resp.Event = w.l.log.Append(event.Driver, event.StepRecv, received(t, op, resp), sent.Seq).Seq
	w.steps.taken(t, op, resp)
	return resp, w.l.violated()
}

func received(t spec.Target, op spec.Operation, r spec.Response) map[string]any {
	f := map[string]any{
		"target": t.String(), "method": op.Method, "ok": r.OK, "status": int64(r.Status),
		"body": r.Body[:min(len(r.Body), bodyLimit)], "duration_ms": r.Duration.Milliseconds(),
	}
	if r.Error != "" {
		f["error"] = r.Error
	}
	return f
}

func (w *world) Inject(_ context.Context, rules ...fault.Rule) (spec.Active, error) {
	if err := w.l.violated(); err != nil {
		return nil, err
	}
	if w.setup {
		return nil, errors.New("run: a setup or a seed injects no faults; inject them in the body")
	}
	for _, r := range rules {
		if why := w.l.reach.Allows(r); why != "" {
			return nil, &spec.Ended{Code: string(verdict.NotSubscribed), Detail: why, Subject: r.ID, Position: r.Position}
		}
	}
	leave, err := w.order(order.Rules("put in force", rules))
	if err != nil {
		return nil, err
	}
	defer leave()
	active, err := w.l.faults.Install(rules)
	if err != nil {
		return nil, uninstallable(err)
	}
	if w.branch != nil {
		return &branchActive{active, w, rules}, nil
	}
	return active, nil
}

func (w *world) Act(ctx context.Context, name string, a spec.Action) error {
	s, ok := w.l.services[name]
	if !ok {
		return fmt.Errorf("run: %s: no service %q", a, name)
	}
	leave, err := w.enter(order.Operation{What: fmt.Sprintf("%s(%s)", a, name), Touches: map[string]bool{name: true}})
	if err != nil {
		return err
	}
	defer leave()
	return s.act(ctx, a)
}

func (w *world) Events() spec.View {
	return view{
		log: w.l.log, clock: w.l.clock, check: w.l.violated, drain: w.l.drain, baton: w.baton, order: w.order,
		judge: &w.l.judge, trace: w.l.trace,
		asserted: func() {
			if !w.setup {
				w.l.judge.asserted.Store(true)
			}
		},
		add: func(t *property.Temporal) error { return w.l.judge.props.Add(t) },
	}
}

func (w *world) Sleep(ctx context.Context, d time.Duration) error {
	leave, err := w.enter(order.Operation{What: "sleep " + d.String(), All: true, Steady: true})
	if err != nil {
		return err
	}
	if w.baton == nil {
		// Nobody else runs the scenario's code, so a sleep can end where the body may end.
		return w.doze(ctx, d)
	}
	err = vtime.Sleep(ctx, w.l.clock, d)
	leave()
	return errors.Join(err, w.l.violated())
}

// doze sleeps and lets the properties see what comes meanwhile.
func (w *world) doze(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return errors.Join(ctx.Err(), w.l.violated())
	}
	done, stop := w.l.clock.After(d)
	defer stop()
	for seen := int64(0); ; {
		events, changed := w.l.log.Since(seen)
		seen += int64(len(events))
		if err := w.l.violated(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-done:
			return w.l.violated()
		case <-ctx.Done():
			return errors.Join(ctx.Err(), w.l.violated())
		}
	}
}

func (w *world) End(e spec.Ended) error { return &e }
