package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
)

// renderer is an error that prints itself over several lines, such as a list of diagnostics.
type renderer interface{ Render(w io.Writer) error }

// explain prints an error and, where there is one, what to do about it.
func (e *env) explain(err error) { explain(e.stderr, e.errStyle, err) }

func explain(w io.Writer, s style, err error) {
	var r renderer
	if errors.As(err, &r) {
		_ = r.Render(w)
		var recorded *squall.RecordedSpecError
		if errors.As(err, &recorded) {
			fmt.Fprintf(w, "  %s its programs are looked for in %s; if they are elsewhere, say --spec-dir=DIR\n", s.dim("mend:"), recorded.Dir)
		}
		return
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(w, "squall: stopped before anything was decided")
		return
	}
	fmt.Fprintf(w, "%s %v\n", s.bold("squall:"), tidy(err))
	if h := hint(err); h != "" {
		fmt.Fprintf(w, "  %s %s\n", s.dim("mend:"), h)
	}
}

// tidy drops the names of packages that an error of ours begins with: they say nothing to a user.
func tidy(err error) string {
	text := err.Error()
	for {
		first, rest, found := strings.Cut(text, ": ")
		switch first {
		case "squall", "starbind", "bundle", "plan", "run", "load", "launch":
			if found {
				text = rest
				continue
			}
		}
		return text
	}
}

// hint returns what to do about an error.
func hint(err error) string {
	var many *squall.TooManyLeaves
	var none *squall.NoMatch
	var file *unwritten
	var schema *bundle.SchemaError
	var invalid *bundle.InvalidError
	var path *fs.PathError
	switch {
	case errors.As(err, &file) && errors.Is(err, fs.ErrNotExist):
		return "make the directory " + filepath.Dir(file.path) + " first"
	case errors.As(err, &many):
		return "choose with --test, split with --shard, or raise --max-leaves"
	case errors.As(err, &none):
		return matchHint(none)
	case errors.As(err, &schema):
		return "use the version of squall that wrote it, or a newer one"
	case errors.As(err, &invalid):
		return "the file is damaged or was changed; run again for a new one"
	case errors.Is(err, squall.ErrNoScenario):
		return "declare one: scenario(fn), where fn talks to a service and returns what it got"
	case errors.Is(err, squall.ErrNeedsLinux):
		return "plan, check, report and diff work here; run the rest on Linux"
	case errors.Is(err, syscall.ENOSPC):
		return "free some space, or keep runs elsewhere with --dir"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "keep runs in a directory that you may write to, with --dir"
	case errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		return missingHint(path.Path)
	case errors.Is(err, fs.ErrNotExist):
		return missingHint("specification.star")
	}
	return partHint(err)
}

// partHint says what a bundle has where something else was asked for.
func partHint(err error) string {
	var leaf *squall.NoLeaf
	var absent *noneSuch
	var there []string
	switch {
	case errors.As(err, &leaf):
		there = leaf.There
	case errors.As(err, &absent):
		there = absent.there
	default:
		return ""
	}
	if len(there) == 0 {
		return "there is none at all"
	}
	return "there is: " + strings.Join(there, " ")
}

func matchHint(e *squall.NoMatch) string {
	shown := e.Names
	more := ""
	if len(shown) > 8 {
		shown, more = shown[:8], fmt.Sprintf(" and %d more", len(e.Names)-8)
	}
	return "there are: " + strings.Join(shown, " ") + more
}

// missingHint names files beside a missing one that look like what was meant.
func missingHint(path string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "[^.]*"+filepath.Ext(path)))
	if filepath.Ext(path) == "" || len(found) == 0 {
		if cwd, err := os.Getwd(); err == nil && !filepath.IsAbs(path) {
			return "paths are relative to " + cwd
		}
		return ""
	}
	return "there is: " + strings.Join(found[:min(len(found), 6)], " ")
}
