// Package calls has the kinds of arguments that name system calls and what they look at.
package calls

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/source"
)

// Call is the name of a system call or of a family of them.
func Call() bind.Kind {
	return bind.Kind{Name: "the name of a system call or of a family", Convert: func(c *bind.Call, v starlark.Value, at source.Span, _ syntax.Expr) (any, bool) {
		name, ok := starlark.AsString(v)
		if !ok {
			return nil, false
		}
		if _, known := fault.FamilyOf(name); !known {
			c.Errorf(at, source.Nearest(name, Names()), "unknown system call %q", name)
			return nil, false
		}
		return name, true
	}}
}

// Descriptor is a kind of descriptor, or a list of them.
func Descriptor() bind.Kind {
	words := []string{string(fault.File), string(fault.Socket), string(fault.Pipe), string(fault.TTY), string(fault.Other)}
	one := bind.Choice(append(words, "any")...)
	return bind.Kind{Name: "a kind of descriptor", Convert: func(c *bind.Call, v starlark.Value, at source.Span, e syntax.Expr) (any, bool) {
		if _, single := starlark.AsString(v); single {
			got, ok := c.Convert(one, "on", v, e)
			return []any{got}, ok
		}
		return bind.List(one).Convert(c, v, at, e)
	}}
}

// Glob is a glob over the absolute paths of files.
func Glob() bind.Kind {
	return bind.Parsed("a glob", func(v starlark.Value) (any, error) {
		s, ok := starlark.AsString(v)
		if !ok {
			return nil, nil
		}
		return s, CheckGlob(s)
	})
}

// CheckGlob says what is wrong with a glob over files.
func CheckGlob(s string) error {
	if !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "**") {
		return fmt.Errorf("path %q can't match: paths are absolute; begin it with / or **/", s)
	}
	if _, err := path.Match(strings.ReplaceAll(s, "**", "*"), "/"); err != nil {
		return fmt.Errorf("path %q is not a glob: %v", s, err)
	}
	return nil
}

// Names are the families and the calls that may be named.
func Names() []string {
	var names []string
	for _, f := range fault.Families() {
		names = append(names, f.Name)
		names = append(names, f.Calls...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
