package bundle

import "github.com/squallhq/squall/property"

// Assurance is what the verdict of a leaf is worth.
type Assurance struct {
	// Level is the determinism achieved, such as L1; LevelReason says why not more.
	Level       string `json:"level,omitempty"`
	LevelReason string `json:"level_reason,omitempty"`
	// LevelAsked tells that the specification asks for a level.
	LevelAsked bool `json:"level_asked,omitempty"`
	// Leaks are what services did that the level does not hold.
	Leaks []Leak `json:"leaks,omitempty"`
	// Controls tell of each check that holds where nothing happens whether it could see anything.
	Controls []Control `json:"controls,omitempty"`
	// Shapes are the sorts of events of a leaf without a fault, for the controls of the others.
	Shapes []Shape `json:"shapes,omitempty"`
}

// Leak is a source of chance that a service used.
type Leak struct {
	Service string `json:"service"`
	// Category is clock, rand, dns, network or children.
	Category string `json:"category"`
	Count    int64  `json:"count"`
	// First is the first use in words, Witness its event.
	First   string `json:"first"`
	Witness int64  `json:"witness"`
}

// Like is what a check looks at in events.
type Like = property.Like

// Control tells of a check that holds where nothing happens, such as a monitor, whether events came that have
// what it looks at.
type Control struct {
	Name     string `json:"name"`
	Position string `json:"position,omitempty"`
	Like     *Like  `json:"like,omitempty"`
	Seen     bool   `json:"seen"`
	// Elsewhere is set in a leaf without a fault for a check that belongs to other leaves of the scenario.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Shape is a sort of event: all with one type, one service and the same fields.
type Shape struct {
	Kind    string   `json:"kind"`
	Service string   `json:"service"`
	Fields  []string `json:"fields,omitempty"`
}
