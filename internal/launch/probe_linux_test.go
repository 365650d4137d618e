package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	r, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Namespaces || len(r.Findings) != 4 {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Findings {
		if !f.OK || f.Mend != "" {
			t.Errorf("%+v", f)
		}
	}
}

// refusal is what a caller without the right to namespaces finds.
type refusal struct {
	Report Report
	Wraps  bool
	Shared Exit
}

func tryRefused() error {
	var out refusal
	var err error
	if out.Report, err = Probe(context.Background()); err != nil {
		return err
	}
	l, err := NewLauncher()
	if err != nil {
		return err
	}
	defer l.Close()
	c := WorldConfig{Args: []string{"world", "nothing"}, Env: os.Environ()}
	_, err = l.StartWorld(context.Background(), c)
	out.Wraps = errors.Is(err, ErrNoNamespaces)
	c.Mode = ModeShared
	w, err := l.StartWorld(context.Background(), c)
	if err != nil {
		return err
	}
	if out.Shared, err = w.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// TestNamespacesRefused runs in a user namespace whose own limit of further ones is 0, without capabilities.
func TestNamespacesRefused(t *testing.T) {
	for _, program := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	script := "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all " + executable(t)
	c := exec.Command("unshare", "--user", "--map-root-user", "sh", "-c", script)
	c.Env = append(os.Environ(), outerVariable+"=refused")
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var got refusal
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got.Report.Namespaces || len(got.Report.Findings) != 1 || !got.Wraps || got.Shared != (Exit{}) {
		t.Errorf("%+v", got)
	}
	if f := got.Report.Findings[0]; f.OK || f.Mend != "sudo sysctl -w user.max_user_namespaces=15000" || f.Without == "" {
		t.Errorf("%+v", f)
	}
}

func executable(t *testing.T) string {
	t.Helper()
	p, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "'" + strings.ReplaceAll(p, "'", "") + "'"
}

func TestReportOfAWorldThatFails(t *testing.T) {
	for _, c := range []struct {
		probed probed
		names  string
		ok     bool
	}{
		{probed{}, "user namespaces true, files of its own true, overlay of files true, network namespaces true", true},
		{probed{ReadOnly: []string{"/usr"}}, "user namespaces true, files of its own true, overlay of files false, network namespaces true", true},
		{probed{Network: "x"}, "user namespaces true, files of its own true, overlay of files true, network namespaces false", false},
		{probed{Setup: "x"}, "user namespaces true, files of its own false, network namespaces true", false},
	} {
		r := c.probed.report(Finding{Name: "user namespaces", OK: true})
		var names []string
		for _, f := range r.Findings {
			names = append(names, fmt.Sprint(f.Name, " ", f.OK))
			if f.OK == (f.Without != "") || f.OK == (f.Mend != "") {
				t.Errorf("%+v", f)
			}
		}
		if got := strings.Join(names, ", "); got != c.names || r.Namespaces != c.ok {
			t.Errorf("%+v: %v, %s", c.probed, r.Namespaces, got)
		}
	}
}
