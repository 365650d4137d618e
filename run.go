package squall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/plan"
	"github.com/squallhq/squall/internal/run/wire"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// Run runs the leaves of a suite and writes the evidence. An error means that there is no verdict at
// all; a run that ctx ends keeps what is decided and says that it is not complete.
func Run(ctx context.Context, l spec.Loader, source string, o Options) (*Result, error) {
	p, err := makePlan(ctx, l, source, o)
	if err != nil {
		return nil, err
	}
	base := o.Dir
	if base == "" {
		base = runsDir
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, fmt.Errorf("squall: make %s: %w", base, err)
	}
	return execute(ctx, p, base, o)
}

// execute runs a plan and puts what came of it into a new directory in base. Until there is a verdict
// nothing in base has a name, so of a run that was killed nothing is left.
func execute(ctx context.Context, p *plan.Plan, base string, o Options) (*Result, error) {
	clock := vtime.Wall()
	w, err := bundle.Create(filepath.Join(base, BundleName), bundle.NewRedactor(secrets(p.Suite)))
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	record := p.Record()
	record.Coverage = coverage(p)
	for _, f := range p.Suite.Files {
		if err := w.SpecFile(f.Path, f.Content); err != nil {
			return nil, err
		}
	}
	w.Replay(bundle.Replay{Source: record.Source, Args: replayArgs(o)})
	r := &runner{plan: p, record: record, options: o, bundle: w}
	if o.Keep {
		// Files are kept as leaves end, so their place is needed from the start.
		if r.dir, err = newRunDir(base); err != nil {
			return nil, err
		}
	}
	complete, err := r.run(ctx)
	if err != nil {
		return nil, err
	}
	record = r.record
	if err := w.Plan(record); err != nil {
		return nil, err
	}
	m := bundle.Manifest{
		Tool: "squall " + Version(), CreatedAt: vtime.Date().UTC(), Complete: complete,
		Seed: uint64(p.Seed), Source: record.Source, Environment: environment(p.Suite),
	}
	m.Environment["world"] = "namespaces"
	if o.Shared || r.refused.Load() {
		m.Environment["world"] = "shared network and files, one leaf at a time"
	}
	m.Summary.Duration = clock.Now()
	return publish(w, m, record, r.dir, base)
}

// BundleName is the bundle's name in its run's directory.
const BundleName = "run.squall"

// publish gives the evidence its place. A directory without a bundle would only mislead, so it is
// taken away again where the bundle cannot be written.
func publish(w *bundle.Writer, m bundle.Manifest, record bundle.Plan, dir, base string) (*Result, error) {
	path := ""
	w.At(func() (_ string, err error) {
		if dir == "" {
			dir, err = newRunDir(base)
		}
		path = filepath.Join(dir, BundleName)
		return path, err
	})
	err := w.Close(m)
	if err == nil {
		err = writeJSON(filepath.Join(dir, "plan.json"), record)
	}
	if err != nil {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
		return nil, err
	}
	return open(dir, path)
}

// open reads a bundle back: what a run returns is what stands in its evidence.
func open(dir, path string) (*Result, error) {
	b, err := bundle.Open(path)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return &Result{Dir: dir, Bundle: path, Plan: b.Plan(), Verdicts: b.Verdicts(), Manifest: b.Manifest()}, nil
}

// runner runs the leaves of a plan, some at a time.
type runner struct {
	plan    *plan.Plan
	record  bundle.Plan
	options Options
	bundle  *bundle.Writer
	dir     string
	worlds  *wire.Worlds
	// refused is set once the machine has refused namespaces; alone is held by the leaf that uses
	// the machine's own network.
	refused atomic.Bool
	alone   sync.Mutex
}

// finished is a leaf that has run.
type finished struct {
	leaf   *plan.Leaf
	done   wire.Done
	writer *bundle.LeafWriter
	err    error
}

// run runs the leaves, and those that come to light meanwhile. complete is false where some did not run to
// their end.
func (r *runner) run(ctx context.Context) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.worlds, err = wire.NewWorlds(); err != nil {
		return false, err
	}
	defer r.worlds.Close()
	updates := make(chan Progress, 64)
	results := make(chan finished)
	next := make(chan *plan.Leaf)
	defer close(next)
	for range r.jobs() {
		go func() {
			for l := range next {
				results <- r.leaf(ctx, l, updates)
			}
		}()
	}
	r.observe(Progress{Plan: &r.record})
	c := newCollector(r)
	c.dispatch(ctx, cancel, next, results, updates)
	return c.finish(), c.err
}

