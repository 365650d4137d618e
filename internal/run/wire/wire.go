// Package wire is the pipe between a world and the process that started it.
//
// The outer process (Worlds) gives a Job to a process of its own inside a fresh world. That process answers
// with Frames, and shows by its Pulse that it lives; the outer process kills what it does not hear of.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/plan"
)

// Job is what a world is asked to do.
type Job struct {
	// Source is given to the loader.
	Source string `json:"source"`
	// Leaf is the leaf's ID.
	Leaf string `json:"leaf"`
	// Cell, Run and Way say which leaf of its cell it is.
	Cell string   `json:"cell,omitempty"`
	Run  int      `json:"run,omitempty"`
	Way  plan.Way `json:"way"`
	// Seed is the run's seed, not the leaf's.
	Seed uint64 `json:"seed"`
	// Timeout replaces the scenario's where it is not 0.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Keep is a directory outside into which the world's files are copied at the end; "" for none.
	Keep string `json:"keep,omitempty"`
	// OpenFiles is the soft limit on open files that programs get; 0 means the supervisor's, which is
	// raised.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// Shared runs without namespaces, on the host's network and files.
	Shared bool `json:"shared,omitempty"`
}

// Frame is one message from a world. Exactly one field is set.
type Frame struct {
	// Phase tells what the leaf is at: load, start, body, stop.
	Phase string       `json:"phase,omitempty"`
	Event *event.Event `json:"event,omitempty"`
	Log   *LogChunk    `json:"log,omitempty"`
	Done  *Done        `json:"done,omitempty"`
	// Beat says nothing but that the world lives.
	Beat bool `json:"beat,omitempty"`
}

// LogChunk is output of a service, as it came.
type LogChunk struct {
	Service string `json:"service"`
	Data    []byte `json:"data"`
}

// Done is the last frame.
type Done struct {
	Leaf      bundle.Leaf       `json:"leaf"`
	Decisions []bundle.Decision `json:"decisions,omitempty"`
	// Met are the choices that it met, Waits the observations of its parallel branches, Unmet the choices that
	// it is made for and never came to.
	Met   []plan.Met `json:"met,omitempty"`
	Waits string     `json:"waits,omitempty"`
	Unmet []string   `json:"unmet,omitempty"`
	// Idle tells that the body had nothing to do with the system.
	Idle bool `json:"idle,omitempty"`
}

// Sink takes what a leaf reports while it runs. Each function is called from one goroutine.
type Sink struct {
	Phase func(phase string)
	Event func(event.Event)
	Log   func(service string, p []byte)
}

// ErrNeedsLinux is what an attempt to run something elsewhere ends with.
var ErrNeedsLinux = errors.New("running programs under supervision needs Linux")

// ErrWorldLost is wrapped by the error of a world that ended without a verdict.
var ErrWorldLost = errors.New("the leaf's supervisor ended without a verdict")

// Frames writes frames to the outer process; safe for concurrent use.
type Frames struct {
	mu  sync.Mutex
	w   *bufio.Writer
	enc *json.Encoder
	err error
}

// NewFrames returns a writer of frames to w.
func NewFrames(w io.Writer) *Frames {
	b := bufio.NewWriterSize(w, 64<<10)
	return &Frames{w: b, enc: json.NewEncoder(b)}
}

// Send queues a frame. An error stays: the outer process is gone.
func (f *Frames) Send(frame Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = f.enc.Encode(frame)
	}
}

// Flush hands over what is queued.
func (f *Frames) Flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = f.w.Flush()
	}
	return f.err
}

// Phase tells at once what the leaf is at.
func (f *Frames) Phase(name string) {
	f.Send(Frame{Phase: name})
	_ = f.Flush()
}

// readFrames hands each frame to sink until the stream ends. A stream that is cut in the middle of
// a frame is an error: its leaf is not complete.
func readFrames(r io.Reader, sink func(Frame)) error {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 256<<10))
	for {
		var f Frame
		if err := dec.Decode(&f); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("run: read from world: %w", err)
		}
		sink(f)
	}
}
