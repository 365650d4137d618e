package report

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

func printable(s string) string { return Printable(strings.TrimRight(s, " \t\r\n")) }

// colours matches what programs print to colour a terminal.
var colours = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

// Printable makes text that comes from programs or from somebody's bundle safe for a terminal: on one line, it neither
// moves the cursor nor changes colours nor the direction of writing.
func Printable(s string) string {
	if strings.ContainsRune(s, '\x1b') {
		s = colours.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n':
			return ' '
		case r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, s)
}

// columns is how wide a terminal shows s.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-columns(s)))
}

// cut shortens s to so many columns.
func cut(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	used := 0
	for i, r := range s {
		n := runeColumns(r)
		if used+n > width-1 {
			return s[:i] + "…"
		}
		used += n
	}
	return s
}

// wrap writes text in lines of the style's width; lines after the first begin with hang spaces.
func wrap(out io.Writer, s Style, prefix, text string, hang int) {
	line := prefix
	empty := true
	for word := range strings.FieldsFuncSeq(printable(text), func(r rune) bool { return r == '\n' }) {
		for _, piece := range splitWords(word) {
			if !empty && columns(line)+columns(strings.TrimRight(piece, " ")) > s.width() {
				fmt.Fprintln(out, strings.TrimRight(line, " "))
				line, empty = strings.Repeat(" ", hang), true
			}
			line, empty = line+piece, false
		}
	}
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}

// splitWords splits after runs of spaces, and keeps them.
func splitWords(s string) []string {
	var out []string
	start := 0
	for i := 1; i < len(s); i++ {
		if s[i] != ' ' && s[i-1] == ' ' {
			out = append(out, s[start:i])
			start = i
		}
	}
	return append(out, s[start:])
}
