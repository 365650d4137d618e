package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// The oracle: what each operator must say for each ending of the body and each boundary of the
// trace. The table is written by hand from the rules of the package comment. TestOracle runs every
// cell and fails for one that is missing.
//
// A trace is a word: s is an event before the body, B its begin, a an event, [ opens the window, b is
// inside, ] closes it, c is after it, E is the body's end, d comes after that. On the ending cut the
// trace stops before E, and "last" is the event before. A predicate P is true at some of them:
//
//	T x: only at x     F x: everywhere but at x     all, none
//
// The operators: eventually P and always P over the body and over the window; a monitor that is
// violated where P is false; a body that awaits an event with P; a body whose last act asserts that
// the latest event has P; an expectation that asks the same after the body.
var boundaries = []struct{ name, word, p string }{
	{"true at first", "sBa[b]cEd", "T B"},
	{"false at first", "sBa[b]cEd", "F B"},
	{"true at last", "sBa[b]cEd", "T E"},
	{"false at last", "sBa[b]cEd", "F E"},
	{"true at opening", "sBa[b]cEd", "T ["},
	{"false at opening", "sBa[b]cEd", "F ["},
	{"true at closing", "sBa[b]cEd", "T ]"},
	{"false at closing", "sBa[b]cEd", "F ]"},
	{"true inside", "sBa[b]cEd", "T b"},
	{"false inside", "sBa[b]cEd", "F b"},
	{"true before window", "sBa[b]cEd", "T a"},
	{"false before window", "sBa[b]cEd", "F a"},
	{"true after window", "sBa[b]cEd", "T c"},
	{"false after window", "sBa[b]cEd", "F c"},
	{"true before body", "sBa[b]cEd", "T s"},
	{"false before body", "sBa[b]cEd", "F s"},
	{"true after body", "sBa[b]cEd", "T d"},
	{"false after body", "sBa[b]cEd", "F d"},
	{"true nowhere", "sBa[b]cEd", "none"},
	{"true everywhere", "sBa[b]cEd", "all"},
	{"empty trace", "", "none"},
	{"never opened, true", "sBabcEd", "all"},
	{"never opened, false", "sBabcEd", "none"},
	{"not closed, false", "sBa[bcEd", "none"},
	{"not closed, true", "sBa[bcEd", "all"},
	{"not closed, true at last", "sBa[bcEd", "T E"},
	{"not closed, false at last", "sBa[bcEd", "F E"},
	{"reopened, true there", "sBa[b]c[x]Ed", "T x"},
	{"reopened, false there", "sBa[b]c[x]Ed", "F x"},
}

// codes are the words of the table's cells: the reasons in order, then after a plus the warnings.
var codes = map[string]verdict.Code{
	"EV": verdict.EventuallyViolated, "AV": verdict.AlwaysViolated, "MV": verdict.MonitorViolated,
	"AF": verdict.AssertionFailed, "XF": verdict.ExpectationFailed, "BF": verdict.BodyFailed,
	"AU": verdict.AwaitUnmet, "WN": verdict.WindowNeverOpened, "un": verdict.PropertyUndecided,
	"HA": verdict.Halted, "TO": verdict.Timeout, "IN": verdict.Interrupted, "SL": verdict.SupervisionLost,
	"NT": verdict.NeverTriggered, "NA": verdict.NoAssertions,
}

