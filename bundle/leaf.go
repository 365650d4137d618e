package bundle

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// LeafWriter takes the events and logs of one leaf while it runs. Several may be open at once; each
// keeps what it gets in files of its own until its Close. It is safe for concurrent use.
type LeafWriter struct {
	w  *Writer
	id string

	mu     sync.Mutex
	events *spoolFile
	zstd   *zstd.Encoder
	count  int
	logs   map[string]*spoolFile
	closed bool
}

type spoolFile struct {
	file *anonymous
	buf  *bufio.Writer
	// partial is the begin of a line whose end has not come.
	partial []byte
}

// maxPartial bounds how much of one unfinished line of a log is held back.
const maxPartial = 64 << 10

// maxSecret is the longest secret that is found wherever a long line is cut.
const maxSecret = 8 << 10

// Leaf begins the record of a leaf.
func (w *Writer) Leaf(id string) (*LeafWriter, error) {
	if !validID(id) {
		return nil, fmt.Errorf("bundle: leaf id %q: only letters, digits, '-' and '_'", id)
	}
	l := &LeafWriter{w: w, id: id, logs: map[string]*spoolFile{}}
	events, err := l.spoolFile()
	if err != nil {
		return nil, err
	}
	l.events = events
	l.zstd, err = zstd.NewWriter(events.buf, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("bundle: leaf %s: %w", id, err)
	}
	return l, nil
}

func (l *LeafWriter) spoolFile() (*spoolFile, error) {
	f, err := newAnonymous(l.w.dir)
	if err != nil {
		return nil, fmt.Errorf("bundle: leaf %s: %w", l.id, err)
	}
	return &spoolFile{file: f, buf: bufio.NewWriterSize(f, 64<<10)}, nil
}

// Event records an event. They must come in the order of their Seq, from 1.
func (l *LeafWriter) Event(e event.Event) error {
	e.Fields = l.w.redactor.Fields(e.Fields)
	line, err := json.Marshal(e)
	if err != nil {
		return l.fail(fmt.Errorf("event %d: %w", e.Seq, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.fail(errors.New("event after Close"))
	}
	if e.Seq != int64(l.count)+1 {
		return l.fail(fmt.Errorf("event %d follows event %d", e.Seq, l.count))
	}
	l.count++
	if _, err := l.zstd.Write(append(line, '\n')); err != nil {
		return l.fail(err)
	}
	return nil
}

// Log records output of a service, as it came; secrets are looked for line by line.
func (l *LeafWriter) Log(service string, p []byte) error {
	if !validID(service) {
		return l.fail(fmt.Errorf("service name %q: only letters, digits, '-' and '_'", service))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.fail(errors.New("log after Close"))
	}
	s := l.logs[service]
	if s == nil {
		var err error
		if s, err = l.spoolFile(); err != nil {
			return l.fail(err)
		}
		l.logs[service] = s
	}
	s.partial = append(s.partial, p...)
	if err := s.flush(l.w.redactor); err != nil {
		return l.fail(err)
	}
	return nil
}

// Close ends the leaf with its verdict and the decisions of its rules. Leaf.Events is filled in.
func (l *LeafWriter) Close(leaf Leaf, decisions []Decision) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.fail(errors.New("closed twice"))
	}
	l.closed = true
	defer l.discard()
	if leaf.ID != l.id {
		return l.fail(fmt.Errorf("verdict of leaf %q", leaf.ID))
	}
	if err := validLeaf(leaf); err != nil {
		return l.fail(err)
	}
	leaf.Events = l.count
	leaf, err := texts(l.w.redactor, leaf)
	if err != nil {
		return l.fail(err)
	}
	if err := l.zstd.Close(); err != nil {
		return l.fail(err)
	}
	services := make([]string, 0, len(l.logs))
	for service, s := range l.logs {
		services = append(services, service)
		if _, err := s.buf.WriteString(l.w.redactor.Text(string(s.partial))); err != nil {
			return l.fail(err)
		}
	}
	slices.Sort(services)
	return l.publish(leaf, services, decisions)
}

