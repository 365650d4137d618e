package starbind

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
	"github.com/squallhq/squall/internal/starbind/value"
)

// Diagnostic is one thing that is wrong with a spec, and where.
type Diagnostic = source.Diagnostic

// Errors is everything that is wrong with a spec; there is at least one.
type Errors = source.Errors

// ScriptError is an error in the code of a spec while a body or property runs.
type ScriptError = source.ScriptError

// The words of the tables.
type (
	entry  = bind.Entry
	param  = bind.Param
	rest   = bind.Rest
	kind   = bind.Kind
	opaque = value.Opaque
)

// call is a call of a builtin with what this package finds around it.
type call struct {
	*bind.Call
	env *env
}

func named(kind, text string) opaque { return opaque{Kind: kind, Text: text} }

func with(c *bind.Call) *call {
	e, _ := c.Host.(*env)
	return &call{c, e}
}

// do makes a handler.
func do(fn func(c *call) (starlark.Value, error)) func(*bind.Call) (starlark.Value, error) {
	return func(c *bind.Call) (starlark.Value, error) { return fn(with(c)) }
}

// kindOf makes a kind of a conversion that needs the call.
func kindOf(name string, fn func(c *call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool)) kind {
	return kind{Name: name, Convert: func(c *bind.Call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		return fn(with(c), v, at, e)
	}}
}

// arg returns a bound argument, or the zero value.
func arg[T any](c *call, name string) T { return bind.Arg[T](c.Call, name) }

// argList returns the elements of a bound list.
func argList[T any](c *call, name string) []T { return bind.ArgList[T](c.Call, name) }
