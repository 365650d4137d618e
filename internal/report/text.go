package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// Source gives the events of a leaf. A *bundle.Reader is one.
type Source interface {
	Events(leaf string) ([]event.Event, error)
}

// Text is what Write shows.
type Text struct {
	Plan     bundle.Plan
	Verdicts bundle.Verdicts
	Summary  bundle.Summary
	// Events gives the story of leaves that do not pass; nil leaves the stories out.
	Events Source
	// Bundle is the path that the replay line names, Report that of the HTML page; "" leaves each out.
	Bundle, Report string
	// Replay makes the command that runs a leaf again; nil means "squall replay BUNDLE --leaf ID".
	Replay func(leaf string) string
	// Complete is false where the run was stopped.
	Complete bool
}

// Matrix writes the matrix alone. Cells without a verdict show a dot; assumptions that do not fit
// beside each other go into further blocks.
func Matrix(w io.Writer, p bundle.Plan, v bundle.Verdicts, s Style) error {
	out := bufio.NewWriter(w)
	g, leaves := newGrid(p), byID(v)
	label := 0
	for _, name := range g.scenarios {
		label = max(label, columns(printable(name)))
	}
	for i, block := range blocks(g.assumptions, s.width()-label-3) {
		if i > 0 {
			fmt.Fprintln(out)
		}
		line := "  " + pad("", label) + " "
		for _, a := range block {
			line += "  " + pad(printable(a), columnWidth(a))
		}
		fmt.Fprintln(out, s.mark(s.Dim, strings.TrimRight(line, " ")))
		for _, scenario := range g.scenarios {
			fmt.Fprintln(out, row(g, leaves, s, block, scenario, label))
		}
	}
	return out.Flush()
}

func row(g grid, leaves map[string]bundle.Leaf, s Style, block []string, scenario string, label int) string {
	line, space := "  "+pad(printable(scenario), label)+" ", ""
	for _, a := range block {
		text, code := "", ""
		if o, ok := g.outcome(leaves, scenario, a); ok {
			text, code = cell(o), s.of(o)
		} else if len(g.cells[cellKey{scenario, a}]) > 0 {
			text, code = ".", s.Dim
		}
		line += space + "  "
		if text != "" {
			line += s.mark(code, text)
		}
		space = strings.Repeat(" ", columnWidth(a)-len(text))
	}
	return strings.TrimRight(line, " ")
}

func columnWidth(name string) int { return max(columns(printable(name)), 8) }

// blocks splits names so that each block fits into width columns, with one name at least.
func blocks(names []string, width int) [][]string {
	var out [][]string
	var current []string
	used := 0
	for _, name := range names {
		n := columnWidth(name) + 2
		if len(current) > 0 && used+n > width {
			out, current, used = append(out, current), nil, 0
		}
		current, used = append(current, name), used+n
	}
	if len(current) > 0 {
		out = append(out, current)
	}
	return out
}

// Write writes the whole result: the matrix, each leaf that does not pass, and the totals.
func (t Text) Write(w io.Writer, s Style) error {
	out := bufio.NewWriter(w)
	if err := Matrix(out, t.Plan, t.Verdicts, s); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, o := range []verdict.Outcome{verdict.Fail, verdict.Inconclusive} {
		for _, leaf := range t.Verdicts.Leaves {
			if leaf.Verdict.Outcome != o || interrupted(leaf) {
				continue
			}
			if err := t.leaf(out, leaf, s); err != nil {
				return err
			}
		}
	}
	t.warnings(out, s)
	t.level(out, s)
	t.totals(out, s)
	return out.Flush()
}

// interrupted leaves are only counted: nothing is to be said about each.
func interrupted(leaf bundle.Leaf) bool {
	r := leaf.Verdict.Reasons
	return leaf.Verdict.Outcome == verdict.Inconclusive && len(r) > 0 && r[0].Code == verdict.Interrupted
}

const indent = "      "

func (t Text) leaf(out io.Writer, leaf bundle.Leaf, s Style) error {
	title := printable(leaf.Scenario + " x " + leaf.Assumption)
	right := fmt.Sprintf("leaf %s  %s", t.short(leaf.ID), seconds(leaf.Duration))
	// The duration column ends where the widest line of a usual story does.
	gap := max(2, min(s.width(), 78)-len(indent)-columns(title)-len(right))
	fmt.Fprintf(out, "%s%s%s%s\n", s.mark(s.of(leaf.Verdict.Outcome), pad(cell(leaf.Verdict.Outcome), len(indent))),
		s.mark(s.Bold, title), strings.Repeat(" ", gap), s.mark(s.Dim, right))
	for i, r := range leaf.Verdict.Reasons {
		if i > 0 && i == 3 {
			fmt.Fprintf(out, "%sand %d more reasons\n", indent, len(leaf.Verdict.Reasons)-i)
			break
		}
		if i > 0 && r.Code == verdict.BaselineFailed {
			// The baseline's own entry tells it in full; each of its cells need not.
			fmt.Fprintln(out, indent+cut(printable(reason(r)), s.width()-len(indent)))
			continue
		}
		wrap(out, s, indent, reason(r), len(indent))
		if i == 0 {
			if err := t.story(out, leaf, s); err != nil {
				return err
			}
		}
	}
	t.next(out, leaf, s)
	fmt.Fprintln(out)
	return nil
}