func (l *LeafWriter) publish(leaf Leaf, services []string, decisions []Decision) error {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.add(eventsMember(l.id), zip.Store, l.events.copyTo); err != nil {
		return err
	}
	for _, service := range services {
		if err := w.add(logMember(l.id, service), zip.Deflate, l.logs[service].copyTo); err != nil {
			return err
		}
	}
	w.leaves[l.id] = leaf
	if len(decisions) > 0 {
		if w.replay.Decisions == nil {
			w.replay.Decisions = map[string][]Decision{}
		}
		w.replay.Decisions[l.id] = decisions
	}
	return nil
}

// Abort forgets the leaf: it has no verdict, so the run is not complete. After Close it does nothing.
func (l *LeafWriter) Abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.zstd.Close()
		l.discard()
	}
}

func (l *LeafWriter) discard() {
	remove := func(s *spoolFile) {
		s.file.Close()
	}
	remove(l.events)
	for _, s := range l.logs {
		remove(s)
	}
}

func (l *LeafWriter) fail(err error) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.fail("leaf "+l.id, err)
}

// flush writes the lines that are whole. Of one that is too long to be held back it keeps the end,
// after redaction, so that a secret is never cut in two.
func (s *spoolFile) flush(r *Redactor) error {
	end := bytes.LastIndexByte(s.partial, '\n') + 1
	if end == 0 && len(s.partial) > maxPartial {
		s.partial = []byte(r.Text(string(s.partial)))
		end = max(0, len(s.partial)-maxSecret)
		_, err := s.buf.Write(s.partial[:end])
		s.partial = append(s.partial[:0], s.partial[end:]...)
		return err
	}
	_, err := s.buf.WriteString(r.Text(string(s.partial[:end])))
	s.partial = append(s.partial[:0], s.partial[end:]...)
	return err
}

func (s *spoolFile) copyTo(out io.Writer) error {
	if err := s.buf.Flush(); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(out, s.file)
	return err
}

// validLeaf is the last barrier before a verdict is evidence: whatever judged the leaf, a PASS that its own record
// contradicts is not one, and neither is a FAIL without anything that failed.
func validLeaf(leaf Leaf) error {
	v := leaf.Verdict
	switch v.Outcome {
	case verdict.Pass:
		return validPass(leaf)
	case verdict.Fail, verdict.Inconclusive:
		if len(v.Reasons) == 0 {
			return fmt.Errorf("%s without a reason", v.Outcome)
		}
	default:
		return fmt.Errorf("unknown outcome %q", v.Outcome)
	}
	// A code that a later version added says nothing here.
	if row, ok := verdict.Lookup(v.Reasons[0].Code); ok && (row.Outcome == verdict.Fail) != (v.Outcome == verdict.Fail) {
		return fmt.Errorf("%s with the reason %s", v.Outcome, row.Code)
	}
	return nil
}

// is reports whether a verdict is about what was planned.
func (p PlanLeaf) is(l Leaf) bool {
	return p.ID == l.ID && p.Scenario == l.Scenario && p.Assumption == l.Assumption
}

// validBaselines refuses a PASS under a fault of a scenario that is not shown to work without one.
func validBaselines(leaves []Leaf) error {
	works := map[string]bool{}
	for _, l := range leaves {
		if l.Assumption == Baseline && l.Verdict.Outcome == verdict.Pass {
			works[l.Scenario] = true
		}
	}
	for _, l := range leaves {
		if l.Verdict.Outcome == verdict.Pass && !works[l.Scenario] {
			return fmt.Errorf("leaf %s: PASS though the baseline of %s does not pass", l.ID, l.Scenario)
		}
	}
	return nil
}

func validPass(leaf Leaf) error {
	if len(leaf.Verdict.Reasons) > 0 {
		return fmt.Errorf("PASS with the reason %s", leaf.Verdict.Reasons[0].Code)
	}
	for _, r := range leaf.Rules {
		if r.Fired == 0 && !r.Optional {
			return fmt.Errorf("PASS though the fault %s never fired", r.ID)
		}
	}
	for _, p := range leaf.Properties {
		if p.Result != "satisfied" && p.Result != "never_triggered" {
			return fmt.Errorf("PASS though the property %s is %q", p.Name, p.Result)
		}
	}
	return nil
}
