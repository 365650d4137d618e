package plan

import (
	"slices"

	"github.com/squallhq/squall/property"
)

// onlyElsewhere returns the monitors of a scenario's leaves that the first of them does not have.
func onlyElsewhere(row []*Leaf) []*property.Monitor {
	var out []*property.Monitor
	for _, l := range row[1:] {
		for _, m := range l.Monitors {
			if !slices.Contains(row[0].Monitors, m) && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}
