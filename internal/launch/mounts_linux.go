package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// mount is one line of mountinfo.
type mount struct {
	path string
	kind string
}

// mountTable is what is mounted where, in the order in which it was mounted.
type mountTable []mount

func readMounts() (mountTable, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMounts(f)
}

// parseMounts reads the format of proc_pid_mountinfo(5).
func parseMounts(r io.Reader) (mountTable, error) {
	var t mountTable
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		fields := strings.Fields(s.Text())
		dash := slices.Index(fields, "-")
		if dash < 6 || len(fields) < dash+2 {
			return nil, fmt.Errorf("mountinfo: cannot read %q", s.Text())
		}
		t = append(t, mount{path: unescapeMount(fields[4]), kind: fields[dash+1]})
	}
	return t, s.Err()
}

// unescapeMount undoes the octal escapes of blank, tab, newline and backslash.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// below returns the mounts strictly below dir that can be reached, each path once.
func (t mountTable) below(dir string) mountTable {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	var out mountTable
	for i, m := range t {
		if m.path == dir || !strings.HasPrefix(m.path, prefix) || m.path == "/" {
			continue
		}
		hidden := slices.ContainsFunc(t[i+1:], func(later mount) bool {
			// A later mount at the same place or above covers this one. The place itself is
			// visited for the later one.
			return later.path == m.path || strings.HasPrefix(m.path, strings.TrimSuffix(later.path, "/")+"/")
		})
		if !hidden {
			out = append(out, m)
		}
	}
	return out
}

// virtual reports whether the file system shows the kernel and keeps no files: an overlay over it
// would make no sense, and a copy of it reveals nothing.
func (m mount) virtual() bool {
	switch m.kind {
	case "proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs",
		"securityfs", "pstore", "bpf", "configfs", "fusectl", "hugetlbfs", "binfmt_misc", "nsfs",
		"efivarfs", "rpc_pipefs", "selinuxfs":
		return true
	}
	return false
}

// overlayOption quotes a path for an option string of overlayfs.
func overlayOption(p string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(path.Clean(p))
}
