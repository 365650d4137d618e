package inject

import "github.com/squallhq/squall/fault"

// needsTable is made anew whenever the rules change, and read without a lock: most calls that stop
// concern no rule in force and must cost next to nothing.
type needsTable struct {
	// rows are keyed by service, "" for rules over any, then by call.
	rows map[string]map[string]Needs
}

// Needs returns what has to be known about a call before Decide is asked. Where its Decide is false
// the call may go on without asking.
func (e *Engine) Needs(service, call string) Needs {
	t := e.needs.Load()
	a, b := t.rows[service][call], t.rows[""][call]
	return Needs{
		a.Decide || b.Decide || e.owed.Load() > 0, a.Descriptor || b.Descriptor, a.Path || b.Path, a.Size || b.Size, a.Peer || b.Peer,
	}
}

// publish makes the table for the rules in force. The caller holds the lock.
func (e *Engine) publish() {
	t := &needsTable{rows: map[string]map[string]Needs{}}
	for _, r := range e.active {
		s := r.Syscall
		row := t.rows[s.Service]
		if row == nil {
			row = map[string]Needs{}
			t.rows[s.Service] = row
		}
		for _, call := range s.Calls {
			n := row[call]
			n.Decide = true
			n.Descriptor = n.Descriptor || (len(s.On) > 0 && hasDescriptor(call))
			n.Path = n.Path || s.Path != ""
			n.Size = n.Size || s.Partial > 0
			n.Peer = n.Peer || s.Link != nil
			row[call] = n
		}
	}
	e.needs.Store(t)
}

func hasDescriptor(call string) bool {
	f, ok := fault.FamilyOf(call)
	return !ok || f.Descriptor >= 0
}
