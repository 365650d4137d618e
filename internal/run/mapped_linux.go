package run

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/verdict"
)

// A file that is mapped shared and writable changes without any call that a rule on writes could see.
// So such mappings are watched where a leaf may inject into writing or syncing: one that a rule
// concerns, made or synced while the rule is in force, means that the rule was bypassed. One that was
// there before is said, since nobody knows whether it was written to.

// mmap sees what a program maps, and lets it.
func (s *service) mmap(session intercept.Session, c intercept.Call) {
	defer s.reply(session, c, intercept.Reply{})
	if c.Args[2]&unix.PROT_WRITE == 0 || c.Args[3]&unix.MAP_SHARED == 0 || c.Args[3]&unix.MAP_ANONYMOUS != 0 {
		return
	}
	kind, path, _, err := intercept.Describe(session, c, int(int32(c.Args[4])))
	if err != nil || kind != fault.File || inMemory(path) {
		return
	}
	s.mu.Lock()
	known := slices.Contains(s.mapped, path)
	if !known {
		s.mapped = append(s.mapped, path)
	}
	s.mu.Unlock()
	if !s.l.faults.Bypassed(s.Name, path) && !known {
		s.l.note(s.Name, verdict.MappedFile, fmt.Sprintf("%s changes %s through memory that it mapped", s.Name, path))
	}
}

// msync sees that a program forces what it wrote through a mapping to disk, and lets it. Which mapping
// it is stands in the program's memory map only; each that the service has is taken for it.
func (s *service) msync(session intercept.Session, c intercept.Call) {
	s.mu.Lock()
	mapped := slices.Clone(s.mapped)
	s.mu.Unlock()
	for _, path := range mapped {
		s.l.faults.Bypassed(s.Name, path)
	}
	s.reply(session, c, intercept.Reply{})
}

// inMemory reports whether a file only looks like one: shared memory between processes, and the
// counters that each JVM keeps for its tools.
func inMemory(path string) bool {
	return strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/memfd:") ||
		strings.HasPrefix(filepath.Base(filepath.Dir(path)), "hsperfdata_")
}
