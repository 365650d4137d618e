package fault

import (
	"strings"
	"testing"
	"time"
)

func TestMessageInWords(t *testing.T) {
	to := Pair{B: "api", Interface: "http", Directed: true}
	from := Pair{A: "web", B: "api", Interface: "http", Directed: true}
	for _, tc := range []struct {
		m              Message
		target, effect string
	}{
		{Message{Pair: to, Verb: "hold"}, "* -> api.http", "hold()"},
		{Message{Pair: from, Verb: "error", Match: map[string]string{"path": "/a*", "method": "GET"}, Answer: Answer{Status: 503, Body: strings.Repeat("é", 50)}},
			"web -> api.http", `error(method="GET", path="/a*", status=503, body="` + strings.Repeat("é", 40) + `...")`},
		{Message{Pair: to, Verb: "error", Answer: Answer{Code: "40001", Text: "x", Headers: map[string]string{"a": "b"}}}, "* -> api.http", `error(code="40001", text="x", headers=...)`},
		{Message{Pair: to, Verb: "delay", Delay: time.Second}, "* -> api.http", `delay("1s")`},
		{Message{Pair: to, Verb: "drop", How: "close"}, "* -> api.http", "drop()"},
		{Message{Pair: to, Verb: "drop", How: "reset"}, "* -> api.http", `drop(how="reset")`},
	} {
		r := Rule{Message: &tc.m}
		if r.Target() != tc.target || r.Effect() != tc.effect {
			t.Errorf("%s on %s, want %s on %s", r.Effect(), r.Target(), tc.effect, tc.target)
		}
	}
}