// reason is the sentence of a reason: for a violated property its name, else the code.
func reason(r verdict.Reason) string {
	row, _ := verdict.Lookup(r.Code)
	detail := r.Detail
	if detail == "" {
		detail = row.Sentence
	}
	if row.Outcome != verdict.Fail {
		name := ""
		if strings.HasPrefix(string(r.Code), "property-") && !strings.Contains(detail, r.Subject) {
			name = " " + r.Subject
		}
		return "INCONCLUSIVE " + string(r.Code) + name + ": " + detail
	}
	kind, _, _ := strings.Cut(string(r.Code), "-")
	switch r.Subject {
	case "":
		return string(r.Code) + ": " + detail
	case kind:
		return kind + ": " + detail
	}
	return kind + " " + r.Subject + ": " + detail
}

// chosen says what was decided in a leaf; an unknown with a single option is none.
func chosen(out io.Writer, leaf bundle.Leaf, s Style) {
	for _, c := range leaf.Choices {
		if c.Of > 1 {
			option := cmp.Or(c.Option, fmt.Sprintf("%d of %d", c.Index, c.Of))
			wrap(out, s, indent, "chosen: "+printable(c.Name+" = "+option), len(indent)+8)
		}
	}
}

// next names the next step.
func (t Text) next(out io.Writer, leaf bundle.Leaf, s Style) {
	chosen(out, leaf, s)
	if len(leaf.Verdict.Reasons) > 0 {
		r := leaf.Verdict.Reasons[0]
		row, _ := verdict.Lookup(r.Code)
		if leaf.Verdict.Outcome == verdict.Inconclusive {
			wrap(out, s, indent, "mend:   "+row.Mend, len(indent)+8)
		}
		if r.Position != "" {
			fmt.Fprintln(out, indent+s.mark(s.Dim, "at:     "+printable(r.Position)))
		}
		if t.Bundle != "" && printed(r) {
			fmt.Fprintf(out, "%slog:    squall inspect %s --leaf %s --log %s\n", indent, shellQuote(t.Bundle), t.short(leaf.ID), shellQuote(r.Subject))
		}
	}
	if leaf.Verdict.Outcome == verdict.Fail && (t.Bundle != "" || t.Replay != nil) {
		fmt.Fprintln(out, indent+"again:  "+t.again(leaf.ID))
	}
}

// printed tells that what a service printed is likely to say more than its reason does.
func printed(r verdict.Reason) bool {
	return r.Subject != "" && (r.Code == verdict.ServiceCrashed || r.Code == verdict.ServiceNotReady)
}

func (t Text) again(leaf string) string {
	if t.Replay != nil {
		return t.Replay(leaf)
	}
	return ReplayLine(t.Bundle, t.short(leaf))
}

// ReplayLine is the command that runs a leaf again.
func ReplayLine(path, leaf string) string {
	return "squall replay " + shellQuote(path) + " --leaf " + leaf
}

func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_./+,@%=:", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// laneColumns is the most that a story spends on the name of a service, or of what it did.
const laneColumns = 20

func (t Text) story(out io.Writer, leaf bundle.Leaf, s Style) error {
	if t.Events == nil {
		return nil
	}
	events, err := t.Events.Events(leaf.ID)
	if err != nil {
		return err
	}
	story := Story(leaf, events)
	seqs, lanes, verbs := 0, 0, 0
	for _, e := range story {
		verb, _ := Describe(e)
		seqs, lanes = max(seqs, len(fmt.Sprint(e.Seq))), max(lanes, columns(e.Service))
		verbs = max(verbs, columns(verb))
	}
	// Names leave room for what happened, however long they are.
	lanes, verbs = min(lanes, laneColumns), min(verbs, laneColumns)
	for _, e := range story {
		verb, what := Describe(e)
		head := indent + "  #" + pad(fmt.Sprint(e.Seq), seqs) + "  " + pad(cut(printable(e.Service), lanes), lanes) + "  " +
			pad(cut(printable(verb), verbs), verbs) + "  "
		tail := ""
		if e.Seq == Witness(leaf) {
			tail = "      <- witness"
		}
		room := s.width() - columns(head) - len(tail)
		fmt.Fprintln(out, strings.TrimRight(s.mark(s.Dim, head)+cut(printable(what), max(room, 16))+s.mark(s.Bold, tail), " "))
	}
	return nil
}

