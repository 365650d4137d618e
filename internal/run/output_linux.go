package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/squallhq/squall/event"
)

// lineLimit cuts lines in events; the whole output stands in the log.
const lineLimit = 64 << 10

// output is one stream of a service: every byte goes to sink, every line becomes an event of the
// service's lane. What is read is in the log before the lock is given up, so that drain leaves no
// gap between the pipe and the log.
type output struct {
	file    *os.File
	raw     syscall.RawConn
	service string
	kind    event.Kind
	log     *event.Log
	sink    func([]byte)

	mu   sync.Mutex
	buf  []byte
	rest []byte
	err  error
}

func newOutput(file *os.File, service string, kind event.Kind, log *event.Log, sink func([]byte)) (*output, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &output{file: file, raw: raw, service: service, kind: kind, log: log, sink: sink, buf: make([]byte, 32<<10)}, nil
}

// follow takes what comes until the end of the stream.
func (o *output) follow() {
	defer o.file.Close()
	err := o.raw.Read(func(fd uintptr) bool { return o.take(fd) })
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rest) > 0 {
		o.log.Append(o.service, o.kind, decode(o.rest))
		o.rest = nil
	}
	if err == nil {
		err = o.err
	}
	if !errors.Is(err, io.EOF) && err != nil {
		o.log.Append(o.service, event.Note, map[string]any{"code": "events-dropped", "message": err.Error()})
	}
}

// drain takes what is in the pipe now. Everything that the program had written when drain was called
// is in the log when it returns.
func (o *output) drain() {
	_ = o.raw.Control(func(fd uintptr) { o.take(fd) })
}

// take reads until there is nothing more for now; it reports whether the stream has ended.
func (o *output) take(fd uintptr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil {
		n, err := syscall.Read(int(fd), o.buf)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return false
		case err != nil:
			o.err = err
		case n == 0:
			o.err = io.EOF
		default:
			o.sink(o.buf[:n])
			o.rest = lines(append(o.rest, o.buf[:n]...), func(line []byte) {
				o.log.Append(o.service, o.kind, decode(line))
			})
		}
	}
	return true
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

// decode makes an event's fields of a line: the line itself and, where it is a JSON object, its
// members. A member named line does not hide the line.
func decode(line []byte) map[string]any {
	fields := map[string]any{}
	if len(line) > 1 && line[0] == '{' {
		if json.Unmarshal(line, &fields) != nil {
			fields = map[string]any{}
		}
	}
	fields["line"] = string(bytes.ToValidUTF8(line, []byte("\uFFFD")))
	return fields
}
