package disturb

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Stopped reports whether every thread of every process of a group stands still. SIGSTOP takes effect when a thread comes to
// see it; until then the others go on.
func Stopped(group int) bool {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return false
	}
	for _, dir := range processes {
		if _, own, ok := status(dir + "/stat"); !ok || own != group {
			continue
		}
		threads, err := filepath.Glob(dir + "/task/[0-9]*")
		if err != nil {
			return false
		}
		for _, t := range threads {
			if state, _, ok := status(t + "/stat"); ok && !strings.Contains("TtZX", state) {
				return false
			}
		}
	}
	return true
}

// status reads a task's state and process group; false for one that is gone.
func status(path string) (state string, group int, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", 0, false
	}
	// The name, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 3 {
		return "", 0, false
	}
	group, err = strconv.Atoi(f[2])
	return f[0], group, err == nil
}
