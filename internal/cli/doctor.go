package cli

import (
	"fmt"
	"strings"

	"github.com/squallhq/squall"
)

type doctorCmd struct{}

// Run implements the command.
func (c *doctorCmd) Run(e *env) error {
	d := squall.Doctor(e.ctx)
	for _, f := range d.Findings {
		state := e.style.green(fmt.Sprintf("%-6s", f.State))
		if f.State != "ok" {
			state = e.style.yellow(fmt.Sprintf("%-6s", f.State))
		}
		fmt.Fprintln(e.stdout, strings.TrimRight(fmt.Sprintf("%-24s %s %s", f.Name, state, f.Detail), " "))
		for _, note := range []struct{ label, text string }{{"without", f.Without}, {"mend", f.Mend}} {
			if note.text != "" {
				fmt.Fprintf(e.stdout, "%24s %s: %s\n", "", note.label, note.text)
			}
		}
	}
	fmt.Fprintln(e.stdout, d.Conclusion)
	if !d.Ready {
		return exit(2)
	}
	return nil
}
