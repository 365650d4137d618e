// Package order puts the operations of parallel branches in order.
//
// It knows nothing of systems: a branch says that it stands before an operation, and what that touches; a
// Schedule says when it is its turn. Which turns there are is a tree of choices.
package order

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/seed"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// patience is how long an operation of a branch may take before it counts as waiting for another
// branch. An operation that is only slow is taken for one that waits: then the others go on beside it, which
// is an order like any other, and is written down.
const patience = 250 * time.Millisecond

// Operation is a mediated operation of a branch: what the branches' orders are made of.
type Operation struct {
	// What says it in words; Service is the one that a step is taken on.
	What, Service string
	// Touches are the services that it may have an effect on or depend on; All stands for every service.
	Touches map[string]bool
	All     bool
	// Steady operations end by themselves, so that nobody needs to go on meanwhile.
	Steady bool
}

// conflicts reports whether the order of two operations may matter.
func (o Operation) conflicts(other Operation) bool {
	if o.All || other.All {
		return true
	}
	for s := range o.Touches {
		if other.Touches[s] {
			return true
		}
	}
	return false
}

// Schedule lets one operation of its branches happen at a time, in an order that is made of choices.
//
// Each branch runs to its first operation and stops before it. Then, again and again: the branches that stand
// before an operation are the options of a choice, the one taken carries out its operation and runs to its
// next. An operation that does not come to its end in time waits for another branch; the others go on, and
// its branch is looked at again after each of their operations. What was seen of this is kept as
// observations, so that a leaf that begins in the same way, or a replay, takes the same order without looking
// at the clock.
type Schedule struct {
	How spec.Interleaving
	// Name is what its choices begin with.
	Name     string
	Walk     Walker
	Decide   func(plan.Met, []string) (int, error)
	Seed     seed.Seed
	Clock    vtime.Clock
	Branches []*Branch
	// sample is the order that is drawn, from 1; 0 takes the first branch that can go on.
	sample int
	steps  []step
}

// Walker is what a schedule needs of the leaf's walk.
type Walker interface {
	Name(base string) string
	Known() (byte, bool)
	Observe(b byte)
}

// step is an operation that has been carried out.
type step struct {
	branch int
	op     Operation
	// ready are the branches that could go on, choice the name of the choice between them, "" for none.
	ready  []int
	choice string
}

// Branch is one of the functions that run in parallel.
type Branch struct {
	index int
	// said has what the branch says: that it stands before an operation, that the operation has ended, that
	// it has ended itself. turn lets it carry the operation out, resume lets it go on afterwards.
	said         chan saying
	turn, resume chan struct{}
	// ctx ends with the parallel branches, whatever a single operation is given.
	ctx   context.Context
	op    Operation
	state branchState
}

type saying struct {
	op    Operation
	state branchState
}

type branchState int

const (
	runs branchState = iota
	stands
	waits
	finished
	gone
)

// NewBranch returns the i-th branch; ctx ends with all of them.
func NewBranch(ctx context.Context, i int) *Branch {
	return &Branch{ctx: ctx, index: i, said: make(chan saying, 1), turn: make(chan struct{}), resume: make(chan struct{})}
}

