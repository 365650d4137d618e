package starbind

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/data"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
)

// maxDataSize bounds all files together that load_file and its like have read: they go into the bundle.
const maxDataSize = 64 << 20

// loadingEntries are the builtins that read files.
func loadingEntries() []entry {
	path := param{Name: "path", Kind: bind.String(), Required: true, Doc: "relative to the file that calls, inside the main file's directory; no symbolic link may lead out of it"}
	reader := func(name, doc, example string, decode func([]byte) (any, error)) entry {
		return entry{
			Name: name, Phases: bind.AtLoad, Doc: doc, Example: example, Params: []param{path},
			Do: do(func(c *call) (starlark.Value, error) {
				content, ok := c.loadData(arg[string](c, "path"))
				if !ok {
					return nil, nil
				}
				v, err := decode(content)
				if err != nil {
					c.Errorf(c.Where("path"), "", "%s: %s", arg[string](c, "path"), err)
					return nil, nil
				}
				return value.ToStarlark(v), nil
			}),
		}
	}
	return []entry{
		reader("load_file", "returns what is in a file, as a string. The file goes into the bundle with the spec, and a replay reads it from there. Files have up to 8 MiB.",
			`schema = load_file("schema.sql")`, func(b []byte) (any, error) { return string(b), nil }),
		reader("load_json", "returns what is in a JSON file: dicts, lists, strings, numbers, True, False and None, which do not change. See load_file.",
			`orders = load_json("orders.json")`, data.JSON),
		reader("load_yaml", "returns what is in a YAML file of one document, as load_json does. Dates stay strings. See load_file.",
			`limits = load_yaml("limits.yaml")`, data.YAML),
	}
}

// loadData reads a file for a call and keeps it for the bundle.
func (c *call) loadData(name string) ([]byte, bool) {
	ld := c.env.loader
	rel, err := ld.locate(c.Site.Start().File, name)
	if err == nil && strings.HasPrefix(rel, "@") {
		err = errors.New("only load() reads from the library")
	}
	var content []byte
	if err == nil {
		content, err = ld.read(rel)
	}
	if err == nil {
		err = ld.keepData(rel, content)
	}
	if err != nil {
		c.Errorf(c.Where("path"), "", "%s", err)
	}
	return content, err == nil
}

// keepData notes a file for the bundle.
func (ld *loader) keepData(rel string, content []byte) error {
	total := len(content)
	for _, f := range ld.data {
		if f.Path == rel {
			return nil
		}
		total += len(f.Content)
	}
	if total > maxDataSize {
		return fmt.Errorf("%s: the files read so far have %d bytes together; the limit is %d", rel, total, maxDataSize)
	}
	ld.data = append(ld.data, &source.File{Path: rel, Content: content})
	return nil
}
