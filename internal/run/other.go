//go:build !linux

package run

import "github.com/squallhq/squall/spec"

// Inside reports that this process is no world's.
func Inside(spec.Loader) (code int, ok bool) { return 0, false }
