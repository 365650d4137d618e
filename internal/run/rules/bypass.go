package rules

import (
	"fmt"
	"slices"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/verdict"
)

// ChangesFiles reports whether a program changes files by one of the calls.
func ChangesFiles(calls []string) bool {
	for _, name := range []string{"write", "fsync"} {
		f, ok := fault.FamilyOf(name)
		if ok && slices.ContainsFunc(f.Calls, func(c string) bool { return slices.Contains(calls, c) }) {
			return true
		}
	}
	return false
}

// Bypassed marks the rules in force that would have concerned a change of a file, and reports whether
// there is one.
func (f *Set) Bypassed(service, path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := false
	for _, r := range f.all {
		s := r.Syscall
		if s == nil || !f.active[r.ID] || s.Service != service || !ChangesFiles(s.Calls) {
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

// Bypasses returns a reason for each rule that was bypassed.
func (f *Set) Bypasses() []verdict.Reason {
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
