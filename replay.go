package squall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/replay"
	"github.com/squallhq/squall/spec"
	"github.com/squallhq/squall/verdict"
)

// ReplayOptions say what of a bundle to run again.
type ReplayOptions struct {
	// Leaves are beginnings of leaf IDs; none means those that are not PASS, or all if all are.
	Leaves []string
	// All runs every leaf.
	All bool
	// SpecDir is where the programs are that the specification names by relative paths; "" means
	// where they were when the bundle was made.
	SpecDir string
	// Observe is as in Options.
	Observe func(Progress)
}

// Replayed is what came of a replay.
type Replayed struct {
	Leaves []ReplayedLeaf
	// Warnings name what is not as it was: another kernel, another program.
	Warnings []string
}

// ReplayedLeaf is one leaf, as it was and as it is.
type ReplayedLeaf struct {
	Recorded, Got bundle.Leaf
	// Divergence is "" where the replay did the same; else the first difference, in words.
	Divergence string
}

// Replay runs leaves of a bundle again, with the specification in it, and compares.
func Replay(ctx context.Context, l spec.Loader, path string, o ReplayOptions) (*Replayed, error) {
	b, err := bundle.Open(path)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	chosen, err := chosenLeaves(b, o)
	if err != nil {
		return nil, err
	}
	programs, err := o.programs(b)
	if err != nil {
		return nil, err
	}
	source, clean, err := unpackSpec(b, programs)
	if err != nil {
		return nil, err
	}
	defer clean()
	dir, err := os.MkdirTemp("", "squall-replay-")
	if err != nil {
		return nil, fmt.Errorf("squall: replay: %w", err)
	}
	defer os.RemoveAll(dir)
	seed := b.Manifest().Seed
	options := Options{Seed: &seed, Observe: o.Observe}
	if err := options.apply(b.Replay().Args); err != nil {
		return nil, err
	}
	options.exact = exactLeaves(b.Plan().Leaves, chosen)
	p, err := makePlan(ctx, l, source, options)
	if err != nil {
		return nil, recordedSpec(err, path, programs, source)
	}
	got, err := execute(ctx, p, dir, options)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		// What was cut short did not part from the recording.
		return nil, fmt.Errorf("squall: replay: %w", ctx.Err())
	}
	again, err := bundle.Open(got.Bundle)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	return compareLeaves(b, again, chosen)
}

// programs is where a replay looks for programs.
func (o ReplayOptions) programs(b *bundle.Reader) (string, error) {
	if o.SpecDir == "" {
		return b.Manifest().Environment["spec_dir"], nil
	}
	if info, err := os.Stat(o.SpecDir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("squall: replay: %s: there is no such directory", o.SpecDir)
	}
	dir, err := filepath.Abs(o.SpecDir)
	if err != nil {
		return "", fmt.Errorf("squall: replay: %w", err)
	}
	return dir, nil
}

func compareLeaves(b, again *bundle.Reader, leaves []bundle.Leaf) (*Replayed, error) {
	out := &Replayed{Warnings: replay.Warnings(b.Manifest(), again.Manifest())}
	for _, leaf := range leaves {
		r, err := compareLeaf(b, again, leaf)
		if err != nil {
			return nil, err
		}
		out.Leaves = append(out.Leaves, r)
	}
	return out, nil
}

// recordedSpec names the bundle in what a loader says of a specification that is in it.
func recordedSpec(err error, path, programs, source string) error {
	var rendered interface{ Render(io.Writer) error }
	if !errors.As(err, &rendered) {
		return err
	}
	e := &RecordedSpecError{Bundle: filepath.Base(path), Dir: programs, err: err}
	if unpacked := filepath.Dir(source); unpacked != programs {
		e.unpacked = unpacked
	}
	return e
}

// exactLeaves returns leaves of a record, with the baselines that they were judged by.
func exactLeaves(planned []bundle.PlanLeaf, chosen []bundle.Leaf) []bundle.PlanLeaf {
	var baselines, out []bundle.PlanLeaf
	for _, p := range planned {
		if p.Assumption == bundle.Baseline {
			baselines = append(baselines, p)
		}
	}
	add := func(p bundle.PlanLeaf) {
		if !slices.ContainsFunc(out, func(o bundle.PlanLeaf) bool { return o.ID == p.ID }) {
			out = append(out, p)
		}
	}
	for _, p := range planned {
		if !slices.ContainsFunc(chosen, func(l bundle.Leaf) bool { return l.ID == p.ID }) {
			continue
		}
		if i := nearestBaseline(baselines, p); i >= 0 {
			add(baselines[i])
		}
		add(p)
	}
	return out
}

