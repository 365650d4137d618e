// Package cli is the squall command: flags, exit codes, hints and what a terminal shows.
//
// It decides nothing about systems or verdicts; it calls the root package and
// prints. Exit codes: 0 PASS, 1 FAIL, 2 INCONCLUSIVE or could not run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/internal/report"
	"github.com/squallhq/squall/spec"
)

// env is what commands act on.
type env struct {
	ctx            context.Context
	stdout, stderr io.Writer
	loader         spec.Loader
	// style is that of standard output, errStyle that of standard error: each may be a terminal or not.
	style, errStyle style
}

// exit is the error by which a command chooses its exit code; it prints nothing.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

type commands struct {
	Test       testCmd       `cmd:"" help:"Run a specification and judge it."`
	Plan       planCmd       `cmd:"" help:"Show what would be run. Starts nothing."`
	Check      checkCmd      `cmd:"" help:"Check a specification for errors. Starts nothing."`
	Replay     replayCmd     `cmd:"" help:"Run leaves of a bundle again and compare."`
	Report     reportCmd     `cmd:"" help:"Write the HTML report of a bundle."`
	Diff       diffCmd       `cmd:"" help:"Compare two bundles."`
	Inspect    inspectCmd    `cmd:"" help:"Print what a bundle holds: leaves, events, output, files."`
	Doctor     doctorCmd     `cmd:"" help:"Try what this machine allows, and say what to mend."`
	MCP        mcpCmd        `cmd:"" name:"mcp" help:"Serve an assistant over the Model Context Protocol, on standard input and output."`
	Init       initCmd       `cmd:"" help:"Write a first specification for a program."`
	Completion completionCmd `cmd:"" help:"Print what a shell needs to complete squall's commands and flags."`
	Stubs      stubsCmd      `cmd:"" help:"Print a Python stub file, from which editors complete and check specifications."`

	Version kong.VersionFlag `help:"Print the version."`
}

// Main runs the command with the process's arguments and returns its exit code. In the process of a
// leaf it runs the leaf.
func Main(loader spec.Loader, args []string) int {
	if code, ok := squall.World(loader); ok {
		return code
	}
	// The second Ctrl-C ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	e := &env{ctx: ctx, stdout: os.Stdout, stderr: os.Stderr, loader: loader, style: styleOf(os.Stdout), errStyle: styleOf(os.Stderr)}
	return e.main(args)
}

func newParser(c *commands, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(more,
		kong.Name("squall"),
		kong.Description("Put a system through a storm that it can replay.\n\nExit codes: 0 PASS, 1 FAIL, 2 INCONCLUSIVE or could not run."),
		kong.Vars{"version": "squall " + squall.Version()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)...)
}

func (e *env) main(args []string) (code int) {
	var c commands
	parser, err := newParser(&c, kong.Writers(e.stdout, e.stderr), kong.Exit(func(n int) { panic(exit(n)) }))
	if err != nil {
		fmt.Fprintf(e.stderr, "squall: %v\n", err)
		return 2
	}
	defer func() {
		if r := recover(); r != nil {
			asked, ok := r.(exit)
			if !ok {
				panic(r)
			}
			code = int(asked)
		}
	}()
	k, err := parser.Parse(usual(args))
	if err != nil {
		e.usage(err)
		return 2
	}
	return e.code(k.Run(e))
}

// usual turns what people try first into what it means here.
func usual(args []string) []string {
	if len(args) == 0 {
		return []string{"--help"}
	}
	switch args[0] {
	case "help":
		return append(args[1:len(args):len(args)], "--help")
	case "version":
		return []string{"--version"}
	}
	return args
}

// usage says what is wrong with a command line, and where the right ones are told.
func (e *env) usage(err error) {
	command := "squall"
	var parsing *kong.ParseError
	if errors.As(err, &parsing) && parsing.Context != nil {
		if node := parsing.Context.Selected(); node != nil {
			command += " " + node.Name
		}
	}
	text := err.Error()
	if missing, ok := strings.CutPrefix(text, "expected \"<"); ok && strings.HasSuffix(missing, "\"") {
		text = "missing <" + strings.TrimSuffix(missing, "\"")
	}
	fmt.Fprintf(e.stderr, "%s: %s\nsee: %s --help\n", command, report.Printable(text), command)
}

// code prints an error with its hint and returns the exit code for it.
func (e *env) code(err error) int {
	var asked exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &asked):
		return int(asked)
	}
	e.explain(err)
	return 2
}
