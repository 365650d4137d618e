package scaffold

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is what counts of an OpenAPI 3 document.
type document struct {
	OpenAPI string `yaml:"openapi"`
	Swagger string `yaml:"swagger"`
	Info    struct {
		Title string `yaml:"title"`
	} `yaml:"info"`
	Paths      map[string]map[string]yaml.Node `yaml:"paths"`
	Components struct {
		Schemas map[string]schema `yaml:"schemas"`
	} `yaml:"components"`
}

type operation struct {
	ID         string      `yaml:"operationId"`
	Summary    string      `yaml:"summary"`
	Parameters []parameter `yaml:"parameters"`
	Body       struct {
		Content map[string]struct {
			Example  any                            `yaml:"example"`
			Examples map[string]struct{ Value any } `yaml:"examples"`
			Schema   schema                         `yaml:"schema"`
		} `yaml:"content"`
	} `yaml:"requestBody"`
}

type parameter struct {
	Name     string `yaml:"name"`
	In       string `yaml:"in"`
	Required bool   `yaml:"required"`
	Example  any    `yaml:"example"`
	Schema   schema `yaml:"schema"`
}

type schema struct {
	Ref        string            `yaml:"$ref"`
	Type       any               `yaml:"type"`
	Example    any               `yaml:"example"`
	Default    any               `yaml:"default"`
	Enum       []any             `yaml:"enum"`
	Items      *schema           `yaml:"items"`
	Properties map[string]schema `yaml:"properties"`
	Required   []string          `yaml:"required"`
	AllOf      []schema          `yaml:"allOf"`
}

// OpenAPI returns the specification for a program that offers what an OpenAPI 3 document says: a scenario for each operation.
func OpenAPI(text []byte, s Service) (string, error) {
	var d document
	if err := yaml.Unmarshal(text, &d); err != nil {
		return "", fmt.Errorf("scaffold: not an OpenAPI document: %w", err)
	}
	if !strings.HasPrefix(d.OpenAPI, "3.") {
		return "", fmt.Errorf("scaffold: OpenAPI 3 is needed, this document says openapi %q, swagger %q", d.OpenAPI, d.Swagger)
	}
	var scenarios []Scenario
	used := map[string]bool{s.Name: true}
	for _, path := range sorted(d.Paths) {
		for _, method := range []string{"get", "head", "post", "put", "patch", "delete"} {
			node, ok := d.Paths[path][method]
			if !ok {
				continue
			}
			var op operation
			if err := node.Decode(&op); err != nil {
				return "", fmt.Errorf("scaffold: %s %s: %w", method, path, err)
			}
			if shared, ok := d.Paths[path]["parameters"]; ok {
				var more []parameter
				if err := shared.Decode(&more); err != nil {
					return "", fmt.Errorf("scaffold: parameters of %s: %w", path, err)
				}
				op.Parameters = append(op.Parameters, more...)
			}
			scenarios = append(scenarios, d.scenario(s, method, path, op, used))
		}
	}
	if len(scenarios) == 0 {
		return "", fmt.Errorf("scaffold: the document has no operation")
	}
	if get, ok := d.Paths["/health"]["get"]; ok && get.Kind != 0 {
		s.Health = "/health"
	}
	return Write(s.Name, []Service{s}, scenarios), nil
}

func (d document) scenario(s Service, method, path string, op operation, used map[string]bool) Scenario {
	name := op.ID
	if name == "" {
		name = method + path
	}
	name = strings.Trim(strings.ReplaceAll(Name(snake(name)), "__", "_"), "_")
	for used[name] {
		name += "_"
	}
	used[name] = true
	args := []string{"path = " + quote(d.fill(path, op))}
	for _, kind := range sorted(op.Body.Content) {
		if !strings.Contains(kind, "json") {
			continue
		}
		c := op.Body.Content[kind]
		body := c.Example
		for _, n := range sorted(c.Examples) {
			if body == nil {
				body = c.Examples[n].Value
			}
		}
		if body == nil {
			body = d.example(c.Schema, 0)
		}
		if out, err := json.Marshal(body); err == nil {
			args = append(args, "body = "+quote(string(out)))
		}
		break
	}
	return Scenario{
		Name: name, Doc: orElse(op.Summary, strings.ToUpper(method)+" "+path),
		Step:   fmt.Sprintf("%s.%s.%s(%s)", s.Name, s.Interfaces[0].Name, method, strings.Join(args, ", ")),
		Expect: "assert_true(r.status < 500)",
	}
}

// fill puts values into a path's parameters and adds the required ones of the query.
func (d document) fill(path string, op operation) string {
	var query []string
	for _, p := range op.Parameters {
		value := p.Example
		if value == nil {
			value = d.example(p.Schema, 0)
		}
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", fmt.Sprint(value))
		case p.In == "query" && p.Required:
			query = append(query, p.Name+"="+fmt.Sprint(value))
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return path
}

// deepest bounds schemas that contain themselves.
const deepest = 4

// example makes a value that a schema allows.
func (d document) example(s schema, depth int) any {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		if depth >= deepest {
			return nil
		}
		return d.example(d.Components.Schemas[name], depth+1)
	}
	switch {
	case s.Example != nil:
		return s.Example
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	if len(s.AllOf) > 0 || len(s.Properties) > 0 {
		return d.object(s, depth)
	}
	switch fmt.Sprint(s.Type) {
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		if s.Items != nil && depth < deepest {
			return []any{d.example(*s.Items, depth+1)}
		}
		return []any{}
	case "object":
		return map[string]any{}
	}
	return "example"
}

// object has the required members, or all where none is required.
func (d document) object(s schema, depth int) map[string]any {
	out := map[string]any{}
	if depth >= deepest {
		return out
	}
	for _, part := range s.AllOf {
		if m, ok := d.example(part, depth+1).(map[string]any); ok {
			for k, v := range m {
				out[k] = v
			}
		}
	}
	for name, p := range s.Properties {
		if len(s.Required) == 0 || slices.Contains(s.Required, name) {
			out[name] = d.example(p, depth+1)
		}
	}
	return out
}

// snake makes get_order_by_id of GetOrderByID.
func snake(s string) string {
	var b strings.Builder
	runes := []rune(s)
	upper := func(i int) bool { return i >= 0 && i < len(runes) && runes[i] >= 'A' && runes[i] <= 'Z' }
	for i, r := range runes {
		starts := upper(i) && i > 0 && runes[i-1] != '_' && (!upper(i-1) || i+1 < len(runes) && !upper(i+1) && runes[i+1] >= 'a')
		if starts {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
