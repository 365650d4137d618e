package oracle

import (
	"slices"

	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/internal/starbind/value"
	"github.com/squallhq/squall/property"
)

// Hooks are the properties that something carries: a scenario, an assumption, a matrix.
type Hooks struct {
	monitors []*Monitor
	temporal []*Temporal
}

// HooksOf collects the properties that a call scopes to what it declares, so that they do not hold everywhere.
func HooksOf(c *bind.Call) Hooks {
	h := Hooks{
		monitors: bind.ArgList[*Monitor](c, "monitors"), temporal: bind.ArgList[*Temporal](c, "properties"),
	}
	for _, m := range h.monitors {
		m.used = true
	}
	for _, t := range h.temporal {
		t.used = true
	}
	return h
}

// Add adds the properties that something else carries.
func (h *Hooks) Add(more Hooks) {
	h.monitors = append(h.monitors, more.monitors...)
	h.temporal = append(h.temporal, more.temporal...)
}

// AddTemporal adds a property that has no declaration of its own.
func (h *Hooks) AddTemporal(t *property.Temporal) {
	h.temporal = append(h.temporal, &Temporal{Opaque: value.Named(string(t.Kind), t.Name), decl: t, used: true})
}

// Settle returns each property once.
func (h Hooks) Settle() (monitors []*property.Monitor, temporal []*property.Temporal) {
	for _, m := range h.monitors {
		if !slices.Contains(monitors, m.decl) {
			monitors = append(monitors, m.decl)
		}
	}
	for _, t := range h.temporal {
		if !slices.Contains(temporal, t.decl) {
			temporal = append(temporal, t.decl)
		}
	}
	return monitors, temporal
}