// short is the least that names a leaf of this plan, four characters at least.
func (t Text) short(id string) string {
	for n := 4; n < len(id); n++ {
		same := 0
		for _, leaf := range t.Plan.Leaves {
			if strings.HasPrefix(leaf.ID, id[:n]) {
				same++
			}
		}
		if same <= 1 {
			return id[:n]
		}
	}
	return id
}

// warnings tells each warning once, with the number of leaves concerned.
func (t Text) warnings(out io.Writer, s Style) {
	type key struct {
		code    verdict.Code
		subject string
	}
	if len(t.Plan.Untried) > 0 {
		wrap(out, s, "", UntriedNote(t.Plan), 6)
		defer fmt.Fprintln(out)
	}
	counts, details := map[key]int{}, map[key]string{}
	var order []key
	triggered := triggered(t.Verdicts)
	for _, leaf := range t.Verdicts.Leaves {
		for _, r := range leaf.Verdict.Warnings {
			if r.Code == verdict.NeverTriggered && triggered[r.Subject] {
				// It was put to the test in another leaf: that one cell has nothing for it is no news.
				continue
			}
			k := key{r.Code, r.Subject}
			if counts[k] == 0 {
				order = append(order, k)
			}
			counts[k]++
			if r.Code == verdict.NoPositiveControl {
				details[k] = r.Detail
			}
		}
	}
	for _, k := range order {
		row, _ := verdict.Lookup(k.code)
		text := fmt.Sprintf("note: %s %s: %s (%s)", k.code, k.subject, cmp.Or(details[k], row.Sentence), plural(counts[k], "leaf", "leaves"))
		wrap(out, s, "", strings.ReplaceAll(text, " : ", ": "), 6)
	}
	if len(order) > 0 && len(t.Plan.Untried) == 0 {
		fmt.Fprintln(out)
	}
}

// UntriedNote says which assumptions of a plan no leaf tries; "" where there is none.
func UntriedNote(p bundle.Plan) string {
	if len(p.Untried) == 0 {
		return ""
	}
	return "note: nothing is tried under " + strings.Join(p.Untried, ", ") + ": declared, and in no cell of a fault_matrix"
}

// triggered returns the properties that at least one leaf put to the test.
func triggered(v bundle.Verdicts) map[string]bool {
	out := map[string]bool{}
	for _, leaf := range v.Leaves {
		for _, p := range leaf.Properties {
			if p.Result != "never_triggered" {
				out[p.Name] = true
			}
		}
	}
	return out
}

// level says what the leaves' determinism was, where the specification asks for a level.
func (t Text) level(out io.Writer, s Style) {
	counts := map[string]int{}
	var order []string
	for _, leaf := range t.Verdicts.Leaves {
		if text := "determinism " + leaf.Level + ": " + leaf.LevelReason; leaf.LevelAsked {
			if counts[text] == 0 {
				order = append(order, text)
			}
			counts[text]++
		}
	}
	for i, text := range order {
		if i == levelLines && len(order) > levelLines+1 {
			fmt.Fprintf(out, "and %d more, in the report\n", len(order)-i)
			break
		}
		if len(order) > 1 {
			text += " (" + plural(counts[text], "leaf", "leaves") + ")"
		}
		wrap(out, s, "", text, 6)
	}
	if len(order) > 0 {
		fmt.Fprintln(out)
	}
}

// levelLines bounds what the summary says of levels: leaves count differently.
const levelLines = 3

func (t Text) totals(out io.Writer, s Style) {
	if len(t.Verdicts.Leaves) == 0 {
		row, _ := verdict.Lookup(verdict.NothingTested)
		fmt.Fprintf(out, "%s %s: %s\n%smend:   %s\n\n", s.mark(s.Open, string(row.Outcome)), row.Code, row.Sentence, indent, row.Mend)
	}
	line := fmt.Sprintf("%d pass, %d fail, %d inconclusive    %s", t.Summary.Pass, t.Summary.Fail, t.Summary.Inconclusive, seconds(t.Summary.Duration))
	if t.Report != "" {
		line += "    report: " + t.Report
	}
	fmt.Fprintln(out, s.mark(s.Bold, line))
	if n := t.undecided(); n > 0 || !t.Complete {
		fmt.Fprintf(out, "stopped before the end: %s not decided\n", plural(n, "leaf", "leaves"))
	}
}

func (t Text) undecided() int {
	n := 0
	for _, leaf := range t.Verdicts.Leaves {
		if interrupted(leaf) {
			n++
		}
	}
	return n
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func seconds(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		// Two digits where they matter, as in 0.31 s; one from a second on.
		if d < time.Second {
			return fmt.Sprintf("%.2f s", d.Seconds())
		}
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}
