package starbind

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/property"
	"github.com/squallhq/squall/spec"
)

// TestTest: a setup's result reaches the body, what a body takes for granted is asked first, and
// terminate_when is a property.
func TestTest(t *testing.T) {
	s := loadText(t, `api = service("api", interface("http", "http", 8080), binary = "prog")
def prepare(): return {"id": 7}
def order(made): return [made["id"], api.get("/o").status]
def plain(): return "plain"
a = test("order", order, setup = prepare, timeout = "3s", expect = lambda r: r[0] == 7,
    terminate_when = lambda trace: trace.count(type = "stdout") > 2)
test("set_up_only", plain, setup = lambda: None)
test("assumes", plain, assume = [lambda: True, lambda: api.get("/o").ok])
test("assumes_wrongly", plain, assume = [lambda: True, lambda: False])
test("assumes_badly", plain, assume = [lambda: 3])
test("by_matcher", plain, terminate_when = {"status": "confirmed"})
def stop(trace):
    if trace.count(level = "info"):
        fail("level info")
    return False
test("stops_badly", plain, terminate_when = stop)
db = service("db", binary = "prog")
fault_matrix(scenarios = [a], faults = [fault_assumption("disk", target = db, write = deny("EIO"))])
`)
	byName := map[string]*spec.Scenario{}
	for _, sc := range s.Scenarios {
		byName[sc.Name] = sc
	}
	order := byName["order"]
	if order.Timeout != 3*time.Second || s.Matrices[0].Scenarios[0] != order || byName["assumes"].Setup != nil {
		t.Errorf("order: %+v", order)
	}
	made, err := order.Setup(t.Context(), newWorld())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		setup any
		want  string
	}{
		{"order", made, "[7, 200]"},
		{"set_up_only", made, `"plain"`},
		{"assumes", nil, `"plain"`},
		{"assumes_wrongly", nil, `ended main.star:9:56: halted: assume: lambda does not hold`},
		{"assumes_badly", nil, `other: assume: lambda returned int 3; it must return True or False`},
	} {
		v, err := byName[tc.name].Body(spec.WithSetup(t.Context(), tc.setup), newWorld())
		got := errorText(err)
		if err == nil {
			got = v.(starlark.Value).String()
		}
		if !strings.HasSuffix(got, tc.want) && !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
	list := story().log.All()
	for name, want := range map[string]string{"order": "000111", "by_matcher": "000010", "stops_badly": "violation main.star:14:9: level info"} {
		p := byName[name].Temporal
		if len(p) != 1 || p[0].Kind != property.Until || p[0].Window != nil {
			t.Fatalf("%s: %+v", name, p)
		}
		if got := decide(t, p[0], list); got != want {
			t.Errorf("terminate_when of %s: got %s, want %s", name, got, want)
		}
	}
}

// TestTestRefuses says which tests are not accepted.
func TestTestRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`test("a", lambda x: x)`, `main.star:1:11: test "a": lambda takes a parameter, which is for what setup= returns`},
		{`test("a", lambda x, y: x, setup = lambda: 1)`, `main.star:1:11: test "a": lambda takes 2 parameters, but is called with 1`},
		{`test("a", lambda: 1, setup = lambda x: 1)`, `main.star:1:30: test "a": lambda takes 1 parameter, but is called with 0`},
		{`test("a", lambda: 1, terminate_when = 3)`, `terminate_when must be a matcher, a dict of fields or a function of the trace, got int 3`},
		{`test("a", lambda: 1, assume = [lambda x: 1])`, `lambda takes 1 parameter, but is called with 0`},
		{"test(\"a\", lambda: 1)\ntest(\"a\", lambda: 2)", `main.star:2:6: test "a": scenario "a" is declared twice; the first is at main.star:1:1`},
		{"def f(): pass\nscenario(f)\ntest(\"b\", f)\ndb = service(\"db\", binary = \"prog\")\nfault_matrix(scenarios = [f], faults = [fault_assumption(\"d\", target = db, write = deny(\"EIO\"))])",
			`main.star:5:27: fault_matrix: f is the body of several scenarios`},
		{`expect_error_within()`, `main.star:1:1: expect_error_within: needs a limit`},
		{`expect_error_within("1s", ms = 3)`, `main.star:1:1: expect_error_within: needs a limit`},
	} {
		_, err := load(t, filepath.Join(write(t, map[string]string{"main.star": tc.text + "\n"}), "main.star"))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s\ngot  %v\nwant %s", tc.text, err, tc.want)
		}
	}
}

