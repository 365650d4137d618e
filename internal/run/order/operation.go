package order

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/spec"
)

// StepText writes a step on one short line.
func StepText(t spec.Target, op spec.Operation) string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(op.Args)) {
		args = append(args, fmt.Sprint(op.Args[name]))
	}
	text := []rune(strings.Join(strings.Fields(strings.Join(args, ", ")), " "))
	if len(text) > 40 {
		text = append(text[:39], '…')
	}
	return fmt.Sprintf("%s.%s(%s)", t, op.Method, string(text))
}

// Rules is the begin or the end of rules as an operation.
func Rules(verb string, rules []fault.Rule) Operation {
	op := Operation{Touches: map[string]bool{}}
	for i, r := range rules {
		if i > 0 {
			op.What += ", "
		}
		op.What += r.ID
		ends := []string{""}
		switch {
		case r.Syscall != nil:
			ends = []string{r.Syscall.Service}
		case r.Link != nil:
			ends = []string{r.Link.Pair.A, r.Link.Pair.B}
		case r.Message != nil:
			ends = []string{r.Message.Pair.A, r.Message.Pair.B}
		case r.Process != nil:
			ends = []string{r.Process.Service}
		}
		for _, name := range ends {
			op.Touches[name] = true
			op.All = op.All || name == ""
		}
	}
	op.What += " " + verb
	return op
}
