package cli

import (
	"os"

	"golang.org/x/term"
)

// style is all that the terminal decides: colour, width and whether lines may be redrawn.
type style struct {
	colour bool
	live   bool
	width  int
}

// styleOf returns the style for a file: plain and 80 wide unless it is a terminal. NO_COLOR and
// TERM=dumb are respected.
func styleOf(f *os.File) style {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return style{width: 80}
	}
	s := style{colour: os.Getenv("NO_COLOR") == "", live: true, width: 80}
	if os.Getenv("TERM") == "dumb" {
		return style{width: 80}
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		s.width = w
	}
	return s
}

func (s style) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(t string) string   { return s.paint("1", t) }
func (s style) dim(t string) string    { return s.paint("2", t) }
func (s style) red(t string) string    { return s.paint("31", t) }
func (s style) green(t string) string  { return s.paint("32", t) }
func (s style) yellow(t string) string { return s.paint("33", t) }
