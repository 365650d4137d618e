package fault

import (
	"fmt"
	"strings"
	"time"
)

// Process is a rule on a service's processes: something is done to them at a time.
type Process struct {
	Service string `json:"service"`
	// Action is what is done: a spec.Action.
	Action string `json:"action"`
	// After is how long after the rule is put in force.
	After time.Duration `json:"after_ns,omitempty"`
	// For is how long a pause lasts; 0 means until the rule is lifted.
	For time.Duration `json:"for_ns,omitempty"`
}

// effect says what the rule does in the words of the spec.
func (p *Process) effect() string {
	name, signal, _ := strings.Cut(p.Action, " ")
	var args []string
	if signal != "" {
		args = append(args, fmt.Sprintf("signal=%q", signal))
	}
	if p.After > 0 {
		args = append(args, fmt.Sprintf("after=%q", p.After))
	}
	if p.For > 0 {
		args = append(args, fmt.Sprintf("duration=%q", p.For))
	}
	return fmt.Sprintf("%s(%s)", name, strings.Join(args, ", "))
}
