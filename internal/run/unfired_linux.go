package run

import (
	"fmt"
	"strings"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/fault"
)

// whyNoMessage says what passed instead of the requests that a rule waits for.
func (l *leaf) whyNoMessage(r fault.Rule) string {
	seen, failed := l.system.messages.Seen(r.ID)
	m := r.Message
	switch {
	case failed != "":
		return fmt.Sprintf("%s matched, but %s", count(seen.Matched, "request"), failed)
	case seen.Requests == 0:
		return l.whyNoRequest(r)
	case seen.Matched == 0:
		return fmt.Sprintf("%s seen, none matched %s; there was %s", count(seen.Requests, "request"), m.Limits(), strings.Join(seen.Examples, "; "))
	}
	limits := strings.Join(limitsOf(r.When), ", ")
	return fmt.Sprintf("%s seen, %d matched%s, but it hits none of these (%s)", count(seen.Requests, "request"), seen.Matched, orNothing(" ", m.Limits()), limits)
}

// whyNoRequest says why a rule saw no request at all.
func (l *leaf) whyNoRequest(r fault.Rule) string {
	p := r.Message.Pair
	connections, own := 0, false
	for _, e := range l.log.All() {
		switch {
		case e.Kind == event.Link && e.String("op") == "connect" && p.Matches(e.String("client"), e.String("server"), e.String("interface")):
			connections++
		case e.Kind == event.StepSend && e.String("target") == p.B+"."+p.Interface:
			own = true
		}
	}
	switch {
	case connections > 0:
		return fmt.Sprintf("%s %s, but no request passed while it was in force", count(connections, "connection"), r.Target())
	case own:
		return fmt.Sprintf("no connection %s in this leaf but the scenario's own, which no rule hits", r.Target())
	}
	return fmt.Sprintf("no connection %s in this leaf", r.Target())
}

func orNothing(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
