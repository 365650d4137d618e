package bundle

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

var update = flag.Bool("update", false, "rewrite generated files")

const schemaDir = "../docs/reference/schema"

// schemas makes the published JSON schemas from the Go types and their comments.
func schemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	docs := comments(t, "types.go", "assurance.go", "diff.go", "../verdict/verdict.go", "../verdict/codes.go", "../event/event.go", "../property/like.go")
	out := map[string]map[string]any{}
	for name, v := range map[string]any{
		"manifest": Manifest{}, "plan": Plan{}, "verdicts": Verdicts{}, "replay": Replay{}, "event": event.Event{}, "diff": Difference{},
	} {
		g := &generator{docs: docs, defs: map[string]any{}}
		root := g.object(reflect.TypeOf(v))
		root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		root["$id"] = "squall." + name + "/1"
		root["title"] = "squall " + name + ", version 1"
		if _, ok := root["properties"].(map[string]any)["schema"]; ok {
			root["properties"].(map[string]any)["schema"] = map[string]any{"type": "string", "pattern": `^squall\.` + name + `/1(\.[0-9]+)?$`}
		}
		if name == "event" {
			eventKinds(root)
		}
		if len(g.defs) > 0 {
			root["$defs"] = g.defs
		}
		out[name] = root
	}
	return out
}

// eventKinds says, for each kind, which fields it has. Programs add fields of their own.
func eventKinds(root map[string]any) {
	var kinds []any
	var rules []any
	for _, row := range event.Schema() {
		kinds = append(kinds, string(row.Kind))
		props := map[string]any{}
		for _, f := range row.Fields {
			typ := map[string]string{"string": "string", "int": "integer", "bool": "boolean", "object": "object"}[f.Type]
			props[f.Name] = map[string]any{"type": typ, "description": f.Doc}
		}
		if row.Kind == event.Stdout || row.Kind == event.Stderr {
			// A program may print a member of the same name and of any type.
			props = map[string]any{"line": map[string]any{"description": row.Fields[0].Doc}}
		}
		rules = append(rules, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"kind": map[string]any{"const": string(row.Kind)}}},
			"then": map[string]any{"description": row.Doc, "properties": map[string]any{"fields": map[string]any{"type": "object", "properties": props}}},
		})
	}
	root["properties"].(map[string]any)["kind"] = map[string]any{"type": "string", "enum": kinds}
	root["allOf"] = rules
}

type generator struct {
	docs map[string]string
	defs map[string]any
}

func (g *generator) object(t reflect.Type) map[string]any {
	props, required := map[string]any{}, []any{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			inner := g.object(f.Type)
			maps.Copy(props, inner["properties"].(map[string]any))
			if names, ok := inner["required"].([]any); ok {
				required = append(required, names...)
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := g.schema(f.Type)
		if doc := g.docs[t.Name()+"."+f.Name]; doc != "" {
			s["description"] = doc
		}
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
			// A nil slice or map is null.
			if k := f.Type.Kind(); k == reflect.Slice || k == reflect.Map {
				s["type"] = []any{s["type"], "null"}
			}
		}
		props[name] = s
	}
	out := map[string]any{"type": "object", "properties": props}
	if len(required) > 0 {
		out["required"] = required
	}
	if doc := g.docs[t.Name()]; doc != "" {
		out["description"] = doc
	}
	return out
}

func (g *generator) schema(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[verdict.Outcome]():
		return map[string]any{"type": "string", "enum": []any{"PASS", "FAIL", "INCONCLUSIVE"}}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.schema(t.Elem())}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Pointer:
		return g.schema(t.Elem())
	case reflect.Struct:
		if _, ok := g.defs[t.Name()]; !ok {
			g.defs[t.Name()] = nil
			g.defs[t.Name()] = g.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	}
	panic("no schema for " + t.String())
}

// comments returns the doc comments of types ("Leaf") and fields ("Leaf.ID").
func comments(t *testing.T, files ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	put := func(key string, group *ast.CommentGroup) {
		if text := strings.Join(strings.Fields(group.Text()), " "); text != "" {
			out[key] = text
		}
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				ts := spec.(*ast.TypeSpec)
				put(ts.Name.Name, gen.Doc)
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range st.Fields.List {
					for _, n := range f.Names {
						put(ts.Name.Name+"."+n.Name, f.Doc)
					}
				}
			}
		}
	}
	return out
}