// TestReadyExpectations judges every sort of result with every expectation.
func TestReadyExpectations(t *testing.T) {
	ok := spec.Response{Status: 200, OK: true, Body: "fine", Duration: 9 * time.Second}
	fast := spec.Response{Status: 503, Error: "HTTP 503", Duration: 40 * time.Millisecond}
	slow := spec.Response{Error: "connection reset", Duration: 400 * time.Millisecond}
	hang := spec.Response{Error: "timeout after 100ms", TimedOut: true, Duration: 100 * time.Millisecond}
	answers := map[string]spec.Response{"ok": ok, "fast": fast, "slow": slow, "hang": hang}
	const success, within, hung = "expect_success()", `expect_error_within("200ms")`, "expect_hang()"
	for _, tc := range []struct {
		result string
		want   map[string]string
	}{
		{`get("ok")`, map[string]string{success: "", within: `it succeeded: status 200, body "fine"`, hung: "there was an answer: status 200"}},
		{`get("fast")`, map[string]string{success: "it failed: status 503, HTTP 503", within: "", hung: "there was an answer: status 503"}},
		{`get("slow")`, map[string]string{success: "it failed: connection reset", within: "the error came after 400ms: connection reset", hung: "there was an answer: connection reset"}},
		{`get("hang")`, map[string]string{success: "it failed: timeout after 100ms", within: "there was no answer, not even an error: timeout after 100ms", hung: ""}},
		{`None`, map[string]string{success: "the scenario returned nothing", within: "the scenario returned None, which is no response", hung: "the scenario returned None, which is no response"}},
		{`False`, map[string]string{success: "the scenario returned False", within: "bool False, which is no response", hung: "bool False, which is no response"}},
		{`"text"`, map[string]string{success: "", within: `"text", which is no response`, hung: `"text", which is no response`}},
		{`[]`, map[string]string{success: "an empty list", within: "an empty list", hung: "an empty list"}},
		{`[get("ok"), get("fast")]`, map[string]string{success: "result 1: it failed: status 503", within: "result 0: it succeeded", hung: "result 0: there was an answer"}},
		{`(get("fast"), [get("fast")])`, map[string]string{success: "result 0: it failed", within: "", hung: "result 0:"}},
		{`[get("hang"), [get("ok")]]`, map[string]string{success: "result 0:", within: "result 0:", hung: "result 1: result 0: there was an answer"}},
	} {
		for expect, want := range tc.want {
			s := loadText(t, "api = service(\"api\", interface(\"http\", \"http\", 8080), binary = \"prog\")\n"+
				"def get(path): return api.get(path)\ntest(\"a\", lambda: "+tc.result+", expect = "+expect+")\n")
			w := newWorld()
			w.answer = func(_ spec.Target, op spec.Operation) (spec.Response, error) {
				return answers[op.Args["path"].(string)], nil
			}
			v, err := s.Scenarios[0].Body(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			got := errorText(s.Scenarios[0].Expect(t.Context(), w, v))
			if want == "" && got != "no error" || !strings.Contains(got, want) || want != "" && !strings.HasPrefix(got, "violation main.star:3:") {
				t.Errorf("%s of %s: got %s, want %q", expect, tc.result, got, want)
			}
		}
	}
	s := loadText(t, "test(\"a\", lambda: 1, expect = expect_error_within(ms = 20))\n")
	if err := s.Scenarios[0].Expect(t.Context(), newWorld(), starlark.None); !strings.Contains(errorText(err), `expect_error_within("20ms")`) {
		t.Errorf("got %s", errorText(err))
	}
}
