package run

import (
	"maps"
	"slices"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/check"
)

// controls says of each check that holds where nothing happens whether it could see anything. A leaf without
// a fault says so for the monitors of the others too, and which sorts of events it had.
func (l *leaf) controls() (shapes []bundle.Shape, out []bundle.Control) {
	events := l.log.All()
	out = l.judge.props.Controls()
	for _, key := range slices.Sorted(maps.Keys(l.judge.watched)) {
		c := l.judge.watched[key]
		c.Seen = slices.ContainsFunc(events, c.Like.FitsEvent)
		out = append(out, c)
	}
	if l.plan.Assumption != nil {
		return nil, out
	}
	others := check.New(check.Properties{Monitors: l.plan.Elsewhere})
	others.Feed(events...)
	for _, c := range others.Controls() {
		c.Elsewhere = true
		out = append(out, c)
	}
	return check.Shapes(events), out
}