func TestPublishedSchemasAreCurrent(t *testing.T) {
	for name, s := range schemas(t) {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(schemaDir, name+".json")
		if *update {
			if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, out.Bytes()) {
			t.Errorf("%s is not what the types say (%v); run: go test ./bundle -update", path, err)
		}
	}
}

// The golden bundle was written by the first version and must stay readable, and what is in it must
// be what the published schemas say.
func TestGoldenBundleStaysReadable(t *testing.T) {
	r, err := Open(filepath.Join("testdata", "v1.squall"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if s := r.Manifest().Summary; s.Pass != 10 || s.Fail != 1 || s.Inconclusive != 1 {
		t.Errorf("summary %+v", s)
	}
	all := published(t)
	check := func(what, name string, b []byte) {
		t.Helper()
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		for _, p := range validate(all[name], all[name], v, what) {
			t.Error(p)
		}
	}
	for _, name := range []string{"manifest", "plan", "verdicts", "replay"} {
		b, err := r.read(r.members[name+".json"], 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		check(name, name, b)
	}
	n := 0
	for _, leaf := range r.Verdicts().Leaves {
		events, err := r.Events(leaf.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			check(fmt.Sprintf("event %d of %s", e.Seq, leaf.ID), "event", b)
			n++
		}
	}
	if n < 200 {
		t.Errorf("only %d events", n)
	}
}

func published(t *testing.T) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	files, err := filepath.Glob(filepath.Join(schemaDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var s map[string]any
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".json")] = s
	}
	return out
}

// validate checks a value against the part of JSON Schema that the published ones use.
func validate(root, s map[string]any, v any, at string) []string {
	if ref, ok := s["$ref"].(string); ok {
		s = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	var problems []string
	if !typed(s["type"], v) {
		return []string{fmt.Sprintf("%s: %v is not of type %v", at, v, s["type"])}
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		problems = append(problems, fmt.Sprintf("%s: %v is not one of %v", at, v, enum))
	}
	if c, ok := s["const"]; ok && c != v {
		problems = append(problems, fmt.Sprintf("%s: %v is not %v", at, v, c))
	}
	for _, rule := range list(s["allOf"]) {
		rule := rule.(map[string]any)
		if len(validate(root, rule["if"].(map[string]any), v, at)) == 0 {
			problems = append(problems, validate(root, rule["then"].(map[string]any), v, at)...)
		}
	}
	switch v := v.(type) {
	case []any:
		if items, ok := s["items"].(map[string]any); ok {
			for i, x := range v {
				problems = append(problems, validate(root, items, x, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case map[string]any:
		for _, name := range list(s["required"]) {
			if _, ok := v[name.(string)]; !ok {
				problems = append(problems, fmt.Sprintf("%s: no %s", at, name))
			}
		}
		props, _ := s["properties"].(map[string]any)
		rest, _ := s["additionalProperties"].(map[string]any)
		for name, x := range v {
			if p, ok := props[name].(map[string]any); ok {
				problems = append(problems, validate(root, p, x, at+"."+name)...)
			} else if rest != nil {
				problems = append(problems, validate(root, rest, x, at+"."+name)...)
			}
		}
	}
	return problems
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func typed(want, v any) bool {
	for _, w := range list(want) {
		if typed(w, v) {
			return true
		}
	}
	switch want {
	case nil:
		return true
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "integer":
		f, ok := v.(float64)
		return ok && f == float64(int64(f))
	case "null":
		return v == nil
	}
	return false
}

func TestValidatorFindsFaults(t *testing.T) {
	s := published(t)["verdicts"]
	for _, bad := range []string{
		`[]`, `{"schema":"squall.verdicts/1"}`, `{"schema":"x","leaves":[{"id":3}]}`,
		`{"schema":"x","leaves":[{"id":"a","scenario":"s","assumption":"n","seed":1,"duration_ns":1,"events":1,"verdict":{"outcome":"GREAT"}}]}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(bad), &v); err != nil {
			t.Fatal(err)
		}
		if len(validate(s, s, v, "x")) == 0 {
			t.Errorf("taken: %s", bad)
		}
	}
}
