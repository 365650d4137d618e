package starbind

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.starlark.net/starlark"
	"go.yaml.in/yaml/v3"

	"github.com/squallhq/squall/internal/starbind/bind"
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
			`orders = load_json("orders.json")`, decodeJSON),
		reader("load_yaml", "returns what is in a YAML file of one document, as load_json does. Dates stay strings. See load_file.",
			`limits = load_yaml("limits.yaml")`, decodeYAML),
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

func decodeJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		at := len(b)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = min(int(syntax.Offset), at)
		}
		return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(b[:at], []byte{'\n'}), err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return v, nil
}

func decodeYAML(b []byte) (any, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, bareYAML(err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	keepText(&doc)
	var v any
	if err := doc.Decode(&v); err != nil {
		return nil, bareYAML(err)
	}
	return plain(v)
}

func bareYAML(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "yaml: ")) }

// keepText makes strings of dates: there is no value for them, and what was written is what is meant.
func keepText(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, inner := range n.Content {
		keepText(inner)
	}
}

// plain makes what value.ToStarlark takes of what YAML has: keys are strings, whole numbers fit.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			got, err := plain(item)
			if err != nil {
				return nil, err
			}
			v[i] = got
		}
		return v, nil
	case map[string]any:
		for k, item := range v {
			got, err := plain(item)
			if err != nil {
				return nil, err
			}
			v[k] = got
		}
		return v, nil
	case map[any]any:
		out := map[string]any{}
		for k, item := range v {
			got, err := plain(item)
			if err != nil {
				return nil, err
			}
			out[fmt.Sprint(k)] = got
		}
		return out, nil
	case uint64:
		return nil, fmt.Errorf("the integer %d is too large", v)
	}
	return v, nil
}
