// Package library has the files that a spec loads as "@squall/...".
package library

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// Prefix begins the names of the library's files.
const Prefix = "@squall/"

//go:embed *.star
var files embed.FS

// Read returns a file of the library by its whole name, "@squall/expect.star".
func Read(name string) ([]byte, error) {
	content, err := files.ReadFile(strings.TrimPrefix(name, Prefix))
	if err != nil {
		return nil, fmt.Errorf("there is no %s; there are %s", name, strings.Join(Names(), ", "))
	}
	return content, nil
}

// Names lists the library's files by their whole names.
func Names() []string {
	list, _ := fs.Glob(files, "*.star") // of a good pattern there is no error
	for i, name := range list {
		list[i] = Prefix + name
	}
	return list
}
