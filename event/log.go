package event

import (
	"sync"
	"time"
)

// Log is the append-only record of one leaf. It is safe for concurrent use.
type Log struct {
	now func() time.Duration

	mu      sync.Mutex
	events  []Event
	lanes   map[string]Clock
	changed chan struct{}
	sinks   []func(Event)
}

// NewLog returns an empty log whose events are stamped by now, the time since the leaf began.
func NewLog(now func() time.Duration) *Log {
	return &Log{now: now, lanes: map[string]Clock{}, changed: make(chan struct{})}
}

// Sink registers fn to be called with every later event, in order, under the log's lock: fn must
// be quick and must not touch the log.
func (l *Log) Sink(fn func(Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sinks = append(l.sinks, fn)
}

// Append records an event on a lane. The events in after (by Seq) are its causes on other lanes:
// their clocks are merged into its own. It returns the event as recorded.
func (l *Log) Append(lane string, kind Kind, fields map[string]any, after ...int64) Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(lane, kind, fields, after)
}

// AppendIf makes something happen and records it as Append does, but only if happen returns true. As
// happen is called under the log's lock, nothing that follows from it stands in the log before it.
// So happen must be quick and must not touch the log.
func (l *Log) AppendIf(happen func() bool, lane string, kind Kind, fields map[string]any, after ...int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !happen() {
		return false
	}
	l.append(lane, kind, fields, after)
	return true
}

// append is Append under the lock.
func (l *Log) append(lane string, kind Kind, fields map[string]any, after []int64) Event {
	clock := l.lanes[lane].clone()
	var causes []int64
	for _, seq := range after {
		if seq > 0 && seq <= int64(len(l.events)) {
			clock.merge(l.events[seq-1].Clock)
			causes = append(causes, seq)
		}
	}
	clock[lane]++
	l.lanes[lane] = clock
	e := Event{
		Seq: int64(len(l.events)) + 1, At: l.now(), Service: lane, Kind: kind,
		Fields: fields, After: causes, Clock: clock,
	}
	l.events = append(l.events, e)
	for _, sink := range l.sinks {
		sink(e)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return e
}

// Len returns how many events there are.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events)
}

// Since returns the events with a Seq greater than seq, and a channel that is closed at the next
// append. The slice must not be changed.
func (l *Log) Since(seq int64) ([]Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq = min(max(seq, 0), int64(len(l.events)))
	return l.events[seq:len(l.events):len(l.events)], l.changed
}

// All returns every event so far. The slice must not be changed.
func (l *Log) All() []Event {
	events, _ := l.Since(0)
	return events
}
