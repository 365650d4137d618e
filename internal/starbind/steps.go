package starbind

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// methodEntries are the steps that can be taken against an interface: one for each method of its
// protocol.
func methodEntries(info protocol.Info, i *iface) []*entry {
	var list []*entry
	for _, m := range info.Methods {
		e := &entry{
			name: i.decl.Service + "." + i.decl.Name + "." + m.Name, doc: m.Doc, phases: inBody,
			do: func(c *call) (starlark.Value, error) { return takeStep(c, i, m) },
		}
		own := false
		for _, p := range m.Params {
			e.params = append(e.params, param{name: p.Name, kind: stepKind(p.Type), required: p.Required, doc: p.Doc})
			own = own || p.Name == "timeout"
		}
		if !own {
			e.params = append(e.params, param{name: "timeout", kind: aDuration(), doc: "how long the step may take"})
		}
		list = append(list, e)
	}
	return list
}

// stepKind is the kind for a type of protocol.Param; it converts to a JSON value.
func stepKind(t string) kind {
	switch t {
	case "int":
		return kind{"an integer", func(c *call, v starlark.Value, at span, e syntax.Expr) (any, bool) {
			got, ok := anInt(math.MinInt32, math.MaxInt32).convert(c, v, at, e)
			if i, isInt := got.(int); isInt {
				return int64(i), ok
			}
			return got, ok
		}}
	case "bytes":
		return parsed("a string, or a dict or list to be sent as JSON", func(v starlark.Value) (any, error) {
			switch v := v.(type) {
			case starlark.String:
				return string(v), nil
			case starlark.Bytes:
				return string(v), nil
			case *starlark.Dict, *starlark.List:
				got, err := fromStarlark(v)
				if err != nil {
					return nil, err
				}
				text, err := json.Marshal(got)
				return string(text), err
			}
			return nil, nil
		})
	case "map":
		return kind{"a dict of strings", func(c *call, v starlark.Value, at span, e syntax.Expr) (any, bool) {
			got, ok := aStringDict().convert(c, v, at, e)
			m := map[string]any{}
			if ok {
				for k, s := range got.(map[string]string) {
					m[k] = s
				}
			}
			return m, ok
		}}
	}
	return aString()
}

func takeStep(c *call, i *iface, m protocol.Method) (starlark.Value, error) {
	op := spec.Operation{Method: m.Name, Args: map[string]any{}, Position: c.site.start().String()}
	for _, p := range m.Params {
		if v, ok := c.args[p.Name]; ok {
			op.Args[p.Name] = v
		}
	}
	if d, ok := c.args["timeout"].(time.Duration); ok {
		op.Timeout = d
		delete(op.Args, "timeout")
	}
	r, err := c.env.world.Call(c.env.ctx, i.target(), op)
	if err != nil {
		return nil, c.worldly(fmt.Errorf("%s: %w", i.target(), err))
	}
	return newResponse(r), nil
}
