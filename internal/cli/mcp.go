package cli

import (
	"os"
	"strings"

	"github.com/squallhq/squall/internal/cli/mcp"
)

type mcpCmd struct{}

// Run implements the command.
func (mcpCmd) Run(e *env) error {
	s := mcp.Server{Loader: e.loader, Explain: func(err error) string {
		var b strings.Builder
		explain(&b, style{}, err)
		return strings.TrimRight(b.String(), "\n")
	}}
	return s.Serve(e.ctx, os.Stdin, os.Stdout)
}
