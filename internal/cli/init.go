package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/squallhq/squall/internal/cli/scaffold"
)

type initCmd struct {
	Binary   string `arg:"" optional:"" help:"The program to be tested."`
	OpenAPI  string `name:"from-openapi" help:"Write a scenario for each operation of an OpenAPI 3 document." placeholder:"FILE"`
	Compose  string `name:"from-compose" help:"Write the services of a compose file." placeholder:"FILE"`
	Name     string `help:"The service's name; the program's if not given." placeholder:"NAME"`
	Port     int    `help:"Where it listens." default:"8080"`
	Protocol string `help:"What it speaks." enum:"http,tcp" default:"http"`
	Output   string `short:"o" help:"Where to write the specification; NAME.star if not given; - for standard output." placeholder:"FILE"`
	Force    bool   `help:"Overwrite an existing file."`
}

// Run implements the command.
func (c *initCmd) Run(e *env) error {
	name, err := c.name()
	if err != nil {
		return err
	}
	out := c.Output
	if out == "" {
		out = name + ".star"
	}
	text, err := c.spec(name, out)
	if err != nil {
		return err
	}
	if out == "-" {
		fmt.Fprint(e.stdout, text)
		return nil
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(out, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("squall: %s exists already; choose another name with -o, or overwrite it with --force", out)
	}
	if err != nil {
		return fmt.Errorf("squall: write: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("squall: write: %w", err)
	}
	fmt.Fprintf(e.stdout, "%s\nnext: squall check %s, then squall test %s\n", out, out, out)
	return nil
}

// name is the service's or, with a compose file, the system's.
func (c *initCmd) name() (string, error) {
	switch {
	case c.Name != "":
		return scaffold.Name(c.Name), nil
	case c.Binary != "":
		return scaffold.ProgramName(c.Binary), nil
	case c.Compose != "":
		return "system", nil
	case c.OpenAPI != "":
		return "api", nil
	}
	return "", fmt.Errorf("squall: init: name the program to be tested, or give --from-openapi or --from-compose")
}

// spec is the first specification.
func (c *initCmd) spec(name, out string) (string, error) {
	if c.Compose != "" {
		text, err := os.ReadFile(c.Compose)
		if err != nil {
			return "", err
		}
		return scaffold.Compose(text, name)
	}
	s := scaffold.Service{
		Name: name, Binary: c.relative(out), Interfaces: []scaffold.Interface{{Name: "main", Protocol: c.Protocol, Port: c.Port}},
	}
	if c.OpenAPI == "" {
		return scaffold.Program(s), nil
	}
	if s.Binary == "" {
		s.Binary, s.Note = "./bin/"+name, "put the program's path into binary"
	}
	text, err := os.ReadFile(c.OpenAPI)
	if err != nil {
		return "", err
	}
	return scaffold.OpenAPI(text, s)
}

// relative is the program's path as seen from the specification.
func (c *initCmd) relative(out string) string {
	if out == "-" || filepath.IsAbs(c.Binary) || !strings.Contains(c.Binary, "/") {
		return c.Binary
	}
	rel, err := filepath.Rel(filepath.Dir(out), c.Binary)
	if err != nil {
		return c.Binary
	}
	return rel
}
