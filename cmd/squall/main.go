// Command squall puts a system through a storm that it can replay. See squall --help.
package main

import (
	"os"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/internal/cli"
	"github.com/squallhq/squall/internal/starbind"
)

func main() {
	os.Exit(cli.Main(starbind.Loader{Protocols: squall.Protocols()}, os.Args[1:]))
}
