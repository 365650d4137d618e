package run

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
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
	if !s.l.faults.bypassed(s.Name, path) && !known {
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
		s.l.faults.bypassed(s.Name, path)
	}
	s.reply(session, c, intercept.Reply{})
}

// inMemory reports whether a file only looks like one: shared memory between processes, and the
// counters that each JVM keeps for its tools.
func inMemory(path string) bool {
	return strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/memfd:") ||
		strings.HasPrefix(filepath.Base(filepath.Dir(path)), "hsperfdata_")
}

// writesFiles returns the calls by which a program changes files, of all families concerned.
func writesFiles() []string {
	var out []string
	for _, name := range []string{"write", "fsync"} {
		if f, ok := fault.FamilyOf(name); ok {
			out = append(out, f.Calls...)
		}
	}
	return out
}

func anyOf(calls, of []string) bool {
	return slices.ContainsFunc(calls, func(c string) bool { return slices.Contains(of, c) })
}

// bypassed marks the rules in force that would have concerned a change of a file, and reports whether
// there is one.
func (f *faults) bypassed(service, path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := false
	for _, r := range f.all {
		s := r.Syscall
		if s == nil || !f.active[r.ID] || s.Service != service || !anyOf(s.Calls, writesFiles()) {
			continue
		}
		if s.Path != "" {
			if g := inject.Compile(s.Path); !g.Match(path) {
				continue
			}
		}
		if len(s.On) > 0 && !slices.Contains(s.On, fault.File) {
			continue
		}
		found = true
		if _, known := f.bypass[r.ID]; !known {
			f.bypass[r.ID] = path
		}
	}
	return found
}

// bypasses returns a reason for each rule that was bypassed.
func (f *faults) bypasses() []verdict.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []verdict.Reason
	for _, r := range f.all {
		path, ok := f.bypass[r.ID]
		if !ok || r.Optional {
			continue
		}
		out = append(out, verdict.Reason{
			Code: verdict.FaultBypassed, Subject: r.ID, Position: r.Position,
			Detail: fmt.Sprintf("%s on %s: %s changed %s through memory that it mapped", r.Effect(), r.Target(), r.Syscall.Service, path),
		})
	}
	return out
}
