package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	For string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run implements the command.
func (c *completionCmd) Run(e *env) error {
	parser, err := newParser(&commands{})
	if err != nil {
		return fmt.Errorf("squall: completion: %w", err)
	}
	switch c.For {
	case "fish":
		fishCompletion(e.stdout, parser.Model)
	case "zsh":
		// zsh reads completions for bash; compinit has to be there first.
		fmt.Fprintln(e.stdout, "autoload -Uz compinit bashcompinit && compinit && bashcompinit")
		bashCompletion(e.stdout, parser.Model)
	default:
		bashCompletion(e.stdout, parser.Model)
	}
	return nil
}

// suffixOf returns what the files end in that an argument names, "" where it names none.
func suffixOf(name string) string {
	switch name {
	case "spec":
		return ".star"
	case "bundle", "a", "b":
		return ".squall"
	}
	return ""
}

// argument says what the first argument of a command is completed with: words, or files with an ending.
func argument(c *kong.Node) (words []string, suffix string) {
	if len(c.Positional) == 0 {
		return nil, ""
	}
	p := c.Positional[0]
	if p.Enum != "" {
		return strings.Split(p.Enum, ","), ""
	}
	return nil, suffixOf(p.Name)
}

func flagsOf(c *kong.Node) []string {
	var out []string
	for _, f := range c.Flags {
		out = append(out, "--"+f.Name)
	}
	return out
}

func bashCompletion(w io.Writer, m *kong.Application) {
	var names []string
	for _, c := range m.Children {
		names = append(names, c.Name)
	}
	fmt.Fprintf(w, `_squall() {
	local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" flags="" words="" suffix=""
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W "%s --help --version" -- "$word"))
		return
	fi
	case "${COMP_WORDS[1]}" in
`, strings.Join(names, " "))
	for _, c := range m.Children {
		words, suffix := argument(c)
		fmt.Fprintf(w, "\t%s) flags=%q words=%q suffix=%q ;;\n", c.Name, strings.Join(flagsOf(c), " "), strings.Join(words, " "), suffix)
	}
	fmt.Fprint(w, "\tesac\n\tcase \"$before\" in\n")
	for _, row := range enumFlags(m) {
		fmt.Fprintf(w, "\t--%s) COMPREPLY=($(compgen -W %q -- \"$word\")); return ;;\n", row.Name, strings.ReplaceAll(row.Enum, ",", " "))
	}
	fmt.Fprint(w, `	esac
	if [[ "$word" == -* ]]; then
		COMPREPLY=($(compgen -W "$flags --help" -- "$word"))
	elif [ -n "$words" ]; then
		COMPREPLY=($(compgen -W "$words" -- "$word"))
	elif [ -n "$suffix" ]; then
		COMPREPLY=($(compgen -f -X "!*$suffix" -- "$word") $(compgen -d -- "$word"))
		compopt -o filenames 2>/dev/null
	else
		COMPREPLY=($(compgen -f -- "$word"))
		compopt -o filenames 2>/dev/null
	fi
}
complete -F _squall squall
`)
}

// enumFlags returns the flags that take one of a few words, each name once.
func enumFlags(m *kong.Application) []*kong.Flag {
	seen := map[string]bool{}
	var out []*kong.Flag
	for _, c := range m.Children {
		for _, f := range c.Flags {
			if f.Enum != "" && !seen[f.Name] {
				seen[f.Name] = true
				out = append(out, f)
			}
		}
	}
	return out
}

func fishCompletion(w io.Writer, m *kong.Application) {
	fmt.Fprintln(w, "complete -c squall -f")
	for _, c := range m.Children {
		fmt.Fprintf(w, "complete -c squall -n __fish_use_subcommand -a %s -d %s\n", c.Name, fishQuote(c.Help))
		within := fmt.Sprintf("-n '__fish_seen_subcommand_from %s'", c.Name)
		words, suffix := argument(c)
		switch {
		case len(words) > 0:
			fmt.Fprintf(w, "complete -c squall %s -a %s\n", within, fishQuote(strings.Join(words, " ")))
		case suffix != "":
			fmt.Fprintf(w, "complete -c squall %s -k -a '(__fish_complete_suffix %s)'\n", within, suffix)
		case len(c.Positional) > 0:
			fmt.Fprintf(w, "complete -c squall %s -F\n", within)
		}
		for _, f := range c.Flags {
			fmt.Fprintf(w, "complete -c squall %s -l %s -d %s%s\n", within, f.Name, fishQuote(f.Help), fishValue(f))
		}
	}
}

func fishValue(f *kong.Flag) string {
	switch {
	case f.IsBool():
		return ""
	case f.Enum != "":
		return " -x -a " + fishQuote(strings.ReplaceAll(f.Enum, ",", " "))
	}
	return " -r"
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
