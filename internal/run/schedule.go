package run

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

// patienceForBranch is how long an operation of a branch may take before it counts as waiting for another
// branch. An operation that is only slow is taken for one that waits: then the others go on beside it, which
// is an order like any other, and is written down.
const patienceForBranch = 250 * time.Millisecond

// operation is a mediated operation of a branch: what the branches' orders are made of.
type operation struct {
	// what says it in words; service is the one that a step is taken on.
	what, service string
	// touches are the services that it may have an effect on or depend on; all stands for every service.
	touches map[string]bool
	all     bool
	// steady operations end by themselves, so that nobody needs to go on meanwhile.
	steady bool
}

// conflicts reports whether the order of two operations may matter.
func (o operation) conflicts(other operation) bool {
	if o.all || other.all {
		return true
	}
	for s := range o.touches {
		if other.touches[s] {
			return true
		}
	}
	return false
}

// schedule lets one operation of its branches happen at a time, in an order that is made of choices.
//
// Each branch runs to its first operation and stops before it. Then, again and again: the branches that stand
// before an operation are the options of a choice, the one taken carries out its operation and runs to its
// next. An operation that does not come to its end in time waits for another branch; the others go on, and
// its branch is looked at again after each of their operations. What was seen of this is kept as
// observations, so that a leaf that begins in the same way, or a replay, takes the same order without looking
// at the clock.
type schedule struct {
	how      spec.Interleaving
	name     string
	walk     walker
	decide   func(plan.Met, []string) (int, error)
	seed     seed.Seed
	clock    vtime.Clock
	branches []*branch
	// sample is the order that is drawn, from 1; 0 takes the first branch that can go on.
	sample int
	steps  []step
}

// walker is what a schedule needs of the leaf's walk.
type walker interface {
	Name(base string) string
	Known() (byte, bool)
	Observe(b byte)
}

// step is an operation that has been carried out.
type step struct {
	branch int
	op     operation
	// ready are the branches that could go on, choice the name of the choice between them, "" for none.
	ready  []int
	choice string
}

// branch is one of the functions that run in parallel.
type branch struct {
	index int
	// said has what the branch says: that it stands before an operation, that the operation has ended, that
	// it has ended itself. turn lets it carry the operation out, resume lets it go on afterwards.
	said         chan saying
	turn, resume chan struct{}
	// ctx ends with the parallel branches, whatever a single operation is given.
	ctx   context.Context
	op    operation
	state branchState
}

type saying struct {
	op    operation
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

func newBranch(ctx context.Context, i int) *branch {
	return &branch{ctx: ctx, index: i, said: make(chan saying, 1), turn: make(chan struct{}), resume: make(chan struct{})}
}

// begin stops the branch before an operation until it is its turn.
func (b *branch) begin(op operation) error {
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

// end says that the operation has ended, and returns when the branch may go on.
func (b *branch) end() {
	if b == nil {
		return
	}
	b.say(saying{state: finished})
	select {
	case <-b.resume:
	case <-b.ctx.Done():
	}
}

// leave says that the branch has come to its end.
func (b *branch) leave() {
	if b != nil {
		b.say(saying{state: gone})
	}
}

// say tells the schedule, as long as it listens.
func (b *branch) say(what saying) {
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
func (b *branch) stood() bool {
	if b.state == runs {
		select {
		case say := <-b.said:
			b.op, b.state = say.op, say.state
		default:
		}
	}
	return b.state == stands
}

// conduct carries the schedule out. It returns once every branch has ended, or with an error where ctx
// ends or a choice can't be taken: the branches then see ctx end.
func (s *schedule) conduct(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	for _, b := range s.branches {
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
func (s *schedule) open() error {
	if s.how.Order != spec.SomeOrders || s.how.Count < 2 {
		return nil
	}
	options := make([]string, s.how.Count)
	for i := range options {
		options[i] = fmt.Sprintf("order %d of %d", i+1, s.how.Count)
	}
	var err error
	s.sample, err = s.decide(plan.Met{Name: s.name}, options)
	return err
}

// hear lets a branch run to its next operation, or to its end.
func (s *schedule) hear(ctx context.Context, b *branch) error {
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
func (s *schedule) next(ctx context.Context) (*branch, error) {
	for {
		var ready []*branch
		waiting := false
		for _, b := range s.branches {
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
func (s *schedule) pick(ready []*branch) (*branch, error) {
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
	case s.how.Order == spec.SomeOrders:
		if s.sample > 0 {
			i = s.seed.IntN(len(ready), int64(len(s.steps)), "order", s.name, fmt.Sprint(s.sample))
		}
	default:
		options := make([]string, len(ready))
		for k, b := range ready {
			options[k] = fmt.Sprintf("branch %d: %s", b.index+1, b.op.what)
		}
		st.choice = s.walk.Name(s.name + "/order")
		var err error
		if i, err = s.decide(plan.Met{Name: st.choice}, options); err != nil {
			return nil, err
		}
	}
	s.steps = append(s.steps, st.by(ready[i]))
	return ready[i], nil
}

func (st step) by(b *branch) step {
	st.branch, st.op = b.index, b.op
	return st
}

// exempt reports whether an operation is a step on a service for whose order nobody asks.
func (s *schedule) exempt(op operation) bool {
	return op.service != "" && slices.Contains(s.how.Exempt, op.service)
}

// carryOut lets a branch carry out its operation and run to the next.
func (s *schedule) carryOut(ctx context.Context, b *branch) error {
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
		s.steps[len(s.steps)-1].op.all = true
		return nil
	}
	return s.goOn(ctx, b)
}

// look tells whether a branch's operation has ended. Where an earlier run has seen it, so it is.
func (s *schedule) look(ctx context.Context, b *branch) (bool, error) {
	known, ok := s.walk.Known()
	if !ok && !b.op.steady {
		expired, stop := s.clock.After(patienceForBranch)
		defer stop()
		select {
		case <-b.said:
			s.walk.Observe('.')
			return true, nil
		case <-expired:
			s.walk.Observe('w')
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	if ok && known != '.' {
		s.walk.Observe(known)
		// What it has asked for by now was on its way when the others went on.
		return false, vtime.Sleep(ctx, s.clock, patienceForBranch)
	}
	select {
	case <-b.said:
		s.walk.Observe('.')
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// goOn lets a branch whose operation has ended run to its next.
func (s *schedule) goOn(ctx context.Context, b *branch) error {
	select {
	case b.resume <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.hear(ctx, b)
}

// revisit looks at the branches that waited.
func (s *schedule) revisit(ctx context.Context) error {
	for _, b := range s.branches {
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
func (s *schedule) first(ctx context.Context) error {
	known, ok := s.walk.Known()
	found := make(chan *branch, len(s.branches))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	listening := 0
	for _, b := range s.branches {
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
		return &plan.LeftWay{Name: s.name, Want: int(known), Of: len(s.branches)}
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
	s.walk.Observe(byte('A' + b.index))
	return s.goOn(ctx, b)
}
