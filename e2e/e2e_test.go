// Package e2e tries the whole tool from outside: specifications, the command, what it prints, what
// it leaves behind. The programs under test are personalities of the test binary, see toyd.
package e2e

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/internal/cli"
	"github.com/squallhq/squall/internal/starbind"
)

func TestMain(m *testing.M) {
	loader := suites{starbind.Loader{Protocols: squall.Protocols()}}
	if code, ok := squall.World(loader); ok {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){
		"squall": func() { os.Exit(cli.Main(loader, os.Args[1:])) },
		"toyd":   func() { os.Exit(toyd(os.Args[1:])) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true})
}
