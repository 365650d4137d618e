package run

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/run/order"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// choices is the leaf's walk. Rules on system calls take part beside the scenario, hence the lock.
type choices struct {
	mu   sync.Mutex
	walk *plan.Walk
	// left is set once a choice could not be taken as the leaf is made for.
	left error
}

func newChoices(w plan.Way) *choices { return &choices{walk: plan.NewWalk(w)} }

// Name, Known and Observe are those of the walk.
func (c *choices) Name(base string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walk.Name(base)
}

func (c *choices) Known() (byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walk.Known()
}

func (c *choices) Observe(b byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.walk.Observe(b)
}

// fires decides whether an exhaustive rule hits: option 0 is that it does.
func (c *choices) fires(rule, service string, n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprintf("%s of %s, call %d", rule, service, n)
	i, err := c.walk.Decide(plan.Met{Name: name, Lane: rule + "/" + service}, []string{"fires", "does not"})
	if err != nil {
		c.left = errors.Join(c.left, err)
	}
	return i == 0
}

// spared reports whether the walk has kept a rule from acting wherever it could have: then that it never
// fired is what the leaf is for.
func (c *choices) spared(rule string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	met := 0
	for _, m := range c.walk.Met() {
		if len(m.Lane) > len(rule) && m.Lane[:len(rule)+1] == rule+"/" {
			if m.Index == 0 {
				return false
			}
			met++
		}
	}
	return met > 0
}

// reason says that the leaf could not go its way.
func (c *choices) reason() []verdict.Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left != nil {
		return []verdict.Reason{{Code: verdict.ChoiceUnmet, Detail: c.left.Error()}}
	}
	var out []verdict.Reason
	for _, name := range c.walk.Unmet() {
		out = append(out, verdict.Reason{Code: verdict.ChoiceUnmet, Subject: name, Detail: fmt.Sprintf("the leaf is made for a choice at %s, which it did not come to", name)})
	}
	return out
}

func (c *choices) met() []plan.Met {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walk.Met()
}

func (c *choices) waits() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walk.Observations()
}

func (c *choices) unmet() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walk.Unmet()
}

func (c *choices) records() []bundle.ChoiceRecord {
	var out []bundle.ChoiceRecord
	for _, m := range c.met() {
		out = append(out, bundle.ChoiceRecord{Name: m.Name, Index: m.Index, Of: m.Of, Option: m.Option})
	}
	return out
}

func (w *world) Choose(c spec.Choice) (int, error) {
	if len(c.Options) == 0 {
		return 0, fmt.Errorf("run: choose %q: there are no options", c.Name)
	}
	base := c.Name
	if base == "" {
		base = "choose"
	}
	return w.decide(plan.Met{Name: w.l.choices.Name(base)}, c.Options)
}

// decide takes an option and writes it down.
func (w *world) decide(m plan.Met, options []string) (int, error) {
	w.l.choices.mu.Lock()
	defer w.l.choices.mu.Unlock()
	i, err := w.l.choices.walk.Decide(m, options)
	if err != nil {
		w.l.choices.left = errors.Join(w.l.choices.left, err)
		return 0, &spec.Ended{Code: string(verdict.ChoiceUnmet), Detail: err.Error(), Subject: m.Name}
	}
	w.l.log.Append(event.Driver, event.Choice, map[string]any{
		"name": m.Name, "index": int64(i), "of": int64(len(options)), "option": options[i],
	})
	return i, nil
}

// order stops a branch before an operation until it is its turn. Outside of ordered branches it does
// nothing.
func (w *world) order(op order.Operation) (leave func(), err error) {
	if w.branch == nil {
		return func() {}, nil
	}
	w.baton.Give()
	if err := w.branch.Begin(op); err != nil {
		w.baton.Take()
		return nil, err
	}
	w.baton.Take()
	return func() {
		w.baton.Give()
		w.branch.End()
		w.baton.Take()
	}, nil
}

// step is a step as an operation: it may have an effect on every service that the called one can reach.
func (l *leaf) step(t spec.Target, op spec.Operation) order.Operation {
	return order.Operation{What: order.StepText(t, op), Service: t.Service, Touches: l.system.reaches(t.Service)}
}

// branchActive lifts rules when it is its branch's turn.
type branchActive struct {
	spec.Active
	w     *world
	rules []fault.Rule
}

func (a *branchActive) Release() {
	leave, err := a.w.order(order.Rules("lifted", a.rules))
	a.Active.Release()
	if err == nil {
		leave()
	}
}

// LetGo lets go what rules hold when it is its branch's turn.
func (a *branchActive) LetGo() (int, error) {
	leave, err := a.w.order(order.Rules("let go", a.rules))
	if err != nil {
		return 0, err
	}
	defer leave()
	return a.Active.LetGo()
}

// reaches returns a service and all that it may talk to, on however many ways: what it depends on and what
// its arguments and environment name. A name that stands there by chance only adds.
func (s *system) reaches(name string) map[string]bool {
	out := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if out[name] {
			return
		}
		out[name] = true
		for _, d := range s.suite.Services {
			if d.Name == name {
				for _, next := range plan.TalksTo(s.suite, d) {
					visit(next)
				}
			}
		}
	}
	visit(name)
	return out
}

// Parallel runs the branches to their ends and returns the errors of all, in their order.
func (w *world) Parallel(ctx context.Context, how spec.Interleaving, branches ...func(context.Context, spec.World) error) error {
	if w.branch != nil {
		return fmt.Errorf("run: parallel in a branch whose operations are put in order: put its branches beside the others")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.baton.Give()
	defer w.baton.Take()
	shared := &order.Baton{}
	errs := make([]error, len(branches))
	done := make(chan struct{})
	var turns *order.Schedule
	if how.Order != spec.OneOrder {
		turns = w.schedule(how)
	}
	for i, branch := range branches {
		inner := *w
		inner.baton = shared
		turn := shared.Join()
		if turns != nil {
			inner.branch = order.NewBranch(ctx, i)
			turns.Branches = append(turns.Branches, inner.branch)
		}
		go func() {
			defer func() { done <- struct{}{} }()
			<-turn
			defer inner.branch.Leave()
			defer shared.Give()
			if errs[i] = branch(ctx, &inner); errs[i] != nil {
				cancel(context.Canceled)
			}
		}()
	}
	var conducted error
	if turns != nil {
		if conducted = turns.Conduct(ctx); conducted != nil {
			cancel(conducted)
		}
	}
	for range branches {
		<-done
	}
	if turns != nil {
		w.reduce(turns)
	}
	var left *plan.LeftWay
	if errors.As(conducted, &left) {
		return &spec.Ended{Code: string(verdict.ChoiceUnmet), Detail: left.Error(), Subject: left.Name}
	}
	return firstCause(append(errs, conducted))
}

// schedule makes the order of some branches.
func (w *world) schedule(how spec.Interleaving) *order.Schedule {
	return &order.Schedule{
		How: how, Name: w.l.choices.Name("parallel"), Walk: w.l.choices, Decide: w.decide, Seed: w.l.plan.Seed, Clock: w.l.clock,
	}
}

// reduce tells the choices of a schedule which other options matter.
func (w *world) reduce(s *order.Schedule) {
	if s.How.Order != spec.CriticalOrders {
		return
	}
	w.l.choices.mu.Lock()
	defer w.l.choices.mu.Unlock()
	for name, try := range s.Backtracks() {
		w.l.choices.walk.Reduce(name, try)
	}
}

// firstCause prefers the error that cancelled the others over their cancellation.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}