// Begin stops the branch before an operation until it is its turn.
func (b *Branch) Begin(op Operation) error {
	if b == nil {
		return nil
	}
	b.say(saying{op, stands})
	select {
	case <-b.turn:
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

// End says that the operation has ended, and returns when the branch may go on.
func (b *Branch) End() {
	if b == nil {
		return
	}
	b.say(saying{state: finished})
	select {
	case <-b.resume:
	case <-b.ctx.Done():
	}
}

// Leave says that the branch has come to its end.
func (b *Branch) Leave() {
	if b != nil {
		b.say(saying{state: gone})
	}
}

// say tells the schedule, as long as it listens.
func (b *Branch) say(what saying) {
	select {
	case b.said <- what:
		return
	default:
	}
	select {
	case b.said <- what:
	case <-b.ctx.Done():
	}
}

// stood reports whether the branch stands before an operation, once nobody conducts any more.
func (b *Branch) stood() bool {
	if b.state == runs {
		select {
		case say := <-b.said:
			b.op, b.state = say.op, say.state
		default:
		}
	}
	return b.state == stands
}

// Conduct carries the schedule out. It returns once every branch has ended, or with an error where ctx
// ends or a choice can't be taken: the branches then see ctx end.
func (s *Schedule) Conduct(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	for _, b := range s.Branches {
		if err := s.hear(ctx, b); err != nil {
			return err
		}
	}
	for {
		b, err := s.next(ctx)
		if b == nil || err != nil {
			return err
		}
		if err := s.carryOut(ctx, b); err != nil {
			return err
		}
		if err := s.revisit(ctx); err != nil {
			return err
		}
	}
}

// open decides which of some drawn orders it is.
func (s *Schedule) open() error {
	if s.How.Order != spec.SomeOrders || s.How.Count < 2 {
		return nil
	}
	options := make([]string, s.How.Count)
	for i := range options {
		options[i] = fmt.Sprintf("order %d of %d", i+1, s.How.Count)
	}
	var err error
	s.sample, err = s.Decide(plan.Met{Name: s.Name}, options)
	return err
}

// hear lets a branch run to its next operation, or to its end.
func (s *Schedule) hear(ctx context.Context, b *Branch) error {
	b.state = runs
	select {
	case say := <-b.said:
		b.op, b.state = say.op, say.state
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next returns the branch that goes on; nil where all have ended.
func (s *Schedule) next(ctx context.Context) (*Branch, error) {
	for {
		var ready []*Branch
		waiting := false
		for _, b := range s.Branches {
			waiting = waiting || b.state == waits
			if b.state == stands {
				ready = append(ready, b)
			}
		}
		if len(ready) > 0 {
			return s.pick(ready)
		}
		if !waiting {
			return nil, nil
		}
		if err := s.first(ctx); err != nil {
			return nil, err
		}
	}
}

// pick decides which branch goes on.
func (s *Schedule) pick(ready []*Branch) (*Branch, error) {
	st := step{}
	for _, b := range ready {
		st.ready = append(st.ready, b.index)
		if s.exempt(b.op) {
			st.ready = []int{b.index}
			s.steps = append(s.steps, st.by(b))
			return b, nil
		}
	}
	i := 0
	switch {
	case len(ready) == 1:
	case s.How.Order == spec.SomeOrders:
		if s.sample > 0 {
			i = s.Seed.IntN(len(ready), int64(len(s.steps)), "order", s.Name, fmt.Sprint(s.sample))
		}
	default:
		options := make([]string, len(ready))
		for k, b := range ready {
			options[k] = fmt.Sprintf("branch %d: %s", b.index+1, b.op.What)
		}
		st.choice = s.Walk.Name(s.Name + "/order")
		var err error
		if i, err = s.Decide(plan.Met{Name: st.choice}, options); err != nil {
			return nil, err
		}
	}
	s.steps = append(s.steps, st.by(ready[i]))
	return ready[i], nil
}

func (st step) by(b *Branch) step {
	st.branch, st.op = b.index, b.op
	return st
}

// exempt reports whether an operation is a step on a service for whose order nobody asks.
func (s *Schedule) exempt(op Operation) bool {
	return op.Service != "" && slices.Contains(s.How.Exempt, op.Service)
}

// carryOut lets a branch carry out its operation and run to the next.
func (s *Schedule) carryOut(ctx context.Context, b *Branch) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.state = waits
	ended, err := s.look(ctx, b)
	if err != nil {
		return err
	}
	if !ended {
		// What happens until it ends may have an effect on it.
		s.steps[len(s.steps)-1].op.All = true
		return nil
	}
	return s.goOn(ctx, b)
}

// look tells whether a branch's operation has ended. Where an earlier run has seen it, so it is.
func (s *Schedule) look(ctx context.Context, b *Branch) (bool, error) {
	known, ok := s.Walk.Known()
	if !ok && !b.op.Steady {
		expired, stop := s.Clock.After(patience)
		defer stop()
		select {
		case <-b.said:
			s.Walk.Observe('.')
			return true, nil
		case <-expired:
			s.Walk.Observe('w')
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	if ok && known != '.' {
		s.Walk.Observe(known)
		// What it has asked for by now was on its way when the others went on.
		return false, vtime.Sleep(ctx, s.Clock, patience)
	}
	select {
	case <-b.said:
		s.Walk.Observe('.')
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// goOn lets a branch whose operation has ended run to its next.
func (s *Schedule) goOn(ctx context.Context, b *Branch) error {
	select {
	case b.resume <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.hear(ctx, b)
}

// revisit looks at the branches that waited.
func (s *Schedule) revisit(ctx context.Context) error {
	for _, b := range s.Branches {
		if b.state != waits || b.index == s.steps[len(s.steps)-1].branch {
			continue
		}
		ended, err := s.look(ctx, b)
		if err != nil {
			return err
		}
		if ended {
			if err := s.goOn(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// first waits for the first of the branches of which all wait, and lets it go on.
func (s *Schedule) first(ctx context.Context) error {
	known, ok := s.Walk.Known()
	found := make(chan *Branch, len(s.Branches))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	listening := 0
	for _, b := range s.Branches {
		if b.state != waits || ok && byte('A'+b.index) != known {
			continue
		}
		listening++
		go func() {
			select {
			case <-b.said:
				found <- b
			case <-inner.Done():
				found <- nil
			}
		}()
	}
	if listening == 0 {
		return &plan.LeftWay{Name: s.Name, Want: int(known), Of: len(s.Branches)}
	}
	b := <-found
	cancel()
	// Another one may have been heard at the same moment: it is put back.
	for range listening - 1 {
		if other := <-found; other != nil {
			if b == nil || other.index < b.index {
				b, other = other, b
			}
			if other != nil {
				other.said <- saying{state: finished}
			}
		}
	}
	if b == nil {
		return context.Cause(ctx)
	}
	s.Walk.Observe(byte('A' + b.index))
	return s.goOn(ctx, b)
}
