package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/launch"
	"github.com/squallhq/squall/internal/run/leak"
	"github.com/squallhq/squall/internal/run/logfile"
	"github.com/squallhq/squall/internal/run/output"
	"github.com/squallhq/squall/internal/run/ready"
	"github.com/squallhq/squall/internal/run/wire"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// stopTimeout is how long after SIGTERM a service gets SIGKILL where it does not say.
const stopTimeout = 2 * time.Second

// service is a running service. Its process may be another one after a restart.
type service struct {
	*spec.Service
	l       *leaf
	network *launch.Network
	sub     intercept.Subscription

	// sources counts where it takes chance from.
	sources *leak.Counts

	// holds waits for the calls that are held, and the connects that are not decided.
	holds sync.WaitGroup

	mu      sync.Mutex
	process *process
	// seen counts the calls that rules in force looked at, by name.
	seen map[string]int
	// lost counts, by rule, the decisions that did not reach the program.
	lost map[string]int
	// mapped are the files that it may change without a call, see mmap.
	mapped []string
	// watch is what is recorded beside its output.
	watch observation
	// paused is set between pause and resume; a paused process cannot end by itself.
	paused bool
}

// process is one run of a service's program.
type process struct {
	session intercept.Session
	// exited receives once and is closed; exit is valid after that.
	exited chan struct{}
	exit   launch.Exit
	// expected is set before we end it ourselves.
	expected atomic.Bool
	streams  []*output.Stream
	// quit ends the reading of files.
	quit func()
	// outputs waits for the readers of its output, served for the answering of its calls.
	outputs, served sync.WaitGroup
}

// launch starts the program. It does not wait for it to be ready.
func (s *service) launch(ctx context.Context) error {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("run: %s: %w", s.Name, err)
	}
	defer stdoutW.Close()
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		stdout.Close()
		return fmt.Errorf("run: %s: %w", s.Name, err)
	}
	defer stderrW.Close()
	quit := make(chan struct{})
	p := &process{exited: make(chan struct{}), quit: sync.OnceFunc(func() { close(quit) })}
	s.observe()
	if p.streams, err = s.streams(stdout, stderr); err != nil {
		stdout.Close()
		stderr.Close()
		return fmt.Errorf("run: %s: %w", s.Name, err)
	}
	var exit <-chan launch.Exit
	_, exit, err = s.l.system.reaper.Spawn(func() (int, error) {
		p.session, err = s.l.system.backend.Start(ctx, s.command(stdoutW, stderrW), s.sub)
		if err != nil {
			return 0, err
		}
		return p.session.Pid(), nil
	})
	if err != nil {
		stdout.Close()
		stderr.Close()
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	s.l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": "started", "pid": int64(p.session.Pid())})
	p.served.Go(func() { s.serve(p) })
	for _, o := range p.streams {
		p.outputs.Go(o.Follow)
	}
	if len(s.watch.files) > 0 {
		p.outputs.Go(func() { s.follow(quit) })
	}
	go s.reap(p, exit)
	return nil
}

// administrator reports whether this is root in earnest. Then programs keep what root can do, sudo and
// setuid programs included; a filter without that privilege needs no_new_privs.
func administrator() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return os.Geteuid() == 0 && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// streams are the readers of a program's output.
func (s *service) streams(stdout, stderr *os.File) ([]*output.Stream, error) {
	sink := func(b []byte) { s.l.out.Send(wire.Frame{Log: &wire.LogChunk{Service: s.Name, Data: b}}) }
	var all []*output.Stream
	for _, from := range []struct {
		file *os.File
		kind event.Kind
	}{{stdout, event.Stdout}, {stderr, event.Stderr}} {
		o, err := output.New(from.file, output.Source{Service: s.Name, Kind: from.kind, Decode: s.decoder(spec.ObserverKind(from.kind), "")}, s.l.log, sink)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// drain brings what the service has printed so far into the log.
func (s *service) drain() {
	if p := s.current(); p != nil {
		for _, o := range p.streams {
			o.Drain()
		}
		s.tails((*logfile.File).Drain)
	}
}

func (s *service) command(stdout, stderr *os.File) spec.Process {
	args := []string{s.Binary}
	for _, a := range s.Args {
		args = append(args, s.l.system.net.numeric(a))
	}
	return spec.Process{
		Path: s.Binary, Args: args, Env: s.environment(), Dir: s.Dir,
		Stdin: -1, Stdout: int(stdout.Fd()), Stderr: int(stderr.Fd()),
		NetNS: s.network.FD(), OpenFiles: s.l.job.OpenFiles, DropCaps: os.Geteuid() != 0, KeepPrivileges: administrator(),
	}
}

// environment is small and the same everywhere, so that a spec says what its programs need.
func (s *service) environment() []string {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": s.l.system.temp, "TMPDIR": s.l.system.temp, "LANG": "C.UTF-8", "SQUALL": "1", "SQUALL_SERVICE": s.Name,
	}
	maps.Copy(env, s.l.system.addresses(s.l.job.Shared))
	maps.Copy(env, s.Env)
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+s.l.system.net.numeric(env[k]))
	}
	return out
}

func (s *service) reap(p *process, exit <-chan launch.Exit) {
	p.exit = <-exit
	fields := map[string]any{"phase": "exited", "code": int64(p.exit.Code), "expected": p.expected.Load()}
	if p.exit.Signal != "" {
		fields["signal"] = p.exit.Signal
	}
	s.drain() // its last words stand before its end
	s.l.log.Append(s.Name, event.Lifecycle, fields)
	if !p.expected.Load() {
		s.l.note(s.Name, verdict.ServiceEnded, fmt.Sprintf("%s ended with %s", s.Name, exitText(p.exit)))
	}
	close(p.exited)
}

