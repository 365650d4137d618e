package run

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/launch"
	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/run/disturb"
	"github.com/squallhq/squall/internal/run/leak"
	"github.com/squallhq/squall/internal/run/mediate"
	"github.com/squallhq/squall/internal/run/ready"
	"github.com/squallhq/squall/internal/run/rules"
	"github.com/squallhq/squall/internal/run/wire"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// bodyTimeout bounds a body where neither the scenario nor the job says.
const bodyTimeout = 30 * time.Second

// leaf is all state of one run.
type leaf struct {
	plan     *plan.Leaf
	job      wire.Job
	clock    vtime.Clock
	log      *event.Log
	out      *wire.Frames
	alive    *wire.Pulse
	system   *system
	services map[string]*service
	reach    plan.Reach
	faults   *rules.Set
	judge    judge
	choices  *choices
	// operations is set once the body has had to do with the system.
	operations atomic.Bool
	clients    map[string]protocol.Client
	phases     map[string]time.Duration
}

// judge is what is known of the leaf's properties while it runs.
type judge struct {
	props *check.Evaluator
	// seen is the Seq of the last event that props has seen.
	seen int64
	// decided is set once a property is violated.
	decided error
	// asserted tells that the body has made an assertion, unjudged that an expectation could not fail.
	asserted, unjudged atomic.Bool
	// leaks counts what the level of determinism does not hold.
	leaks *leak.Book
	// watched are assertions that hold where nothing happens, by name.
	watched map[string]bundle.Control
}

// system is what the services of a leaf share.
type system struct {
	suite   *spec.Suite
	backend intercept.Backend
	reaper  *launch.Reaper
	inject  *inject.Engine
	net     *network
	// datagrams tells that an interface of the system is spoken to by datagrams.
	datagrams bool
	// messages are the rules on what passes on connections.
	messages *mediate.Messages
	// processes are the rules on what becomes of processes.
	processes *disturb.Processes
	find      func(string) (protocol.Protocol, bool)
	// temp is a directory that is the leaf's own, whatever the world is made of.
	temp string
}

// errDecided ends a body whose leaf is decided already, errTerminated one that may end here.
var (
	errDecided    = errors.New("run: a property is violated")
	errTerminated = errors.New("run: the scenario's terminate_when is true")
)

// violated lets the properties see what has come and returns an error once one is violated, or once the
// body may end.
func (l *leaf) violated() error {
	j := &l.judge
	if errors.Is(j.decided, errDecided) {
		return j.decided
	}
	if j.leaks.Broken() {
		j.decided = errDecided
		return j.decided
	}
	events, _ := l.log.Since(j.seen)
	if len(events) == 0 {
		return j.decided
	}
	j.seen = events[len(events)-1].Seq
	if len(j.props.Feed(events...)) > 0 {
		j.decided = errDecided
	} else if j.props.Terminated() {
		j.decided = errTerminated
	}
	return j.decided
}

// drain brings into the log what the services have printed so far.
func (l *leaf) drain() {
	for _, decl := range l.system.suite.Services {
		l.services[decl.Name].drain()
	}
}

func (l *leaf) client(t spec.Target) (protocol.Client, error) {
	if c, ok := l.clients[t.String()]; ok {
		return c, nil
	}
	s, ok := l.services[t.Service]
	if !ok {
		return nil, fmt.Errorf("run: no service %q", t.Service)
	}
	p, ok := l.system.find(t.Protocol)
	if !ok {
		return nil, fmt.Errorf("run: no protocol %q", t.Protocol)
	}
	t.Env = s.Env
	c := p.Client(ready.Dialer(s.network, t, p.Info().Datagram), t)
	l.clients[t.String()] = c
	return c, nil
}

// phase begins a phase and ends the one before; the last call has no name.
func (l *leaf) phase(name string, begun *time.Duration, before string) {
	now := l.clock.Now()
	if before != "" {
		l.phases[before] = now - *begun
	}
	*begun = now
	if name != "" {
		l.out.Phase(name)
	}
}

// outcome is how a leaf ended, with what was seen on the way.
type outcome struct {
	check.Ending
	// result is the scenario's result in words.
	result string
	// expected and expect tell that an expectation ran and what it said.
	expected bool
	expect   error
	// reasons are known beside what the body did: why services did not start.
	reasons []verdict.Reason
}

