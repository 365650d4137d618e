package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/launch"
	"github.com/squallhq/squall/internal/vtime"
)

// ErrNoNamespaces is wrapped by Start's error where the machine refuses namespaces.
var ErrNoNamespaces = launch.ErrNoNamespaces

// Worlds starts the worlds of a run.
type Worlds struct {
	launcher *launch.Launcher
	// Silence is how long a world may be silent.
	Silence time.Duration
}

// NewWorlds returns a starter of worlds; Close kills what it started.
func NewWorlds() (*Worlds, error) {
	l, err := launch.NewLauncher()
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return &Worlds{launcher: l, Silence: silenceLimit}, nil
}

// Close kills every world that still runs.
func (w *Worlds) Close() { w.launcher.Close() }

// Start runs one leaf in a world of its own and returns when nothing of it is left. When ctx ends the
// world is killed and the error is ctx's. A world of which nothing is heard is killed too.
func (w *Worlds) Start(ctx context.Context, job Job, sink Sink) (Done, error) {
	stderr, complaint, err := newTail()
	if err != nil {
		return Done{}, err
	}
	mode := launch.ModeNamespaces
	if job.Shared {
		mode = launch.ModeShared
	}
	config := launch.WorldConfig{Args: []string{"squall-world"}, Env: os.Environ(), Stderr: stderr, Mode: mode}
	if job.Keep != "" {
		dir, err := openKeep(job.Keep)
		if err != nil {
			return Done{}, err
		}
		defer dir.Close()
		config.Extra = []*os.File{dir}
	}
	world, err := w.launcher.StartWorld(ctx, config)
	stderr.Close()
	if err != nil {
		complaint.wait()
		return Done{}, err
	}
	defer world.Close()
	job.OpenFiles = openFiles()
	if err := json.NewEncoder(world.Control).Encode(job); err != nil && ctx.Err() == nil {
		return Done{}, fmt.Errorf("run: tell the world its job: %w", err)
	}
	from := &watch{from: world.Events}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { from.guard(vtime.Wall(), w.Silence, ended, world.Kill) })
	var done *Done
	reading := readFrames(from, func(f Frame) {
		switch {
		case f.Phase != "":
			sink.Phase(f.Phase)
		case f.Event != nil:
			sink.Event(*f.Event)
		case f.Log != nil:
			sink.Log(f.Log.Service, f.Log.Data)
		case f.Done != nil:
			done = f.Done
		}
	})
	close(ended)
	watching.Wait()
	world.Kill()
	said := complaint.wait()
	if err := ctx.Err(); err != nil {
		return Done{}, err
	}
	if done == nil && from.silent.Load() {
		return Done{}, fmt.Errorf("run: %w: it gave no sign of life for %s and was killed (it was stopped by a signal or a debugger, or it hung)", ErrWorldLost, w.Silence)
	}
	if done == nil {
		return Done{}, lost(world, reading, said)
	}
	return *done, nil
}

// openFiles is the soft limit that programs would have if they were started from where squall was. Go
// raises its own, so it is asked of the parent; 0 where that cannot be seen.
func openFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return 0
	}
	return limit.Cur
}

// openKeep makes the directory that the world copies its files into. The world gets it as a
// descriptor, since it does not see the place where it lies.
func openKeep(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("run: keep: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("run: keep: %w", err)
	}
	return dir, nil
}

func lost(world *launch.World, reading error, said string) error {
	exit, err := world.Wait()
	if err == nil {
		err = reading
	}
	text := fmt.Sprintf("run: %%w: exit code %d", exit.Code)
	if exit.Signal != "" {
		text = "run: %w: killed by " + exit.Signal
	}
	if said != "" {
		text += ": " + strings.ReplaceAll(said, "%", "%%")
	}
	return errors.Join(fmt.Errorf(text, ErrWorldLost), err)
}

// tail keeps the end of what a world says on its standard error.
type tail struct {
	// done is closed when b is complete.
	done chan struct{}
	b    []byte
}

const tailLimit = 256 << 10

func newTail() (*os.File, *tail, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("run: %w", err)
	}
	t := &tail{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer r.Close()
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			t.b = append(t.b, buf[:n]...)
			if len(t.b) > tailLimit {
				t.b = t.b[len(t.b)-tailLimit:]
			}
			if err != nil {
				return
			}
		}
	}()
	return w, t, nil
}

func (t *tail) wait() string {
	<-t.done
	said := strings.TrimSpace(string(t.b))
	// A crash says what it is first, and then where everything was: the beginning of that is enough.
	if crash, stacks, ok := strings.Cut(said, "\n\ngoroutine "); ok {
		lines := strings.SplitN(stacks, "\n", stackLines+1)
		said = crash + "\ngoroutine " + strings.Join(lines[:min(len(lines), stackLines)], "\n")
	}
	return said
}

// stackLines is how much of a crash is kept beside what it says of itself.
const stackLines = 9
