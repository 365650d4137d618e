// Package run carries out one leaf.
//
// The outer process (package wire) gives a Job to a process of its own inside a fresh
// world. That process (Inside) builds the suite again, starts the services
// under supervision, runs the scenario's body against them, judges what
// happened, and streams Frames back. All state of a leaf lives in that process
// and ends with it.
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/check"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/intercept/notify"
	"github.com/squallhq/squall/internal/launch"
	"github.com/squallhq/squall/internal/link"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/run/leak"
	"github.com/squallhq/squall/internal/run/mediate"
	"github.com/squallhq/squall/internal/run/rules"
	"github.com/squallhq/squall/internal/run/wire"
	"github.com/squallhq/squall/internal/seed"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/all"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Inside runs the leaf of a world's process and returns the process's exit code. ok is false where
// this process is not one.
func Inside(loader spec.Loader) (code int, ok bool) {
	in, ok := launch.Enter()
	if !ok {
		return 0, false
	}
	if err := inside(in, loader); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2, true
	}
	return 0, true
}

func inside(in *launch.Inside, loader spec.Loader) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Programs of the leaf may signal their whole world; its supervisor stays. The signals are caught and
	// not ignored, since what is ignored here would be ignored by every program that starts here.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT,
		syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTRAP, syscall.SIGSYS)
	var job wire.Job
	if err := json.NewDecoder(in.Control).Decode(&job); err != nil {
		return fmt.Errorf("run: read the job: %w", err)
	}
	out := wire.NewFrames(in.Events)
	out.Phase("load")
	alive := &wire.Pulse{}
	go alive.Run(vtime.Wall(), out, ctx.Done(), func(late string) {
		fmt.Fprintln(os.Stderr, late)
		os.Exit(2)
	})
	suite, err := loader.Load(ctx, job.Source)
	if err != nil {
		return fmt.Errorf("run: load %s again: %w", job.Source, err)
	}
	p, err := plan.Make(suite, plan.Options{Seed: seed.Seed(job.Seed)})
	if err != nil {
		return err
	}
	pl, err := p.Find(job.Leaf, job.Cell, job.Run, job.Way)
	if err != nil {
		return fmt.Errorf("run: the specification changed while it was run: %w", err)
	}
	done, err := newLeaf(job, pl, out, alive).lead(ctx, in, suite)
	if err != nil {
		return err
	}
	out.Send(wire.Frame{Done: &done})
	return out.Flush()
}

func newLeaf(job wire.Job, pl *plan.Leaf, out *wire.Frames, alive *wire.Pulse) *leaf {
	clock := vtime.Wall()
	l := &leaf{
		plan: pl, job: job, clock: clock, out: out, alive: alive, services: map[string]*service{}, reach: pl.Reach(),
		choices: newChoices(pl.Way),
		log:     event.NewLog(clock.Now), clients: map[string]protocol.Client{}, phases: map[string]time.Duration{},
		judge: judge{props: check.New(check.Properties{Monitors: pl.Monitors, Temporal: pl.Temporal})},
	}
	l.log.Sink(func(e event.Event) { out.Send(wire.Frame{Event: &e}) })
	return l
}

// lead builds the world and runs the leaf in it. A world that cannot be built is a verdict too.
func (l *leaf) lead(ctx context.Context, in *launch.Inside, suite *spec.Suite) (wire.Done, error) {
	l.system = &system{
		suite: suite, backend: notify.New(notify.Options{}), inject: inject.New(l.plan.Seed), find: all.Find,
	}
	l.judge.leaks = leak.NewBook(suite.Determinism, suite.Services, leak.BlindClocks())
	names := make([]string, len(suite.Services))
	datagrams := false
	for i, s := range suite.Services {
		names[i] = s.Name
		for _, face := range s.Interfaces {
			datagrams = datagrams || face.Protocol == "udp"
		}
	}
	l.system.datagrams = datagrams
	layout, err := in.Setup(l.files(names))
	if err != nil {
		return l.unbuilt(err), nil
	}
	l.system.temp = "/tmp"
	if in.Mode == launch.ModeShared {
		l.system.temp = layout.Temp
	}
	l.system.messages = mediate.New(mediate.Config{
		Suite: suite, Seed: l.plan.Seed, Find: l.system.find, Log: l.log, Shared: in.Mode == launch.ModeShared, Speaks: l.reach.Speaks,
		Rules: func() *rules.Set { return l.faults }, Opened: func(f link.Flow) int64 { return l.system.net.openedBy(f) }, Drain: l.drain,
	})
	if l.system.net, err = newNetwork(l, in); err != nil {
		return l.unbuilt(err), nil
	}
	l.system.reaper = launch.NewReaper()
	l.system.processes = l.processes()
	l.faults = rules.New(rules.Config{
		Log: l.log, Syscall: l.system.inject, Link: l.system.net, Message: l.system.messages, Process: l.system.processes,
		Spared: l.choices.spared,
	})
	l.system.inject.Exhaust(l.choices.fires)
	for _, s := range suite.Services {
		if s.Dir == "" {
			s.Dir = filepath.Dir(suite.Source)
		}
		l.services[s.Name] = &service{
			Service: s, l: l, network: l.system.net.spaces[s.Name], sub: l.subscription(s.Name, datagrams),
			sources: l.judge.leaks.Of(s.Name), seen: map[string]int{}, lost: map[string]int{},
		}
	}
	l.alive.With(l.touch)
	done := l.run(ctx)
	if l.job.Keep != "" {
		if err := keep(in, layout); err != nil {
			l.note(event.Driver, "", err.Error())
		}
	}
	return done, layout.Remove()
}

// touch takes each lock of the leaf for a moment.
func (l *leaf) touch() {
	l.log.Len()
	l.system.inject.Fired("")
	l.system.net.Fired("")
	l.faults.Rule("")
	for _, s := range l.services {
		s.current()
	}
}

// unbuilt is what comes of a leaf whose world could not be built.
func (l *leaf) unbuilt(err error) wire.Done {
	why := verdict.Reason{Code: verdict.WorldFailed, Detail: strings.TrimPrefix(err.Error(), "launch: ")}
	return wire.Done{Leaf: bundle.Leaf{
		ID: l.plan.ID, Scenario: l.plan.Scenario.Name, Assumption: l.plan.AssumptionName(), Seed: uint64(l.plan.Seed),
		Verdict: verdict.Verdict{Outcome: verdict.Inconclusive, Reasons: []verdict.Reason{why}},
	}}
}

// keep copies what the programs wrote into the directory that the outer process opened for it.
func keep(in *launch.Inside, layout *launch.Layout) error {
	dir := in.Extra(0)
	if dir == nil {
		return fmt.Errorf("run: keep: no directory was handed in")
	}
	defer dir.Close()
	_, err := layout.CopyChanges(dir)
	return err
}
