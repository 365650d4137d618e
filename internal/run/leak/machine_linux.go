package leak

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// clockSource is where the kernel says what it reads the time from.
const clockSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// BlindClocks says why system calls for clocks are not looked at; "" where they are. Where the vDSO cannot answer, each
// look at a clock is a call, and stopping at each would slow programs down many times.
func BlindClocks() string {
	b, err := os.ReadFile(clockSource)
	source := strings.TrimSpace(string(b))
	if err != nil {
		return "since it is not known whether the vDSO answers them here"
	}
	if !slices.Contains([]string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"}, source) {
		return "since here each look is a system call (clocksource " + source + ")"
	}
	return ""
}

// Programs are the files that running a service's binary executes: itself and, for a script, its interpreter, also
// where env finds that.
func Programs(binary string) []string {
	own := []string{binary}
	if f, err := os.Open(binary); err == nil {
		line, _ := bufio.NewReader(f).ReadString('\n')
		f.Close()
		if command, ok := strings.CutPrefix(line, "#!"); ok {
			own = append(own, interpreters(strings.Fields(command))...)
		}
	}
	for i, path := range own {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			own[i] = real
		}
	}
	return own
}

func interpreters(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	own := words[:1]
	if filepath.Base(words[0]) != "env" {
		return own
	}
	for _, w := range words[1:] {
		if strings.HasPrefix(w, "-") || strings.Contains(w, "=") {
			continue
		}
		for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
			own = append(own, filepath.Join(dir, w))
		}
		break
	}
	return own
}
