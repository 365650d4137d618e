package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Reference returns the commands with their arguments and flags in Markdown, made from the model that
// parses the command line.
func Reference() (string, error) {
	parser, err := newParser(&commands{})
	if err != nil {
		return "", fmt.Errorf("cli: reference: %w", err)
	}
	var b strings.Builder
	for _, c := range parser.Model.Children {
		fmt.Fprintf(&b, "## squall %s\n\n`squall %s`\n\n%s\n\n", c.Name, usage(c), c.Help)
		writeFlags(&b, c)
	}
	return b.String(), nil
}

// usage is a command as it is typed.
func usage(c *kong.Node) string {
	parts := []string{c.Name}
	for _, a := range c.Positional {
		parts = append(parts, strings.ToUpper(a.Name))
	}
	if len(c.Flags) > 0 {
		parts = append(parts, "[flags]")
	}
	return strings.Join(parts, " ")
}

func writeFlags(b *strings.Builder, c *kong.Node) {
	var rows []string
	for _, a := range c.Positional {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", strings.ToUpper(a.Name), a.Help))
	}
	for _, f := range c.Flags {
		help := f.Help
		if f.Default != "" {
			help += " Default: " + f.Default + "."
		}
		if f.Enum != "" {
			help += " One of: " + strings.ReplaceAll(f.Enum, ",", ", ") + "."
		}
		rows = append(rows, fmt.Sprintf("| %s | %s |", flagText(f), strings.ReplaceAll(help, "|", "\\|")))
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "| | |\n|---|---|\n%s\n\n", strings.Join(rows, "\n"))
	}
}

// flagText is a flag with its short form, its value and its other names.
func flagText(f *kong.Flag) string {
	var names []string
	if f.Short != 0 {
		names = append(names, "-"+string(f.Short))
	}
	for _, name := range append([]string{f.Name}, f.Aliases...) {
		name = "--" + name
		if !f.IsBool() {
			name += "=" + cmp.Or(f.PlaceHolder, strings.ToUpper(f.Name))
		}
		names = append(names, name)
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
