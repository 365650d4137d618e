package output

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/spec"
)

// printed lets a stream be followed and returns what came of it: the events by kind, and its log.
func printed(t *testing.T, write func(w *os.File)) (events map[event.Kind]int, last event.Event, text []byte) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer w.Close()
		write(w)
	}()
	log := event.NewLog(vtime.Wall().Now)
	decode, err := spec.Decoder{}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	o, err := New(r, Source{"a", event.Stdout, decode}, log, func(b []byte) { text = append(text, b...) })
	if err != nil {
		t.Fatal(err)
	}
	o.Follow()
	events = map[event.Kind]int{}
	for _, e := range log.All() {
		events[e.Kind]++
		last = e
	}
	return events, last, text
}

// A stream that is too long to be judged costs next to nothing from there on: no events, and of the log
// only the beginning and the end.
func TestTooMuchOutput(t *testing.T) {
	block := bytes.Repeat([]byte("flood\n"), 10_000)
	long := append(bytes.Repeat([]byte("x"), lineLimit-1), '\n')
	for name, tc := range map[string]struct {
		block         []byte
		times         int
		events        int
		much          string
		before, after int
	}{
		"lines":      {block, 1500, lineCount, "200000 lines", 6 * lineCount, logCount + tailCount},
		"bytes":      {long, 1200, byteCount / lineLimit, "64 MiB", byteCount, logCount + tailCount},
		"some more":  {block, 21, lineCount, "200000 lines", 6 * lineCount, 6 * 10_000},
		"few enough": {block, 19, 190_000, "", 6 * 190_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			events, last, text := printed(t, func(w *os.File) {
				for range tc.times {
					_, _ = w.Write(tc.block)
				}
				fmt.Fprint(w, "panic: the end")
			})
			if tc.much == "" {
				tc.events++ // the end is judged too
			}
			if events[event.Stdout] != tc.events {
				t.Errorf("%d lines became events; want %d", events[event.Stdout], tc.events)
			}
			if tc.much != "" && (last.Kind != event.Note || !strings.Contains(last.String("message"), "more than "+tc.much)) {
				t.Errorf("the log ends with %s %v; want a note of more than %s", last.Kind, last.Fields, tc.much)
			}
			want := min(tc.before+tc.after, len(tc.block)*tc.times)
			if len(text) < want || len(text) > want+80<<10 {
				t.Errorf("%d bytes in the log; want about %d", len(text), want)
			}
			if !bytes.HasSuffix(text, []byte("panic: the end")) {
				t.Errorf("the log ends with %q", text[len(text)-80:])
			}
			_, rest, left := bytes.Cut(text, []byte("[squall: "))
			var dropped int
			_, _ = fmt.Sscan(string(rest[:min(len(rest), 20)]), &dropped)
			notice := 0
			if left {
				notice = bytes.IndexByte(rest, ']') + len("\n[squall: ]\n")
			}
			if all := len(tc.block)*tc.times + len("panic: the end"); len(text)-notice+dropped != all {
				t.Errorf("%d bytes in the log and %d left out; want %d in all", len(text)-notice, dropped, all)
			}
		})
	}
}
