// Package data decodes the files that a specification reads, into what a value can be made of.
package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// JSON reads a file of one value.
func JSON(b []byte) (any, error) {
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

// YAML reads a file of one document. Dates stay strings.
func YAML(b []byte) (any, error) {
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
