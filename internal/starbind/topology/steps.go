package topology

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// methodEntries are the steps that can be taken against an interface: one for each method of its
// protocol.
func methodEntries(info protocol.Info, i *Interface) []*bind.Entry {
	var list []*bind.Entry
	for _, m := range info.Methods {
		e := &bind.Entry{
			Name: i.Decl.Service + "." + i.Decl.Name + "." + m.Name, Doc: m.Doc, Phases: bind.InBody,
			Do: do(func(c *call) (starlark.Value, error) { return takeStep(c, i, m) }),
		}
		own := false
		for _, p := range m.Params {
			e.Params = append(e.Params, bind.Param{Name: p.Name, Kind: stepKind(p.Type), Required: p.Required, Doc: p.Doc})
			own = own || p.Name == "timeout"
		}
		if !own {
			e.Params = append(e.Params, bind.Param{Name: "timeout", Kind: bind.Duration(), Doc: "how long the step may take"})
		}
		list = append(list, e)
	}
	return list
}

// stepKind is the kind for a type of protocol.Param; it converts to a JSON value.
func stepKind(t string) bind.Kind {
	switch t {
	case "int":
		return kindOf("an integer", func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
			got, ok := bind.Int(math.MinInt32, math.MaxInt32).Convert(c.Call, v, at, e)
			if i, isInt := got.(int); isInt {
				return int64(i), ok
			}
			return got, ok
		})
	case "bytes":
		return bind.Parsed("a string, or a dict or list to be sent as JSON", func(v starlark.Value) (any, error) {
			switch v := v.(type) {
			case starlark.String:
				return string(v), nil
			case starlark.Bytes:
				return string(v), nil
			case *starlark.Dict, *starlark.List:
				got, err := value.FromStarlark(v)
				if err != nil {
					return nil, err
				}
				text, err := json.Marshal(got)
				return string(text), err
			}
			return nil, nil
		})
	case "map":
		return kindOf("a dict of strings", func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
			got, ok := bind.StringDict().Convert(c.Call, v, at, e)
			m := map[string]any{}
			if ok {
				for k, s := range got.(map[string]string) {
					m[k] = s
				}
			}
			return m, ok
		})
	}
	return bind.String()
}

func takeStep(c *call, i *Interface, m protocol.Method) (starlark.Value, error) {
	op := spec.Operation{Method: m.Name, Args: map[string]any{}, Position: c.Site.Start().String()}
	for _, p := range m.Params {
		if v, ok := c.Args[p.Name]; ok {
			op.Args[p.Name] = v
		}
	}
	if d, ok := c.Args["timeout"].(time.Duration); ok {
		op.Timeout = d
		delete(op.Args, "timeout")
	}
	r, err := c.scope.World().Call(c.scope.Context(), i.target(), op)
	if err != nil {
		return nil, c.Worldly(fmt.Errorf("%s: %w", i.target(), err))
	}
	return value.NewResponse(r), nil
}