// columns of the table after the boundary: returned, failed, halted, timeout, interrupted, cut.
var oracle = map[string]string{
	"eventually": `
true at first             | ok  BF     HA     TO     IN     SL
false at first            | ok  BF     HA     TO     IN     SL
true at last              | ok  BF     HA     TO     IN     SL
false at last             | ok  BF     HA     TO     IN     SL
true at opening           | ok  BF     HA     TO     IN     SL
false at opening          | ok  BF     HA     TO     IN     SL
true at closing           | ok  BF     HA     TO     IN     SL
false at closing          | ok  BF     HA     TO     IN     SL
true inside               | ok  BF     HA     TO     IN     SL
false inside              | ok  BF     HA     TO     IN     SL
true before window        | ok  BF     HA     TO     IN     SL
false before window       | ok  BF     HA     TO     IN     SL
true after window         | ok  BF     HA     TO     IN     SL
false after window        | ok  BF     HA     TO     IN     SL
true before body          | EV  BF,un  HA,un  TO,un  IN,un  SL,un
false before body         | ok  BF     HA     TO     IN     SL
true after body           | EV  BF,un  HA,un  TO,un  IN,un  SL,un
false after body          | ok  BF     HA     TO     IN     SL
true nowhere              | EV  BF,un  HA,un  TO,un  IN,un  SL,un
true everywhere           | ok  BF     HA     TO     IN     SL
empty trace               | EV  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, true        | ok  BF     HA     TO     IN     SL
never opened, false       | EV  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, false         | EV  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, true          | ok  BF     HA     TO     IN     SL
not closed, true at last  | ok  BF     HA     TO     IN     SL
not closed, false at last | ok  BF     HA     TO     IN     SL
reopened, true there      | ok  BF     HA     TO     IN     SL
reopened, false there     | ok  BF     HA     TO     IN     SL`,

	"eventually in a window": `
true at first             | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
false at first            | ok  BF     HA     TO     IN     SL
true at last              | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
false at last             | ok  BF     HA     TO     IN     SL
true at opening           | ok  BF     HA     TO     IN     SL
false at opening          | ok  BF     HA     TO     IN     SL
true at closing           | ok  BF     HA     TO     IN     SL
false at closing          | ok  BF     HA     TO     IN     SL
true inside               | ok  BF     HA     TO     IN     SL
false inside              | ok  BF     HA     TO     IN     SL
true before window        | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
false before window       | ok  BF     HA     TO     IN     SL
true after window         | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
false after window        | ok  BF     HA     TO     IN     SL
true before body          | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
false before body         | ok  BF     HA     TO     IN     SL
true after body           | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
false after body          | ok  BF     HA     TO     IN     SL
true nowhere              | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
true everywhere           | ok  BF     HA     TO     IN     SL
empty trace               | WN  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, true        | WN  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, false       | WN  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, false         | EV  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, true          | ok  BF     HA     TO     IN     SL
not closed, true at last  | ok  BF     HA     TO     IN     SL
not closed, false at last | ok  BF     HA     TO     IN     SL
reopened, true there      | EV  EV,BF  EV,HA  EV,TO  EV,IN  EV,SL
reopened, false there     | ok  BF     HA     TO     IN     SL`,

	"always": `
true at first             | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at first            | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true at last              | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at last             | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true at opening           | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at opening          | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true at closing           | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at closing          | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true inside               | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false inside              | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true before window        | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false before window       | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true after window         | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false after window        | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true before body          | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false before body         | ok  BF,un  HA,un  TO,un  IN,un  SL,un
true after body           | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false after body          | ok  BF,un  HA,un  TO,un  IN,un  SL,un
true nowhere              | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true everywhere           | ok  BF,un  HA,un  TO,un  IN,un  SL,un
empty trace               | ok+NT  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, true        | ok  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, false       | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
not closed, false         | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
not closed, true          | ok  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, true at last  | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
not closed, false at last | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
reopened, true there      | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
reopened, false there     | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL`,

	"always in a window": `
true at first             | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at first            | ok  BF     HA     TO     IN     SL
true at last              | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at last             | ok  BF     HA     TO     IN     SL
true at opening           | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at opening          | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true at closing           | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false at closing          | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true inside               | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false inside              | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true before window        | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false before window       | ok  BF     HA     TO     IN     SL
true after window         | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false after window        | ok  BF     HA     TO     IN     SL
true before body          | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false before body         | ok  BF     HA     TO     IN     SL
true after body           | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
false after body          | ok  BF     HA     TO     IN     SL
true nowhere              | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
true everywhere           | ok  BF     HA     TO     IN     SL
empty trace               | WN  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, true        | WN  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, false       | WN  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, false         | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
not closed, true          | ok  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, true at last  | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
not closed, false at last | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
reopened, true there      | AV  AV,BF  AV,HA  AV,TO  AV,IN  AV,SL
reopened, false there     | ok  BF     HA     TO     IN     SL`,

	"monitor": `
true at first             | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false at first            | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true at last              | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false at last             | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true at opening           | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false at opening          | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true at closing           | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false at closing          | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true inside               | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false inside              | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true before window        | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false before window       | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true after window         | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false after window        | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true before body          | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false before body         | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true after body           | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
false after body          | MV  BF,MV  MV,HA  MV,TO  MV,IN  SL,un
true nowhere              | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
true everywhere           | ok  BF,un  HA,un  TO,un  IN,un  SL,un
empty trace               | ok+NT  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, true        | ok  BF,un  HA,un  TO,un  IN,un  SL,un
never opened, false       | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
not closed, false         | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
not closed, true          | ok  BF,un  HA,un  TO,un  IN,un  SL,un
not closed, true at last  | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
not closed, false at last | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
reopened, true there      | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL
reopened, false there     | MV  MV,BF  MV,HA  MV,TO  MV,IN  MV,SL`,

	"await": `
true at first             | ok+NA  BF  HA  TO  IN  SL
false at first            | ok+NA  BF  HA  TO  IN  SL
true at last              | AU     AU  AU  TO  IN  SL
false at last             | ok+NA  BF  HA  TO  IN  SL
true at opening           | ok+NA  BF  HA  TO  IN  SL
false at opening          | ok+NA  BF  HA  TO  IN  SL
true at closing           | ok+NA  BF  HA  TO  IN  SL
false at closing          | ok+NA  BF  HA  TO  IN  SL
true inside               | ok+NA  BF  HA  TO  IN  SL
false inside              | ok+NA  BF  HA  TO  IN  SL
true before window        | ok+NA  BF  HA  TO  IN  SL
false before window       | ok+NA  BF  HA  TO  IN  SL
true after window         | ok+NA  BF  HA  TO  IN  SL
false after window        | ok+NA  BF  HA  TO  IN  SL
true before body          | ok+NA  BF  HA  TO  IN  SL
false before body         | ok+NA  BF  HA  TO  IN  SL
true after body           | AU     AU  AU  TO  IN  SL
false after body          | ok+NA  BF  HA  TO  IN  SL
true nowhere              | AU     AU  AU  TO  IN  SL
true everywhere           | ok+NA  BF  HA  TO  IN  SL
empty trace               | AU     AU  AU  TO  IN  SL
never opened, true        | ok+NA  BF  HA  TO  IN  SL
never opened, false       | AU     AU  AU  TO  IN  SL
not closed, false         | AU     AU  AU  TO  IN  SL
not closed, true          | ok+NA  BF  HA  TO  IN  SL
not closed, true at last  | AU     AU  AU  TO  IN  SL
not closed, false at last | ok+NA  BF  HA  TO  IN  SL
reopened, true there      | ok+NA  BF  HA  TO  IN  SL
reopened, false there     | ok+NA  BF  HA  TO  IN  SL`,

	"assertion": `
true at first             | AF  AF  AF  AF  AF  AF
false at first            | ok  BF  HA  TO  IN  SL
true at last              | AF  AF  AF  AF  AF  SL
false at last             | ok  BF  HA  TO  IN  AF
true at opening           | AF  AF  AF  AF  AF  AF
false at opening          | ok  BF  HA  TO  IN  SL
true at closing           | AF  AF  AF  AF  AF  AF
false at closing          | ok  BF  HA  TO  IN  SL
true inside               | AF  AF  AF  AF  AF  AF
false inside              | ok  BF  HA  TO  IN  SL
true before window        | AF  AF  AF  AF  AF  AF
false before window       | ok  BF  HA  TO  IN  SL
true after window         | ok  BF  HA  TO  IN  SL
false after window        | AF  AF  AF  AF  AF  AF
true before body          | AF  AF  AF  AF  AF  AF
false before body         | ok  BF  HA  TO  IN  SL
true after body           | AF  AF  AF  AF  AF  AF
false after body          | ok  BF  HA  TO  IN  SL
true nowhere              | AF  AF  AF  AF  AF  AF
true everywhere           | ok  BF  HA  TO  IN  SL
empty trace               | AF  AF  AF  AF  AF  AF
never opened, true        | ok  BF  HA  TO  IN  SL
never opened, false       | AF  AF  AF  AF  AF  AF
not closed, false         | AF  AF  AF  AF  AF  AF
not closed, true          | ok  BF  HA  TO  IN  SL
not closed, true at last  | AF  AF  AF  AF  AF  SL
not closed, false at last | ok  BF  HA  TO  IN  AF
reopened, true there      | AF  AF  AF  AF  AF  AF
reopened, false there     | ok  BF  HA  TO  IN  SL`,

	"expectation": `
true at first             | XF  BF  HA  TO  IN  SL
false at first            | ok  BF  HA  TO  IN  SL
true at last              | ok  BF  HA  TO  IN  SL
false at last             | XF  BF  HA  TO  IN  SL
true at opening           | XF  BF  HA  TO  IN  SL
false at opening          | ok  BF  HA  TO  IN  SL
true at closing           | XF  BF  HA  TO  IN  SL
false at closing          | ok  BF  HA  TO  IN  SL
true inside               | XF  BF  HA  TO  IN  SL
false inside              | ok  BF  HA  TO  IN  SL
true before window        | XF  BF  HA  TO  IN  SL
false before window       | ok  BF  HA  TO  IN  SL
true after window         | XF  BF  HA  TO  IN  SL
false after window        | ok  BF  HA  TO  IN  SL
true before body          | XF  BF  HA  TO  IN  SL
false before body         | ok  BF  HA  TO  IN  SL
true after body           | XF  BF  HA  TO  IN  SL
false after body          | ok  BF  HA  TO  IN  SL
true nowhere              | XF  BF  HA  TO  IN  SL
true everywhere           | ok  BF  HA  TO  IN  SL
empty trace               | XF  BF  HA  TO  IN  SL
never opened, true        | ok  BF  HA  TO  IN  SL
never opened, false       | XF  BF  HA  TO  IN  SL
not closed, false         | XF  BF  HA  TO  IN  SL
not closed, true          | ok  BF  HA  TO  IN  SL
not closed, true at last  | ok  BF  HA  TO  IN  SL
not closed, false at last | XF  BF  HA  TO  IN  SL
reopened, true there      | XF  BF  HA  TO  IN  SL
reopened, false there     | ok  BF  HA  TO  IN  SL`,
}

