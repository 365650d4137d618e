package launch

import (
	"os/exec"
	"strings"
	"testing"
)

func TestSamePortInTwoNetworks(t *testing.T) {
	var got string
	inside(t, launcher(t), WorldConfig{}, &got, "networks")
	if want := "a a a b b b"; got != want {
		t.Errorf("answered by %s, want %s", got, want)
	}
}

func TestListening(t *testing.T) {
	const rest = ", other port false, closed false"
	want := map[string]string{
		"tcp4 127.0.0.1": "true false, table true false" + rest,
		"tcp4 0.0.0.0":   "true false, table true false" + rest,
		"tcp6 ::1":       "false true, table false true" + rest,
		"tcp6 ::":        "false true, table true true" + rest, // the table does not say V6ONLY
		"tcp ::":         "true true, table true true" + rest,
		"tcp4 127.0.0.5": "false false, table false false" + rest,
		"udp4 127.0.0.1": "true false, table true false" + rest,
		"udp4 0.0.0.0":   "true false, table true false" + rest,
		"udp6 ::1":       "false true, table false true" + rest,
		"udp ::":         "true true, table true true" + rest,
	}
	got := map[string]string{}
	inside(t, launcher(t), WorldConfig{}, &got, "lookups")
	for place, w := range want {
		if got[place] != w {
			t.Errorf("%s\n\tgot  %s\n\twant %s", place, got[place], w)
		}
	}
}

func TestDial(t *testing.T) {
	got := map[string]string{}
	inside(t, launcher(t), WorldConfig{}, &got, "dials")
	for _, what := range []string{"refused", "outside", "unix", "name", "held"} {
		if got[what] != "true" {
			t.Errorf("%s: %s", what, got[what])
		}
	}
}

func TestProgramsBindAnyPort(t *testing.T) {
	for _, program := range []string{"setpriv", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	var got string
	inside(t, launcher(t), WorldConfig{}, &got, "bind80")
	if !strings.HasSuffix(got, "bound") {
		t.Errorf("got %q", got)
	}
}
