package launch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMountsBelow: directories with mounts in them are the world's too, in each way in which they can be
// put together: mounts locked by a user namespace, or not.
func TestMountsBelow(t *testing.T) {
	for _, program := range []string{"unshare", "setpriv", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	for name, drop := range map[string]string{"locked": "setpriv --bounding-set=-all,+setfcap --inh-caps=-all ", "free": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{"sub", "plain", "hollow"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for f, size := range map[string]int{"small": 10, "large": copyLimit + 1, "plain/a": 1, "mounted": 1} {
				if err := os.WriteFile(filepath.Join(dir, f), []byte(strings.Repeat("x", size)), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("plain/a", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			script := `cd ` + dir + ` && mount -t tmpfs t sub && echo deep >sub/deep && mount --bind small mounted && exec ` + drop + executable(t)
			c := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
			c.Env = append(os.Environ(), outerVariable+"=mounts")
			c.Stderr = os.Stderr
			text, err := c.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			got := map[string]string{}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			for _, s := range submountScripts() {
				if got[s.run] != s.want {
					t.Errorf("%s\n\tgot  %q\n\twant %q", s.run, got[s.run], s.want)
				}
			}
			for f, want := range map[string]int{"small": 10, "plain/a": 1, "large": copyLimit + 1} {
				if b := read(t, filepath.Join(dir, f)); len(b) != want {
					t.Errorf("%s on the machine is %q", f, b)
				}
			}
			if left, err := filepath.Glob(dir + "/*/new"); err != nil || len(left) > 0 {
				t.Errorf("on the machine: %v, %v", left, err)
			}
		})
	}
}

type script struct{ run, want string }

// submountScripts run in this order.
func submountScripts() []script {
	return []script{
		{"cat link", "0 x"},
		{"cat sub/deep", "0 deep"},
		{"echo new >sub/new && cat sub/new", "0 new"},
		{"echo new >plain/new && ls plain", "0 a\nnew"},
		{"touch hollow/new && ls hollow", "0 new"},
		{"echo new >small && cat small", "0 new"},
		{"wc -c <mounted", "0 10"},
		{"(echo new >large) 2>/dev/null; wc -c <large", "0 65537"}, // a large file beside a mount is read-only
		{"rm plain/a && ls plain", "0 new"},
	}
}

func tryMounts() error {
	l, err := NewLauncher()
	if err != nil {
		return err
	}
	defer l.Close()
	var scripts []string
	for _, s := range submountScripts() {
		scripts = append(scripts, s.run)
	}
	got := map[string]string{}
	if err := ask(l, WorldConfig{}, &got, append([]string{"files"}, scripts...)...); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}