func (s *service) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// begin starts the service, waits until it is ready and lets its seed prepare it.
func (s *service) begin(ctx context.Context, turns turns) *verdict.Reason {
	err := s.launch(ctx)
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return s.notReady(err)
	}
	return s.l.seed(ctx, s, turns)
}

// ready waits until the service answers.
func (s *service) ready(ctx context.Context) error {
	p := s.current()
	asked := ready.Service{Service: s.Service, Network: s.network, Find: s.l.system.find}
	if err := ready.Await(ctx, s.l.clock, asked, p.exited); err != nil {
		return err
	}
	s.l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": "ready"})
	return nil
}

// notReady turns the error of launch or ready into a reason.
func (s *service) notReady(err error) *verdict.Reason {
	r := &verdict.Reason{Code: verdict.ServiceNotReady, Subject: s.Name, Detail: s.Name + ": " + startText(err), Position: s.Position}
	if s.Health != nil && s.Health.Position != "" {
		r.Position = s.Health.Position
	}
	p := s.current()
	switch {
	case p == nil:
		r.Code, r.Position = verdict.ServiceNotStarted, s.Position
	case errors.Is(err, ready.ErrEnded):
		r.Code, r.Position = verdict.ServiceCrashed, s.Position
		r.Detail = fmt.Sprintf("%s ended with %s before it was ready", s.Name, exitText(p.exit))
	case errors.Is(err, context.Canceled):
		r.Code = verdict.Interrupted
	}
	return r
}

// startText says why a program was not started or not ready, for somebody who knows the program only.
func startText(err error) string {
	var launch *intercept.LaunchError
	if !errors.As(err, &launch) {
		return err.Error()
	}
	if _, missing := os.Stat(launch.Path); missing == nil && errors.Is(launch.Err, unix.ENOENT) {
		return launch.Path + ": the interpreter that it names does not exist"
	}
	return fmt.Sprintf("%s: %s: %v", launch.Path, launch.Step, launch.Err)
}

func exitText(e launch.Exit) string {
	if e.Signal != "" {
		return e.Signal
	}
	return "exit code " + strconv.Itoa(e.Code)
}

// stop ends the service's processes and reads its output to the end.
func (s *service) stop(ctx context.Context) {
	p := s.current()
	if p == nil {
		return
	}
	p.expected.Store(true)
	_ = s.act(ctx, spec.Resume)
	grace := s.StopTimeout
	if grace == 0 {
		grace = stopTimeout
	}
	exited := make(chan launch.Exit, 1)
	go func() {
		<-p.exited
		exited <- p.exit
	}()
	_, forced, err := s.l.system.reaper.Stop(ctx, s.l.clock, p.session.Pid(), s.network, exited, grace)
	if forced {
		s.l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": "stopped", "forced": true})
	}
	if err != nil {
		s.l.log.Append(s.Name, event.Note, map[string]any{"message": err.Error()})
	}
	p.quit()
	s.readToEnd(p)
	_ = p.session.Close()
	p.served.Wait()
	// A call that was held when its program ended never got its fault. That is known once the holder has
	// seen it, and has to be known before the leaf is judged.
	s.holds.Wait()
}

// outputGrace is how long after the end of a service its output may still be held open.
const outputGrace = time.Second

// readToEnd waits for the end of the output. On the machine's own network a process that has left its
// session and its parents is nobody's: it may outlive its service, and hold the output for ever. Then what
// it has printed so far is all.
func (s *service) readToEnd(p *process) {
	read := make(chan struct{})
	go func() {
		p.outputs.Wait()
		close(read)
	}()
	over, cancel := s.l.clock.After(outputGrace)
	defer cancel()
	select {
	case <-read:
		return
	case <-over:
	}
	s.l.log.Append(s.Name, event.Note, map[string]any{
		"message": s.Name + " was ended, but a process that it left behind holds its output open; what that prints from here on is not read",
	})
	for _, o := range p.streams {
		o.Leave()
	}
	<-read
}

// act does something to the service's processes.
func (s *service) act(ctx context.Context, a spec.Action) error {
	p := s.current()
	if p == nil {
		return fmt.Errorf("run: %s %s: it is not running", a, s.Name)
	}
	signals := map[spec.Action]unix.Signal{spec.Kill: unix.SIGKILL, spec.Pause: unix.SIGSTOP, spec.Resume: unix.SIGCONT}
	if a == spec.Restart {
		return s.restart(ctx)
	}
	if a.Signal() != "" {
		return s.signal(p, a)
	}
	sig, ok := signals[a]
	if !ok {
		return fmt.Errorf("run: %s: unknown action %q", s.Name, a)
	}
	s.mu.Lock()
	if a == spec.Resume && !s.paused {
		s.mu.Unlock()
		return nil
	}
	s.paused = a == spec.Pause
	s.mu.Unlock()
	if a == spec.Kill {
		p.expected.Store(true)
	}
	if err := s.l.system.reaper.KillGroup(p.session.Pid(), sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("run: %s %s: %w", a, s.Name, err)
	}
	if a == spec.Pause {
		s.standStill(ctx, p)
	}
	s.l.log.Append(s.Name, event.Lifecycle, map[string]any{"phase": string(a)})
	if a == spec.Kill {
		<-p.exited
	}
	return nil
}

// restart ends the program and starts it again, with the files as it left them. That it does not come
// back is its own doing; that it could not be started is not.
func (s *service) restart(ctx context.Context) error {
	s.stop(ctx)
	if err := s.launch(ctx); err != nil {
		return &spec.Ended{Code: string(verdict.ServiceNotStarted), Subject: s.Name, Detail: s.Name + ": " + startText(err)}
	}
	err := s.ready(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return errors.New(s.notReady(err).Detail)
}