func compareLeaf(b, again *bundle.Reader, leaf bundle.Leaf) (ReplayedLeaf, error) {
	now, ok := again.Leaf(leaf.ID)
	if !ok {
		return ReplayedLeaf{}, fmt.Errorf("squall: replay: leaf %s is not in the specification any more", leaf.ID)
	}
	before, err := b.Events(leaf.ID)
	if err != nil {
		return ReplayedLeaf{}, err
	}
	after, err := again.Events(leaf.ID)
	if err != nil {
		return ReplayedLeaf{}, err
	}
	return ReplayedLeaf{Recorded: leaf, Got: now, Divergence: replay.Compare(
		replay.Record{Leaf: leaf, Events: before, Decisions: b.Replay().Decisions[leaf.ID]},
		replay.Record{Leaf: now, Events: after, Decisions: again.Replay().Decisions[leaf.ID]},
	)}, nil
}

// NoLeaf is the error of a leaf that a bundle does not have, or not just once.
type NoLeaf struct {
	ID string
	// Several tells that more than one leaf's ID begins so. There are all IDs of the bundle.
	Several bool
	There   []string
}

// Error names what was asked for.
func (e *NoLeaf) Error() string {
	if e.Several {
		return fmt.Sprintf("squall: the bundle has several leaves that begin with %q", e.ID)
	}
	return fmt.Sprintf("squall: the bundle has no leaf %q", e.ID)
}

// FindLeaf returns the leaf of a bundle whose ID begins with prefix; else the error is a *NoLeaf.
func FindLeaf(b *bundle.Reader, prefix string) (bundle.Leaf, error) {
	leaf, ok := b.Leaf(prefix)
	if ok {
		return leaf, nil
	}
	e := &NoLeaf{ID: prefix}
	for _, l := range b.Verdicts().Leaves {
		e.There = append(e.There, l.ID)
		e.Several = e.Several || prefix != "" && strings.HasPrefix(l.ID, prefix)
	}
	return bundle.Leaf{}, e
}

// chosenLeaves returns the leaves that the options name. A leaf that was interrupted has nothing to
// be compared with.
func chosenLeaves(b *bundle.Reader, o ReplayOptions) ([]bundle.Leaf, error) {
	var out []bundle.Leaf
	for _, prefix := range o.Leaves {
		leaf, err := FindLeaf(b, prefix)
		if err != nil {
			return nil, err
		}
		if interrupted(leaf) {
			return nil, fmt.Errorf("squall: replay: leaf %s was not run to its end, so there is nothing to compare with", leaf.ID)
		}
		if !slices.ContainsFunc(out, func(l bundle.Leaf) bool { return l.ID == leaf.ID }) {
			out = append(out, leaf)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	leaves := slices.DeleteFunc(slices.Clone(b.Verdicts().Leaves), interrupted)
	for _, l := range leaves {
		if o.All || l.Verdict.Outcome != verdict.Pass {
			out = append(out, l)
		}
	}
	switch {
	case len(leaves) == 0:
		return nil, errors.New("squall: replay: no leaf of the bundle was run to its end")
	case len(out) == 0:
		return leaves, nil
	}
	return out, nil
}

func interrupted(l bundle.Leaf) bool {
	return len(l.Verdict.Reasons) > 0 && l.Verdict.Reasons[0].Code == verdict.Interrupted
}

// unpackSpec returns where the specification of a bundle can be loaded from. Where it lies unchanged
// at its old place, that is there; else its files go to a directory of their own, beside links to
// whatever else the old place has, so that relative paths of programs still lead to them.
func unpackSpec(b *bundle.Reader, dir string) (source string, clean func(), err error) {
	files, err := b.SpecFiles()
	if err != nil {
		return "", nil, err
	}
	name := b.Manifest().Source
	if dir != "" && unchanged(dir, files) {
		return filepath.Join(dir, name), func() {}, nil
	}
	tmp, err := os.MkdirTemp("", "squall-spec-")
	if err != nil {
		return "", nil, fmt.Errorf("squall: replay: %w", err)
	}
	clean = func() { os.RemoveAll(tmp) }
	base, err := b.ExtractSpec(tmp)
	if err != nil {
		clean()
		return "", nil, fmt.Errorf("squall: replay: %w", err)
	}
	for into := base; dir != "" && into != tmp; into, dir = filepath.Dir(into), filepath.Dir(dir) {
		linkRest(dir, into)
	}
	return filepath.Join(base, name), clean, nil
}

// linkRest puts links into a directory to all that from has besides.
func linkRest(from, into string) {
	entries, _ := os.ReadDir(from)
	for _, e := range entries {
		old, place := filepath.Join(from, e.Name()), filepath.Join(into, e.Name())
		if info, err := os.Lstat(place); err != nil {
			_ = os.Symlink(old, place)
		} else if info.IsDir() && e.IsDir() {
			linkRest(old, place)
		}
	}
}

func unchanged(dir string, files []bundle.File) bool {
	for _, f := range files {
		now, err := os.ReadFile(filepath.Join(dir, f.Path))
		if err != nil || !bytes.Equal(now, f.Content) {
			return false
		}
	}
	return len(files) > 0
}
