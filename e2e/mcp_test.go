package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const mcpSpec = `
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])

def ask():
    return a.send(data = "write /tmp/x hello").body

scenario(ask)
full = fault_assumption("full", target = a, write = deny("ENOSPC"))
fault_matrix(scenarios = [ask], faults = [full], default_expect = lambda r: assert_eq(r, "ok"))
`

// TestAssistant takes an assistant's way: check, plan, run, explain, look for events, replay.
func TestAssistant(t *testing.T) {
	dir := specDir(t, mcpSpec)
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command(t, dir, "mcp")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var ran struct {
		Outcome, Bundle string
		Leaves          []struct{ ID, Assumption, Outcome string }
	}
	ask := func(tool string, args map[string]any, into any, want ...string) {
		t.Helper()
		text := call(t.Context(), t, session, tool, args)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: got %s, want %s in it", tool, text, w)
			}
		}
		if into != nil {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("%s: %v in %s", tool, err, text)
			}
		}
	}
	ask("check", map[string]any{"file": "spec.star"}, nil, `"leaves":2`)
	ask("check", map[string]any{"file": "t.star"}, nil, "no such file", "there is: spec.star")
	ask("plan", map[string]any{"file": "spec.star", "tests": []string{"ask/full"}}, nil, `"assumption":"full"`)
	ask("run", map[string]any{"file": "spec.star", "seed": 3}, &ran, `"seed":3`)
	if ran.Outcome != "FAIL" || len(ran.Leaves) != 2 {
		t.Fatalf("got %+v, want FAIL and 2 leaves", ran)
	}
	leaf := ran.Leaves[1]
	ask("explain_verdict", map[string]any{"bundle": ran.Bundle, "leaf": leaf.ID}, nil, "ENOSPC", `"mends":{"`)
	ask("explain_verdict", map[string]any{"bundle": ran.Bundle, "leaf": "zz"}, nil, `no leaf "zz"`, leaf.ID)
	ask("query_events", map[string]any{"bundle": ran.Bundle, "query": []string{"kind=syscall", "errno=ENOSPC"}}, nil, leaf.ID, `"more":0`)
	ask("query_events", map[string]any{"bundle": ran.Bundle, "limit": 1}, nil, `"more":`)
	ask("query_events", map[string]any{"bundle": ran.Bundle, "query": []string{"syscall"}}, nil, "write field=value")
	ask("replay", map[string]any{"bundle": ran.Bundle}, nil, leaf.ID, `"outcome":"FAIL"`)
	ask("reason_codes", nil, nil, "fault-never-fired")
}

// call returns a tool's answer as text, an error's too.
func call(ctx context.Context, t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) string {
	t.Helper()
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}
