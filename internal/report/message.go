package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/squallhq/squall/event"
)

// ends says between whom a link or message event is.
func ends(e event.Event) string {
	out := e.String("client") + " -> " + e.String("server")
	if i := e.String("interface"); i != "" {
		out += "." + i
	}
	return out
}

// messageText is Describe for a request or its answer: between whom, and what the protocol says of it.
func messageText(e event.Event) (verb, what string) {
	f := e.String
	verb, what = f("op"), ends(e)
	if verb == "fired" {
		verb = f("verb")
	}
	own := map[string]bool{}
	for _, row := range event.Schema() {
		if row.Kind == event.Message {
			for _, field := range row.Fields {
				own[field.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if text := f(name); !own[name] && text != "" {
			const limit = 80
			if r := []rune(text); len(r) > limit {
				text = string(r[:limit]) + "..."
			}
			what = join(what, fmt.Sprintf("%s=%s", name, text))
		}
	}
	injected := ""
	if f("rule") != "" {
		injected = "(injected)"
	}
	if n := e.Int("fired"); n > 0 {
		injected = "(injected, fired " + times(n) + ")"
	}
	return verb, join(what, f("message"), injected)
}