// run carries the leaf out. Whatever happens, it returns a verdict.
func (l *leaf) run(ctx context.Context) wire.Done {
	begin := l.clock.Now()
	mark := begin
	l.phase("start", &mark, "")
	end := outcome{Ending: check.Ending{Kind: check.Cut}}
	if why := l.start(ctx); why != nil {
		end.Err = &spec.Ended{Code: string(why.Code), Detail: why.Detail, Subject: why.Subject, Position: why.Position}
	} else {
		end = l.scenario(ctx, &mark)
	}
	l.phase("stop", &mark, "body")
	l.leaked()
	l.stop()
	l.phase("", &mark, "stop")
	return l.done(end, l.clock.Now()-begin)
}

// scenario runs the setup, where there is one, and the body.
func (l *leaf) scenario(ctx context.Context, mark *time.Duration) outcome {
	if l.judge.leaks.Broken() {
		return outcome{Ending: check.Ending{Kind: check.Decided}}
	}
	before := "start"
	if l.plan.Scenario.Setup != nil {
		l.phase("setup", mark, before)
		before = "setup"
		result, end := l.setup(ctx)
		if end != nil {
			l.phase("body", mark, before)
			return outcome{Ending: *end}
		}
		ctx = spec.WithSetup(ctx, result)
	}
	l.phase("body", mark, before)
	return l.body(ctx)
}

// timeout bounds the body, and the setup.
func (l *leaf) timeout() time.Duration {
	switch {
	case l.job.Timeout > 0:
		return l.job.Timeout
	case l.plan.Scenario.Timeout > 0:
		return l.plan.Scenario.Timeout
	}
	return bodyTimeout
}

// body installs the assumption, runs the scenario and its expectation, and lifts everything.
func (l *leaf) body(ctx context.Context) outcome {
	timeout := l.timeout()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	l.alive.Expect(timeout+wire.Patience, fmt.Sprintf("the scenario did not return within %s after its timeout of %s: its code does not look at its context", wire.Patience, timeout))
	defer cancel()
	w := &world{l: l}
	l.log.Append(event.Driver, event.Body, map[string]any{"phase": "begin", "scenario": l.plan.Scenario.Name})
	rules, err := l.faults.Install(during(l.plan.Rules(), "body"))
	if err != nil {
		return outcome{Ending: check.Ending{Kind: check.Cut, Err: uninstallable(err)}}
	}
	defer rules.Release()
	result, err := l.plan.Scenario.Body(ctx, w)
	end := outcome{Ending: ending(ctx, err, timeout), result: fmt.Sprint(result)}
	l.drain()
	l.log.Append(event.Driver, event.Body, map[string]any{"phase": "end", "outcome": string(end.Kind)})
	if errors.Is(err, errTerminated) {
		end.result = "ended by terminate_when"
	} else if end.Kind == check.Returned && l.plan.Expect != nil {
		end.expect = l.plan.Expect(ctx, w, result)
		end.expected = true
		if errors.Is(end.expect, errDecided) || errors.Is(end.expect, errTerminated) {
			end.expect = nil
		}
		var violated *property.Violation
		if errors.Is(end.expect, context.DeadlineExceeded) && !errors.As(end.expect, &violated) {
			end.expect = &spec.Ended{
				Code: string(verdict.Timeout), Detail: fmt.Sprintf("the expectation was not done %s after the scenario began", timeout),
				Position: l.plan.Scenario.Position,
			}
		}
	}
	return end
}

// uninstallable says why a rule could not be put in force.
func uninstallable(err error) *spec.Ended {
	end := &spec.Ended{Code: string(verdict.WorldFailed), Detail: err.Error()}
	if errors.Is(err, link.ErrNeedsOwnedNetwork) {
		end.Code = string(verdict.NeedsNamespaces)
	}
	var install *rules.InstallError
	if errors.As(err, &install) {
		end.Subject, end.Position = install.Rule.ID, install.Rule.Position
	}
	return end
}

// ending says how a body ended. One that was ended because a property is violated is Decided: the
// violation is reason enough. One that outlived its time is a Timeout whatever it returned: a step that
// was cut by the deadline comes back as an answer like any other.
func ending(ctx context.Context, err error, timeout time.Duration) check.Ending {
	if errors.Is(err, errDecided) {
		return check.Ending{Kind: check.Decided}
	}
	if errors.Is(err, errTerminated) {
		return check.Ending{Kind: check.Returned}
	}
	end := check.Classify(ctx, err)
	late := end.Kind == check.Returned && errors.Is(ctx.Err(), context.DeadlineExceeded)
	var ended *spec.Ended
	if late || end.Kind == check.Timeout && !errors.As(err, &ended) {
		return check.Ending{Kind: check.Timeout, Err: fmt.Errorf("the scenario was not done after %s", timeout)}
	}
	return end
}
