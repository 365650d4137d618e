package launch

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestVolumesAndSockets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"one": "1", "sub/two": "2"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// An absolute link leads to the world's own directory, not to what lies beside the world's root.
	if err := os.MkdirAll(filepath.Join(dir, "target"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "old.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := [][2]string{
		{"cat /squall-test-v/one /squall-test-v/sub/two /squall-test-v/deep/sub/two /squall-test-file/one", "0 1221"},
		{"cat " + dir + "/target/v/one", "0 1"},
		{"echo -n x >/squall-test-v/one && echo -n y >/squall-test-v/new && cat /squall-test-v/one /squall-test-v/new", "0 xy"},
		{"cat " + dir + "/one", "0 1"},
		{"echo x 2>/dev/null >/squall-test-v/deep/sub/new", "2 "},
		{"echo x 2>/dev/null >/squall-test-file/one", "2 "},
		{"test -e " + dir + "/old.sock", "1 "},
		{"touch /run/squall-test.sock /run/squall-test/a.sock && ls /run/squall-test", "0 a.sock"},
	}
	var scripts []string
	for _, w := range want {
		scripts = append(scripts, w[0])
	}
	got := map[string]string{}
	inside(t, launcher(t), WorldConfig{}, &got, append([]string{"extras", dir}, scripts...)...)
	for _, w := range want {
		if got[w[0]] != w[1] {
			t.Errorf("%s\n\tgot  %q\n\twant %q", w[0], got[w[0]], w[1])
		}
	}
	for _, p := range []string{dir + "/new", dir + "/target/v", "/squall-test-v", "/run/squall-test", "/run/squall-test.sock"} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s is on the machine", p)
		}
	}
	if b, err := os.ReadFile(dir + "/one"); err != nil || string(b) != "1" {
		t.Errorf("one: %q, %v", b, err)
	}
	if _, err := os.Lstat(dir + "/old.sock"); err != nil {
		t.Error(err)
	}
}

func TestLinksLeadWithin(t *testing.T) {
	root := t.TempDir()
	for name, to := range map[string]string{"a": "/b", "b": "c/d", "up": "../../../x", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for p, want := range map[string]string{"/a/e": "/c/d/e", "/up": "/x", "/new/../a": "/c/d", "/": "/", "/plain/x": "/plain/x"} {
		if got, err := within(root, p); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", p, got, err, want)
		}
	}
	if got, err := within(root, "/loop/x"); err == nil {
		t.Errorf("a loop leads to %q", got)
	}
}

func TestSocketPaths(t *testing.T) {
	table := "Num       RefCount Protocol Flags    Type St Inode Path\n" +
		"ffff8f: 00000002 00000000 00010000 0001 01 16234 /run/a b.sock\n" +
		"ffff8e: 00000003 00000000 00000000 0001 03     7 @abstract\n" +
		"ffff8d: 00000003 00000000 00000000 0001 03 16235\n" +
		"ffff8c: 00000002 00000000 00000000 0002 01 16236 /run/log\n" +
		"ffff8b: 00000002 00000000 00010000 0001 01 16237 relative\n"
	if got := socketPaths(table); !slices.Equal(got, []string{"/run/a b.sock", "/run/log"}) {
		t.Errorf("%q", got)
	}
}