func TestOracle(t *testing.T) {
	operators := []string{
		"eventually", "eventually in a window", "always", "always in a window",
		"monitor", "await", "assertion", "expectation",
	}
	if len(oracle) != len(operators) {
		t.Errorf("the table has %d operators, want %d", len(oracle), len(operators))
	}
	for _, op := range operators {
		rows := map[string][]string{}
		for line := range strings.Lines(strings.TrimSpace(oracle[op])) {
			name, cells, _ := strings.Cut(line, "|")
			rows[strings.TrimSpace(name)] = strings.Fields(cells)
		}
		if len(rows) != len(boundaries) {
			t.Errorf("%s: the table has %d boundaries, want %d", op, len(rows), len(boundaries))
		}
		for _, b := range boundaries {
			for i, kind := range Endings() {
				name := fmt.Sprintf("%s, %s, %s", op, kind, b.name)
				if len(rows[b.name]) != len(Endings()) {
					t.Errorf("%s: no cell in the table", name)
					continue
				}
				checkCell(t, name, runCell(op, kind, b.word, b.p), rows[b.name][i])
			}
		}
	}
}

// checkCell compares a verdict with a cell, and the outcome with what the codes' table makes of it.
func checkCell(t *testing.T, name string, v verdict.Verdict, cell string) {
	t.Helper()
	short := map[verdict.Code]string{}
	for s, c := range codes {
		short[c] = s
	}
	var got []string
	for _, r := range v.Reasons {
		got = append(got, short[r.Code])
	}
	text := strings.Join(got, ",")
	if text == "" {
		text = "ok"
		for _, w := range v.Warnings {
			text += "+" + short[w.Code]
		}
	}
	if text != cell {
		t.Errorf("%s: %s, want %s\n%+v", name, text, cell, v)
		return
	}
	want := verdict.Pass
	if first, _, _ := strings.Cut(cell, ","); !strings.HasPrefix(cell, "ok") {
		row, _ := verdict.Lookup(codes[first])
		want = row.Outcome
	}
	if v.Outcome != want {
		t.Errorf("%s: %s, want %s", name, v.Outcome, want)
	}
}

