// Package source is the text of a spec: where things stand in it, and what is wrong there.
package source

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/syntax"
)

// Diagnostic is one thing that is wrong with a spec, and where.
type Diagnostic struct {
	// File is the file as the user would name it.
	File string `json:"file"`
	// Line and Col count from 1; columns are runes. EndCol is the column after the marked text, on
	// the same line.
	Line   int `json:"line"`
	Col    int `json:"col"`
	EndCol int `json:"end_col"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Nearest is the known name that was probably meant, or "".
	Nearest string `json:"nearest,omitempty"`
	// Text is the source line.
	Text string `json:"text,omitempty"`
}

// String returns the diagnostic on one line.
func (d Diagnostic) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s", d.File, d.Line, d.Col, d.Message)
	if d.Nearest != "" {
		s += "; nearest: " + d.Nearest
	}
	return s
}

// Errors is everything that is wrong with a spec; there is at least one.
type Errors struct {
	List []Diagnostic
}

// Error returns the diagnostics, one a line.
func (e *Errors) Error() string {
	lines := make([]string, len(e.List))
	for i, d := range e.List {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Render writes the diagnostics with the source lines concerned, each followed by a line of carets.
func (e *Errors) Render(w io.Writer) error {
	var b strings.Builder
	for _, d := range e.List {
		b.WriteString(d.String())
		b.WriteByte('\n')
		if d.Text == "" {
			continue
		}
		fmt.Fprintf(&b, "%5d | %s\n", d.Line, d.Text)
		fmt.Fprintf(&b, "      | %s%s\n", blank(d.Text, d.Col-1), strings.Repeat("^", max(1, d.EndCol-d.Col)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// blank returns as much white space as the first n runes of a line take, keeping its tabs.
func blank(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n--; n < 0 {
			break
		}
		if r == '\t' {
			b.WriteRune('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// Span is a piece of one source line, or of several.
type Span struct{ Start, End syntax.Position }

// At is the span of one position.
func At(p syntax.Position) Span { return Span{p, p} }

// SpanOf returns the span of a node.
func SpanOf(n syntax.Node) Span {
	start, end := n.Span()
	return Span{start, end}
}

// Sorted returns the diagnostics in the order of files and positions, without repeats.
func Sorted(list []Diagnostic, order func(file string) int) []Diagnostic {
	slices.SortStableFunc(list, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(order(a.File), order(b.File)), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
		)
	})
	return slices.Compact(list)
}

// Nearest returns the candidate that name was probably meant to be, or "".
func Nearest(name string, candidates []string) string {
	fold := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	want := fold(name)
	n := utf8.RuneCountInString(want)
	best, bestDistance := "", (n+1)/2
	if n == 2 {
		bestDistance = 2 // two letters swapped, or one left out
	}
	for _, c := range candidates {
		got := fold(c)
		d := distance([]rune(want), []rune(got))
		// One of the two is likely an abbreviation of the other.
		if len(want) >= 3 && strings.HasPrefix(got, want) || len(got) >= 2 && strings.HasPrefix(want, got) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours between
// two words (optimal string alignment).
func distance(a, b []rune) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range a {
		cur[0] = i + 1
		for j := range b {
			replace := prev[j]
			if a[i] != b[j] {
				replace++
			}
			cur[j+1] = min(replace, prev[j+1]+1, cur[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cur[j+1] = min(cur[j+1], before[j-1]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

// ScriptError is an error in the code of a spec.
type ScriptError struct {
	Diagnostic
	// Trace is how the code came there, innermost first: "shop.star:20:3 in create_order". It is
	// nil as long as that is not known.
	Trace []string
}

// Error returns the diagnostic, then the trace.
func (e *ScriptError) Error() string {
	s := e.Diagnostic.String()
	for _, t := range e.Trace {
		s += "\n  called from " + t
	}
	return s
}
