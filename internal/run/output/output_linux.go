// Package output brings what a service prints into the leaf's log: each line an event, as long as that is not too much.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// lineLimit cuts lines in events; the whole output stands in the log.
const lineLimit = 64 << 10

// lineCount is how many lines of a stream become events, byteCount how much of it. More would take longer
// to judge than any scenario takes, and say nothing: the leaf is left open.
const (
	lineCount = 200_000
	byteCount = 64 << 20
)

// Of what comes after that, the log has logCount bytes from the beginning and tailCount from the end, where
// a program says what it died of.
const (
	logCount  = 4 << 20
	tailCount = 64 << 10
)

// Stream is one stream of a service: every byte goes to sink, every line becomes an event of the
// service's lane, as long as that is not too much. What is read is in the log before the lock is given up, so that Drain leaves no
// gap between the pipe and the log.
type Stream struct {
	Source
	file *os.File
	raw  syscall.RawConn
	log  *event.Log
	sink func([]byte)

	mu   sync.Mutex
	buf  []byte
	rest []byte
	err  error
	// taken counts bytes, count lines.
	taken int64
	count int
	over  overflow
}

// overflow is what is too much to be judged. Once cut is set no more lines become events; after counts the
// bytes that went to the log since, end keeps the last ones and dropped counts those in between.
type overflow struct {
	cut            bool
	after, dropped int64
	end            []byte
}

// Source is whose lines they are, and how their fields are found.
type Source struct {
	Service string
	Kind    event.Kind
	Decode  func([]byte) map[string]any
}

// New returns the stream that comes out of file, which is a pipe. Follow has to be called beside.
func New(file *os.File, from Source, log *event.Log, sink func([]byte)) (*Stream, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Stream{file: file, raw: raw, Source: from, log: log, sink: sink, buf: make([]byte, 32<<10)}, nil
}

// Follow takes what comes until the end of the stream.
func (o *Stream) Follow() {
	defer o.file.Close()
	err := o.raw.Read(func(fd uintptr) bool { return o.take(fd) })
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rest) > 0 {
		o.line(o.rest)
		o.rest = nil
	}
	if o.over.dropped > 0 {
		o.sink(fmt.Appendf(nil, "\n[squall: %d bytes of %s's %s are left out here]\n", o.over.dropped, o.Service, o.Kind))
	}
	if len(o.over.end) > 0 {
		o.sink(o.over.end)
	}
	if o.err != nil {
		err = o.err
	}
	if !errors.Is(err, io.EOF) && err != nil {
		o.log.Append(o.Service, event.Note, map[string]any{"code": string(verdict.EventsDropped), "message": err.Error()})
	}
}

// Drain takes what is in the pipe now, and no more: a program may print faster than this reads. Everything
// that the program had written when Drain was called is in the log when it returns.
func (o *Stream) Drain() {
	_ = o.raw.Control(func(fd uintptr) {
		o.mu.Lock()
		waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		until := o.taken + int64(waiting)
		o.mu.Unlock()
		for more := err == nil && waiting > 0; more; {
			more = o.step(fd, until)
		}
	})
}

// Leave takes what is there and ends the stream.
func (o *Stream) Leave() {
	o.Drain()
	o.mu.Lock()
	if o.err == nil {
		o.err = io.EOF
	}
	o.mu.Unlock()
	_ = o.file.SetReadDeadline(time.Unix(1, 0)) // the reader waits no longer
}

// take reads until there is nothing more for now; it reports whether the stream has ended.
func (o *Stream) take(fd uintptr) bool {
	for o.step(fd, math.MaxInt64) {
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

// step reads once; it reports whether there may be more before the given count of bytes. The lock is given
// up after each step, so that whoever drains does not wait for the end of a stream that has none.
func (o *Stream) step(fd uintptr, until int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.taken >= until {
		return false
	}
	n, err := syscall.Read(int(fd), o.buf)
	switch {
	case err == syscall.EINTR:
		return true
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		o.err = err
	case n == 0:
		o.err = io.EOF
	default:
		o.taken += int64(n)
		o.split(o.buf[:n])
	}
	return o.err == nil && o.taken < until
}

// split makes lines of what came.
func (o *Stream) split(b []byte) {
	if o.over.cut {
		o.spare(b)
		return
	}
	o.sink(b)
	o.rest = lines(append(o.rest, b...), o.line)
	if o.over.cut {
		o.rest = nil
	}
}

// spare puts away what came after the cut.
func (o *Stream) spare(b []byte) {
	if room := logCount - o.over.after; room > 0 {
		n := min(room, int64(len(b)))
		o.sink(b[:n])
		o.over.after += n
		b = b[n:]
	}
	o.over.end = append(o.over.end, b...)
	if over := len(o.over.end) - tailCount; over > 0 {
		o.over.dropped += int64(over)
		o.over.end = append(o.over.end[:0], o.over.end[over:]...)
	}
}

// line makes an event of a line, as long as there are not too many.
func (o *Stream) line(b []byte) {
	if o.over.cut {
		return
	}
	o.count++
	if o.count <= lineCount && o.taken <= byteCount {
		o.log.Append(o.Service, o.Kind, o.Decode(b))
		return
	}
	o.over.cut = true
	much := fmt.Sprintf("%d lines", lineCount)
	if o.count <= lineCount {
		much = fmt.Sprintf("%d MiB", byteCount>>20)
	}
	o.log.Append(o.Service, event.Note, map[string]any{
		"code":    string(verdict.EventsDropped),
		"message": fmt.Sprintf("%s printed more than %s; the rest is not judged, and its log has the beginning and the end of it", o.Service, much),
	})
}

// lines calls fn with each whole line and returns what is left. A line longer than lineLimit is
// cut into pieces.
func lines(b []byte, fn func([]byte)) []byte {
	for {
		i := bytes.IndexByte(b, '\n')
		switch {
		case i >= 0:
			fn(bytes.TrimSuffix(b[:i], []byte{'\r'}))
			b = b[i+1:]
		case len(b) >= lineLimit:
			fn(b[:lineLimit])
			b = b[lineLimit:]
		default:
			return bytes.Clone(b)
		}
	}
}
