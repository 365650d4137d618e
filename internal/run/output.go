package run

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/squallhq/squall/event"
)

// lineLimit cuts lines in events; the whole output stands in the log.
const lineLimit = 64 << 10

// follow reads a service's output until its end: every byte goes to sink, every line becomes an
// event of the service's lane.
func follow(r *os.File, service string, kind event.Kind, log *event.Log, sink func([]byte)) {
	defer r.Close()
	var rest []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			sink(buf[:n])
			rest = lines(append(rest, buf[:n]...), func(line []byte) {
				log.Append(service, kind, decode(line))
			})
		}
		if err != nil {
			if len(rest) > 0 {
				log.Append(service, kind, decode(rest))
			}
			if err != io.EOF {
				log.Append(service, event.Note, map[string]any{"code": "events-dropped", "message": err.Error()})
			}
			return
		}
	}
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