// runCell plays one cell.
func runCell(op string, kind EndingKind, word, p string) verdict.Verdict {
	events := traceOf(word, p, kind)
	holds := func(trace []event.Event) bool { return len(trace) > 0 && trace[len(trace)-1].Fields["p"] == true }
	predicate := func(trace []event.Event) (bool, error) { return holds(trace), nil }
	is := func(mark string) func(event.Event) (bool, error) {
		return func(e event.Event) (bool, error) { return e.String("mark") == mark, nil }
	}
	window := &property.Window{From: is("["), To: is("]"), Name: "[ to ]"}
	var props Properties
	switch op {
	case "eventually":
		props.Temporal = []*property.Temporal{{Name: op, Kind: property.Eventually, Holds: predicate}}
	case "eventually in a window":
		props.Temporal = []*property.Temporal{{Name: op, Kind: property.Eventually, Holds: predicate, Window: window}}
	case "always":
		props.Temporal = []*property.Temporal{{Name: op, Kind: property.Always, Holds: predicate}}
	case "always in a window":
		props.Temporal = []*property.Temporal{{Name: op, Kind: property.Always, Holds: predicate, Window: window}}
	case "monitor":
		props.Monitors = []*property.Monitor{{Name: op, Step: func(trace []event.Event, s any) (any, bool, error) {
			if !holds(trace) {
				return s, true, &property.Violation{Message: "P is false"}
			}
			return s, true, nil
		}}}
	}
	in := Input{Events: events, Ending: endingOf(kind)}
	body := untilEnd(events)
	switch op {
	case "await":
		in.Ending = awaitEnding(kind, body)
	case "assertion":
		in.Asserted = true
		if !holds(body) {
			in.Ending.Err = &property.Violation{Message: "P is false"}
			if kind == Returned {
				in.Ending.Kind = Failed
			}
		}
	case "expectation":
		if in.Expected = kind == Returned; in.Expected && !holds(events[:min(len(body)+1, len(events))]) {
			in.Expect = &property.Violation{Message: "P is false"}
		}
	}
	v := New(props)
	v.Feed(events...)
	in.Reasons, in.Warnings, in.Records = v.Finish(in.Ending)
	return Judge(in)
}

