package starbind

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
)

// maxPartial bounds how many bytes a call is cut to.
const maxPartial = 16 << 20

// partialEntry is the builtin for calls that come up short.
func partialEntry() entry {
	params := syscallParams()
	for i := range params {
		doc := strings.ReplaceAll(params[i].Doc, "matching calls", "calls of more bytes")
		params[i].Doc = strings.ReplaceAll(doc, "matching call", "call of more bytes")
	}
	return entry{
		Name: "partial", Phases: bind.AtLoad | bind.InBody, Pure: true,
		Doc: "makes reads and writes come up short: a call that would move more bytes moves so many, and returns that. It stands behind the keyword that says which calls. " +
			"A call that would move no more anyway is no match.",
		Example: `short_writes = fault_assumption("short_writes", target = db, write = partial(10, path = "/data/**"))`,
		Params:  append([]param{{Name: "bytes", Kind: bind.Int(1, maxPartial), Required: true, Doc: "how many bytes a call moves"}}, params...),
		Do:      do(func(c *call) (starlark.Value, error) { return effectOf(c), nil }),
	}
}

// holdEntry is the builtin for what waits until it is let go.
func holdEntry(ld *loader) entry {
	return entry{
		Name: "hold", Phases: bind.AtLoad | bind.InBody, Pure: true, Acts: bind.OnMessages,
		Doc: "holds system calls, or as a rule for an interface requests and what comes behind them on their connections, until release() lets them go or the fault ends. " +
			"Behind a keyword it stands for the calls that this says.",
		Example: `h = fault_start(db, fsync = hold(nth = 2))`,
		Params:  delayParams(),
		Rest:    matchKeywords(ld, "path"),
		Do:      do(func(c *call) (starlark.Value, error) { return effectOf(c), nil }),
	}
}

// releaseEntry is the builtin that lets go what is held.
func releaseEntry() entry {
	return entry{
		Name: "release", Phases: bind.InBody,
		Doc:     "lets go what the hold() rules of a fault hold, calls and requests, and returns how many that were. The rules stay in force: what comes next is held again.",
		Example: `release(h)`,
		Params:  []param{{Name: "fault", Kind: aStarted(), Required: true, Doc: "the result of fault_start"}},
		Do: do(func(c *call) (starlark.Value, error) {
			n, err := arg[*active](c, "fault").rules.LetGo()
			if err != nil {
				return nil, c.worldly(err)
			}
			return starlark.MakeInt(n), nil
		}),
	}
}

func aStarted() kind {
	return bind.Scalar("a result of fault_start", func(v starlark.Value) (any, bool) {
		a, ok := v.(*active)
		return a, ok
	})
}

// canBePartial keeps of a rule's calls those that can come up short, and reports the keyword where there is none.
func (c *call) canBePartial(kw bind.Keyword, s *fault.Syscall) bool {
	var can []string
	for _, name := range s.Calls {
		if slices.Contains(fault.Partials(), name) {
			can = append(can, name)
		}
	}
	s.Calls = can
	if len(can) == 0 {
		c.Errorf(kw.At, "", "%s moves no bytes that partial() could cut short; it acts on %s", kw.Name, strings.Join(fault.Partials(), ", "))
	}
	return len(can) > 0
}
