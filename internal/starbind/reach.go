package starbind

import (
	"go.starlark.net/starlark"

	"github.com/squallhq/squall/spec"
)

func (ld *loader) reachOf(fn starlark.Callable) []spec.Scope {
	return []spec.Scope{{Everything: true}}
}

func (ld *loader) lint() {}