func endingOf(kind EndingKind) Ending {
	err := map[EndingKind]error{
		Failed: errors.New("boom"), Halted: &spec.Ended{Code: string(verdict.Halted), Detail: "nothing to say"},
		Timeout: context.DeadlineExceeded, Interrupted: context.Canceled, Cut: errors.New("lost"),
	}[kind]
	return Ending{kind, err}
}

// awaitEnding plays a body that awaits P, with a time of its own, and then ends as kind says.
func awaitEnding(kind EndingKind, events []event.Event) Ending {
	leaf, stop := context.WithCancel(context.Background())
	defer stop()
	switch kind {
	case Timeout:
		var cancel func()
		leaf, cancel = context.WithDeadline(leaf, time.Unix(0, 0))
		defer cancel()
	case Interrupted:
		stop()
	}
	met := slices.ContainsFunc(events, func(e event.Event) bool { return e.Fields["p"] == true })
	if met || kind == Cut {
		return endingOf(kind)
	}
	return Classify(leaf, &spec.Ended{Code: string(verdict.AwaitUnmet), Detail: "nothing came"})
}

// traceOf turns a word into events.
func traceOf(word, p string, kind EndingKind) []event.Event {
	last := "E"
	if kind == Cut {
		word, _, _ = strings.Cut(word, "E")
		if word != "" {
			last = word[len(word)-1:]
		}
	}
	mode, at, _ := strings.Cut(p, " ")
	if at == "E" {
		at = last
	}
	var events []event.Event
	for i, r := range word {
		mark := string(r)
		truth := map[string]bool{"all": true, "none": false, "T": mark == at, "F": mark != at}[mode]
		e := event.Event{Seq: int64(i) + 1, Service: "svc", Kind: event.Stdout, Fields: map[string]any{"mark": mark, "p": truth}}
		switch mark {
		case "B":
			e.Kind, e.Fields["phase"] = event.Body, "begin"
		case "E":
			e.Kind, e.Fields["phase"] = event.Body, "end"
		}
		events = append(events, e)
	}
	return events
}

// untilEnd returns what the body can see: the events before its end.
func untilEnd(events []event.Event) []event.Event {
	for i, e := range events {
		if isBody(e, "end") {
			return events[:i]
		}
	}
	return events
}
