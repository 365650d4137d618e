package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesStayInTheWorld(t *testing.T) {
	dir := t.TempDir()
	known := filepath.Join(dir, "known")
	if err := os.WriteFile(known, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	shm := filepath.Join("/dev/shm", filepath.Base(t.TempDir())+"squall")
	if err := os.WriteFile(shm, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(shm) })
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	outside := []string{"/etc/squall-test-x", "/data/squall-test-y", "/tmp/squall-test-z", filepath.Join(dir, "new"), "/squall-test-dir"}

	want := map[string]string{
		"echo y >/data/squall-test-y && cat /data/squall-test-y": "0 y",
		"echo z >/tmp/squall-test-z && cat /tmp/squall-test-z":   "0 z",
		"echo n >" + dir + "/new && cat " + dir + "/new":         "0 n",
		"cat " + known:                                     "0 outside",
		"echo w >" + known + "; cat " + known:              "0 w",
		"rm " + known + "; cat " + known + " 2>/dev/null":  "1 ",
		"touch /squall-test-dir/a && ls /squall-test-dir":  "0 a",
		"hostname || cat /proc/sys/kernel/hostname":        "0 world7",
		"grep -c '^127.77.0.[12]' /etc/hosts":              "0 2",
		"getent ahostsv4 db | head -1 | cut -d' ' -f1":     "0 127.77.0.1",
		"getent ahostsv4 world7 | head -1 | cut -d' ' -f1": "0 127.0.0.1",
		"ls -d /proc/[0-9]* | wc -l | xargs test 10 -gt":   "0 ",
		"test -e " + shm:                                   "1 ",
		"echo >/dev/null && test -c /dev/null":             "0 ",
		"head -c 4 /dev/urandom | wc -c":                   "0 4",
		"readlink /bin; test -x /bin/sh":                   "0 " + readlink("/bin"),
		"stat -c %a /tmp":                                  "0 " + permissions(t, "/tmp"),
		"test -e /host || test -e /upper":                  "1 ",
		"pwd":                                              "0 " + cwd(t),
	}
	if os.Geteuid() == 0 {
		want["echo x >/etc/squall-test-x && cat /etc/squall-test-x"] = "0 x"
		want["rm -r /etc/ssl /usr/bin/env; ls /etc/ssl /usr/bin/env 2>/dev/null"] = "2 "
	} else {
		// What the machine refuses stays refused.
		want["echo x >/etc/squall-test-x"] = "2 sh: 1: cannot create /etc/squall-test-x: Permission denied"
		want["mkdir /squall-test-root 2>/dev/null"] = "1 "
		want["rm /usr/bin/env 2>/dev/null"] = "1 "
	}
	scripts := make([]string, 0, len(want))
	// Order matters for the known file only: read, overwrite, remove.
	for s := range want {
		if !strings.Contains(s, known) {
			scripts = append(scripts, s)
		}
	}
	scripts = append(scripts, "cat "+known, "echo w >"+known+"; cat "+known, "rm "+known+"; cat "+known+" 2>/dev/null")

	got := map[string]string{}
	inside(t, launcher(t), WorldConfig{}, &got, append([]string{"files"}, scripts...)...)
	for s, w := range want {
		if got[s] != w {
			t.Errorf("%s\n\tgot  %q\n\twant %q", s, got[s], w)
		}
	}
	for _, p := range outside {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s is on the machine", p)
		}
	}
	if b, err := os.ReadFile(known); err != nil || string(b) != "outside" {
		t.Errorf("%s: %q, %v", known, b, err)
	}
	if now, err := os.Hostname(); err != nil || now != host {
		t.Errorf("hostname %q, want %q", now, host)
	}
	for _, p := range []string{"/etc/ssl", "/usr/bin/env", "/etc/hosts"} {
		if _, err := os.Lstat(p); err != nil {
			t.Error(err)
		}
	}
}

func readlink(p string) string {
	s, _ := os.Readlink(p)
	return s
}

func permissions(t *testing.T, p string) string {
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		t.Fatal(err)
	}
	const octal = "01234567"
	m := st.Mode & 0o7777
	out := []byte{octal[m>>9], octal[m>>6&7], octal[m>>3&7], octal[m&7]}
	return strings.TrimLeft(string(out), "0")
}

func cwd(t *testing.T) string {
	d, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestProgramsGetNoCapabilities(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("programs of root have root's capabilities")
	}
	var got string
	inside(t, launcher(t), WorldConfig{}, &got, "caps")
	for line := range strings.Lines(got) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t"); value != "0000000000000000" && name != "CapInh" {
			t.Errorf("%s is %s", name, value)
		}
	}
	if !strings.Contains(got, "CapAmb") {
		t.Errorf("got %q", got)
	}
}

func TestCopyOut(t *testing.T) {
	tree, changes, work := t.TempDir(), t.TempDir(), t.TempDir()
	var extra []*os.File
	for _, d := range []string{tree, changes} {
		f, err := os.Open(d)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		extra = append(extra, f)
	}
	var n []int
	inside(t, launcher(t), WorldConfig{Extra: extra}, &n, "copy", work)
	for p, want := range map[string]string{
		tree + "/sub/a":             "one\n",
		changes + work + "/written": "two\n",
		changes + "/data/sub/a":     "one\n",
		changes + "/etc/hostname":   "squall\n",
	} {
		if b, err := os.ReadFile(p); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	if l := readlink(tree + "/sub/l"); l != "a" {
		t.Errorf("link to %q", l)
	}
	if n[0] != 3 {
		t.Errorf("copied %d files, want 3", n[0])
	}
	if _, err := os.Lstat(work + "/written"); err == nil {
		t.Error("written on the machine")
	}
}

func TestFullWorld(t *testing.T) {
	var got struct {
		Total, Free int64
		Full        bool
	}
	inside(t, launcher(t), WorldConfig{}, &got, "full")
	if got.Total != 8<<20 || got.Free <= 0 || got.Free > got.Total || !got.Full {
		t.Errorf("%+v", got)
	}
}

func TestParseMounts(t *testing.T) {
	table, err := parseMounts(strings.NewReader(`22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /a rw - tmpfs t rw
31 30 0:41 / /a/b rw shared:1 master:2 - ext4 t rw
32 31 0:42 / /a/b/c rw - ext4 t rw
33 30 0:43 / /a/b rw - xfs t rw
34 27 0:44 / /with\040blank rw - tmpfs t rw
35 27 0:45 / /ab rw - tmpfs t rw
`))
	if err != nil {
		t.Fatal(err)
	}
	below := table.below("/a")
	if len(below) != 1 || below[0] != (mount{"/a/b", "xfs"}) {
		t.Errorf("below /a: %v", below)
	}
	if got := table[6].path; got != "/with blank" {
		t.Errorf("got %q", got)
	}
	if got := len(table.below("/")); got != 4 {
		t.Errorf("below /: %d of %v", got, table.below("/"))
	}
	if _, err := parseMounts(strings.NewReader("1 2 3")); err == nil {
		t.Error("a short line is accepted")
	}
}

func TestOverlayOption(t *testing.T) {
	if got := overlayOption(`/a:b,c\d`); got != `/a\:b\,c\\d` {
		t.Error(got)
	}
}
