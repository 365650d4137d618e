// Package report shows a bundle to people and machines: as text, as one HTML page, as JUnit XML
// and as JSON.
//
// It reads what lies in the bundle and decides nothing. The text is the same in a pipe and on a
// terminal, except for colour.
package report

import "github.com/squallhq/squall/verdict"

// Style is how text is marked. The zero value marks nothing, for a pipe.
type Style struct {
	Pass, Fail, Open, Dim, Bold, Reset string
	// Width is the number of columns; 0 means 80.
	Width int
}

// Plain is the style for pipes and files.
func Plain() Style { return Style{} }

// Colour is the style for a terminal of the given width. It uses the eight colours that every
// theme defines, so that it stays readable on light and dark ground.
func Colour(width int) Style {
	return Style{
		Pass: "\x1b[32m", Fail: "\x1b[1;31m", Open: "\x1b[33m", Dim: "\x1b[2m", Bold: "\x1b[1m",
		Reset: "\x1b[0m", Width: width,
	}
}

func (s Style) width() int {
	if s.Width <= 0 {
		return 80
	}
	return max(s.Width, 40)
}

func (s Style) mark(code, text string) string {
	if code == "" || text == "" {
		return text
	}
	return code + text + s.Reset
}

func (s Style) of(o verdict.Outcome) string {
	switch o {
	case verdict.Pass:
		return s.Pass
	case verdict.Fail:
		return s.Fail
	}
	return s.Open
}

// cell is how an outcome stands in a matrix.
func cell(o verdict.Outcome) string {
	switch o {
	case verdict.Pass:
		return "pass"
	case verdict.Fail:
		return "FAIL"
	}
	return "?"
}
