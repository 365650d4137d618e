package property

import (
	"slices"

	"github.com/squallhq/squall/event"
)

// Like chooses the events that have what a matcher looks at, whatever the values: its type, its service and
// its fields. Where there was no such event, a matcher that found nothing may be misspelt as well as right.
type Like struct {
	// Kind and Service are globs; "" fits any.
	Kind    string `json:"kind,omitempty"`
	Service string `json:"service,omitempty"`
	// Fields are names, or ways through objects, of what must be there.
	Fields []string `json:"fields,omitempty"`
	// Any and All combine others; with one of them the rest is not looked at.
	Any []Like `json:"any,omitempty"`
	All []Like `json:"all,omitempty"`
}

// Fits reports whether an event, or a sort of event, has what is looked at.
func (l Like) Fits(kind event.Kind, service string, has func(field string) bool) bool {
	fits := func(o Like) bool { return o.Fits(kind, service, has) }
	unfit := func(o Like) bool { return !fits(o) }
	switch {
	case len(l.Any) > 0:
		return slices.ContainsFunc(l.Any, fits)
	case len(l.All) > 0:
		return !slices.ContainsFunc(l.All, unfit)
	case l.Kind != "" && !event.Glob(l.Kind, string(kind)), l.Service != "" && !event.Glob(l.Service, service):
		return false
	}
	return !slices.ContainsFunc(l.Fields, func(name string) bool { return !has(name) })
}

// FitsEvent is Fits for an event.
func (l Like) FitsEvent(e event.Event) bool {
	return l.Fits(e.Kind, e.Service, func(field string) bool { return e.Field(field) != nil })
}
