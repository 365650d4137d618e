package check

import (
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/verdict"
)

// temporal is a Temporal with its window's state. A window that has closed leaves it decided.
type temporal struct {
	*property.Temporal
	open bool
	// last is the last event that it was evaluated at.
	last int64
	out  outcome
}

func (t *temporal) outcome() *outcome { return &t.out }

func (t *temporal) see(trace []event.Event, bodyEnded bool) {
	if bodyEnded {
		return
	}
	e := trace[len(trace)-1]
	wasOpen := t.open
	if !t.open {
		ok, err := t.opens(e)
		if err != nil {
			t.out.fail(t.code(), err, e.Seq)
			return
		}
		if !ok {
			return
		}
		t.open = true
	}
	t.last = e.Seq
	if t.evaluate(trace); t.out.result != "" || !wasOpen || t.Window == nil || t.Window.To == nil {
		return
	}
	closes, err := chosen(t.Window.To, e)
	switch {
	case err != nil:
		t.out.fail(t.code(), err, e.Seq)
	case closes:
		t.out = t.close("its window closed", e.Seq)
	}
}

// opens reports whether the window begins with e.
func (t *temporal) opens(e event.Event) (bool, error) {
	if t.Window == nil || t.Window.From == nil {
		return isBody(e, "begin"), nil
	}
	return chosen(t.Window.From, e)
}

// evaluate asks the predicate at the current event, and decides what one point can decide.
func (t *temporal) evaluate(trace []event.Event) {
	seq := trace[len(trace)-1].Seq
	holds, err := t.holds(trace)
	switch {
	case err != nil:
		t.out.fail(t.code(), err, seq)
	case t.Kind != property.Always && holds:
		t.out = outcome{result: Satisfied, witness: seq}
	case t.Kind == property.Always && !holds:
		t.out = outcome{result: Violated, code: t.code(), message: "it was false", witness: seq}
	}
}

func (t *temporal) holds(trace []event.Event) (ok bool, err error) {
	defer guard(&err)
	return t.Holds(trace)
}

// close decides a window that ended, by itself or with the body.
func (t *temporal) close(how string, seq int64) outcome {
	if t.Kind == property.Always {
		return outcome{result: Satisfied}
	}
	return outcome{result: Violated, code: t.code(), message: "it had not happened when " + how, witness: seq}
}

func (t *temporal) finish(regular bool, last int64) outcome {
	switch {
	case !regular:
		return undecided()
	case t.Kind == property.Until:
		return outcome{result: NeverTriggered, code: verdict.NeverTriggered, message: "it never became true; the body ended by itself"}
	case t.open:
		return t.close("the body ended", t.last)
	case t.Window != nil:
		return outcome{result: Undecided, code: verdict.WindowNeverOpened, message: "no event opened the window" + named(t.Window)}
	case t.Kind == property.Always:
		return outcome{result: NeverTriggered, code: verdict.NeverTriggered, message: "the body has no event to check it at"}
	}
	return t.close("the body ended", last)
}

func named(w *property.Window) string {
	if w.Name == "" {
		return ""
	}
	return " " + w.Name
}

func (t *temporal) code() verdict.Code {
	switch t.Kind {
	case property.Always:
		return verdict.AlwaysViolated
	case property.Until:
		return verdict.AssertionFailed
	}
	return verdict.EventuallyViolated
}