func (r *runner) jobs() int {
	if r.options.Jobs > 0 {
		return r.options.Jobs
	}
	return goruntime.NumCPU()
}

func (r *runner) observe(p Progress) {
	if r.options.Observe != nil {
		r.options.Observe(p)
	}
}

// leaf runs one leaf in a world of its own and records what comes from it.
func (r *runner) leaf(ctx context.Context, l *plan.Leaf, updates chan<- Progress) finished {
	pl := l.Record()
	f := finished{leaf: l}
	f.writer, f.err = r.bundle.Leaf(pl.ID)
	if f.err != nil {
		return f
	}
	var writing error
	sink := wire.Sink{
		Phase: func(phase string) { updates <- Progress{Leaf: pl, Phase: phase} },
		Event: func(e event.Event) { writing = errors.Join(writing, f.writer.Event(e)) },
		Log:   func(service string, p []byte) { writing = errors.Join(writing, f.writer.Log(service, p)) },
	}
	job := wire.Job{
		Source: r.plan.Suite.Source, Leaf: pl.ID, Cell: l.Cell, Run: l.Run, Way: l.Way, Seed: uint64(r.plan.Seed),
		Timeout: r.options.Timeout, Shared: r.options.Shared,
	}
	if r.options.Keep {
		job.Keep = filepath.Join(r.dir, "files", pl.ID)
	}
	f.done, f.err = r.start(ctx, job, sink)
	if errors.Is(f.err, wire.ErrWorldLost) && ctx.Err() == nil {
		// The other leaves have worlds of their own: what befell this one decides nothing of them.
		f.done, f.err = lostLeaf(pl, f.err), nil
	}
	if writing != nil {
		f.err = writing
	}
	return f
}

// lostLeaf is what comes of a leaf whose supervisor ended without a verdict.
func lostLeaf(pl bundle.PlanLeaf, err error) wire.Done {
	why := verdict.Reason{Code: verdict.SupervisionLost, Detail: strings.TrimPrefix(err.Error(), "run: ")}
	return wire.Done{Leaf: bundle.Leaf{
		ID: pl.ID, Scenario: pl.Scenario, Assumption: pl.Assumption, Seed: pl.Seed,
		Verdict: verdict.Verdict{Outcome: verdict.Inconclusive, Reasons: []verdict.Reason{why}},
	}}
}

// start runs a leaf in namespaces or, where the machine refuses those, one at a time without.
func (r *runner) start(ctx context.Context, job wire.Job, sink wire.Sink) (wire.Done, error) {
	if !job.Shared && !r.refused.Load() {
		done, err := r.worlds.Start(ctx, job, sink)
		if !errors.Is(err, wire.ErrNoNamespaces) {
			return done, err
		}
		r.refused.Store(true)
	}
	r.alone.Lock()
	defer r.alone.Unlock()
	job.Shared = true
	return r.worlds.Start(ctx, job, sink)
}

// secrets are the values that must not stand in a bundle: those of variables whose names say so.
func secrets(s *spec.Suite) []string {
	var out []string
	for _, svc := range s.Services {
		for name, value := range svc.Env {
			if bundle.SecretName(name) {
				out = append(out, name+"="+value)
			}
		}
	}
	return out
}

func replayArgs(o Options) []string {
	var args []string
	if o.Timeout > 0 {
		args = append(args, "--timeout="+o.Timeout.String())
	}
	if o.Shared {
		args = append(args, "--shared-network")
	}
	return args
}

// environment says where a run took place, as far as it may matter for what came of it.
func environment(s *spec.Suite) map[string]string {
	env := map[string]string{
		"os": goruntime.GOOS, "arch": goruntime.GOARCH, "cpus": strconv.Itoa(goruntime.NumCPU()),
		"kernel": kernelRelease(), "user": "ordinary",
	}
	if os.Geteuid() == 0 {
		env["user"] = "root"
	}
	for _, svc := range s.Services {
		if sum, err := fileHash(svc.Binary); err == nil {
			env["binary:"+svc.Name] = sum
		}
	}
	if dir, err := filepath.Abs(filepath.Dir(s.Source)); err == nil && !strings.Contains(dir, "\n") {
		env["spec_dir"] = dir
	}
	return env
}
