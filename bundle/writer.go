package bundle

import (
	"archive/zip"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/squallhq/squall/verdict"
)

// The names of the members that every bundle has.
const (
	manifestName = "manifest.json"
	planName     = "plan.json"
	verdictsName = "verdicts.json"
	replayName   = "replay.json"
)

// Writer writes a bundle. What it writes lies in files without a name until Close has put everything
// in order: no file of the destination's name is ever incomplete, and of a process that was killed
// nothing is left. It is safe for concurrent use.
type Writer struct {
	path     string
	dir      string
	place    func() (string, error)
	redactor *Redactor

	mu      sync.Mutex
	file    sink
	zip     *zip.Writer
	err     error
	done    bool
	plan    *Plan
	replay  Replay
	leaves  map[string]Leaf
	members map[string]Member
}

// sink is what the archive is written to; a test puts a disk that fills up in its place.
type sink interface {
	io.WriteCloser
	Sync() error
	publish(path string) error
}

// Create begins a bundle that will be at path. A nil redactor hides what looks like a secret by
// its name only.
func Create(path string, r *Redactor) (*Writer, error) {
	return create(path, r, func(dir string) (sink, error) { return newAnonymous(dir) })
}

func create(path string, r *Redactor, open func(dir string) (sink, error)) (*Writer, error) {
	if r == nil {
		r = NewRedactor(nil)
	}
	dir := filepath.Dir(path)
	f, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("bundle: create %s: %w", path, err)
	}
	return &Writer{
		path: path, dir: dir, redactor: r, file: f, zip: zip.NewWriter(f),
		leaves: map[string]Leaf{}, members: map[string]Member{},
	}, nil
}

// At lets Close ask for the bundle's place at the last moment, when all that is left to do is to give
// it its name. It must be on the file system that Create was given.
func (w *Writer) At(place func() (string, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.place = place
}

// Plan records what is to be run. It must be called once, before Close.
func (w *Writer) Plan(p Plan) error {
	p, err := texts(w.redactor, p)
	p.Schema = PlanSchema
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return w.fail("plan", err)
	}
	if w.plan != nil {
		return w.fail("plan", errors.New("already written"))
	}
	seen := map[string]bool{}
	for _, leaf := range p.Leaves {
		if !validID(leaf.ID) || seen[leaf.ID] {
			return w.fail("plan", fmt.Errorf("leaf id %q is not usable or repeated", leaf.ID))
		}
		seen[leaf.ID] = true
	}
	if err := w.addJSON(planName, p); err != nil {
		return err
	}
	w.plan = &p
	return nil
}

// SpecFile records a file of the specification as it is: a replay runs it again, so secrets that
// it spells out stay. Its path is relative to the main file's directory and may begin with "..".
func (w *Writer) SpecFile(path string, content []byte) error {
	name, err := specMember(path)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.add(name, zip.Deflate, func(out io.Writer) error {
		_, err := out.Write(content)
		return err
	})
}

// Replay records what a replay needs; decisions that leaves gave to their LeafWriter are added.
func (w *Writer) Replay(r Replay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	decisions := w.replay.Decisions
	for id, d := range r.Decisions {
		if decisions == nil {
			decisions = map[string][]Decision{}
		}
		decisions[id] = d
	}
	r.Decisions = decisions
	w.replay = r
}

// Close puts the manifest in and gives the bundle its name. Schema, Members and the counts and
// outcome of Summary are filled in here. Where m.Complete is false, leaves of the plan without a
// verdict become INCONCLUSIVE, interrupted; where it is true they are an error. After an error
// nothing is left at the destination that was not there before.
func (w *Writer) Close(m Manifest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return fmt.Errorf("bundle: %s: already closed", w.path)
	}
	defer w.abort()
	if w.err != nil {
		return w.err
	}
	if w.plan == nil {
		return w.fail("close", errors.New("there is no plan"))
	}
	v, err := w.verdicts(m.Complete)
	if err != nil {
		return err
	}
	if err := validBaselines(v.Leaves); err != nil {
		return w.fail("close", err)
	}
	w.replay.Schema = ReplaySchema
	w.replay.Args = w.redactor.Args(w.replay.Args)
	if err := w.addJSON(verdictsName, v); err != nil {
		return err
	}
	if err := w.addJSON(replayName, w.replay); err != nil {
		return err
	}
	m.Schema = ManifestSchema
	m.Environment = w.redactor.Env(m.Environment)
	m.Summary = Summarize(v.Leaves, m)
	m.Members = make([]Member, 0, len(w.members))
	for _, member := range w.members {
		m.Members = append(m.Members, member)
	}
	slices.SortFunc(m.Members, func(a, b Member) int { return cmp.Compare(a.Path, b.Path) })
	if err := w.addJSON(manifestName, m); err != nil {
		return err
	}
	return w.publish()
}

// Summarize counts the outcomes of leaves. A run that is not complete is never a PASS.
func Summarize(leaves []Leaf, m Manifest) Summary {
	s := Summary{Duration: m.Summary.Duration}
	outcomes := make([]verdict.Outcome, 0, len(leaves)+1)
	for _, leaf := range leaves {
		outcomes = append(outcomes, leaf.Verdict.Outcome)
		switch leaf.Verdict.Outcome {
		case verdict.Pass:
			s.Pass++
		case verdict.Fail:
			s.Fail++
		default:
			s.Inconclusive++
		}
	}
	if !m.Complete {
		outcomes = append(outcomes, verdict.Inconclusive)
	}
	s.Outcome = verdict.Worst(outcomes...)
	return s
}

// Abort gives the bundle up and removes what was written. After Close it does nothing.
func (w *Writer) Abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.abort()
}

func (w *Writer) abort() {
	if w.done {
		return
	}
	w.done = true
	w.file.Close()
}

// verdicts returns the leaves in the plan's order.
func (w *Writer) verdicts(complete bool) (Verdicts, error) {
	v := Verdicts{Schema: VerdictsSchema, Leaves: []Leaf{}}
	for _, planned := range w.plan.Leaves {
		leaf, ok := w.leaves[planned.ID]
		if !ok && complete {
			return v, w.fail("close", fmt.Errorf("leaf %s has no verdict in a run that is said to be complete", planned.ID))
		}
		if !ok {
			leaf = Leaf{
				ID: planned.ID, Scenario: planned.Scenario, Assumption: planned.Assumption, Seed: planned.Seed,
				Verdict: verdict.Verdict{Outcome: verdict.Inconclusive, Reasons: []verdict.Reason{
					{Code: verdict.Interrupted, Detail: "the run was stopped before this leaf was decided"},
				}},
			}
		}
		if !planned.is(leaf) {
			return v, w.fail("close", fmt.Errorf("leaf %s: a verdict on %q x %q", leaf.ID, leaf.Scenario, leaf.Assumption))
		}
		v.Leaves = append(v.Leaves, leaf)
	}
	if len(w.leaves) > len(w.plan.Leaves) {
		return v, w.fail("close", errors.New("there are verdicts for leaves that the plan does not have"))
	}
	return v, nil
}

func (w *Writer) publish() error {
	if err := w.zip.Close(); err != nil {
		return w.fail("close", err)
	}
	if err := w.file.Sync(); err != nil {
		return w.fail("sync", err)
	}
	if w.place != nil {
		var err error
		if w.path, err = w.place(); err != nil {
			return w.fail("place", err)
		}
	}
	if err := w.file.publish(w.path); err != nil {
		return w.fail("publish", err)
	}
	// The name itself has to reach the disk too; not every file system can sync a directory.
	if dir, err := os.Open(filepath.Dir(w.path)); err == nil {
		_ = dir.Sync()
		dir.Close()
	}
	return nil
}

func (w *Writer) addJSON(name string, v any) error {
	return w.add(name, zip.Deflate, func(out io.Writer) error {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}

// add writes a member. It is called with w.mu held.
func (w *Writer) add(name string, method uint16, write func(io.Writer) error) error {
	if w.err != nil {
		return w.err
	}
	if w.done {
		return fmt.Errorf("bundle: %s: already closed", w.path)
	}
	if _, ok := w.members[name]; ok {
		return w.fail(name, errors.New("written twice"))
	}
	if len(w.members) >= DefaultLimits().Members {
		return w.fail(name, fmt.Errorf("a bundle has at most %d members", DefaultLimits().Members))
	}
	out, err := w.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method})
	if err != nil {
		return w.fail(name, err)
	}
	h := sha256.New()
	n := &counter{w: io.MultiWriter(out, h)}
	if err := write(n); err != nil {
		return w.fail(name, err)
	}
	if name != manifestName {
		w.members[name] = Member{Path: name, Size: n.n, SHA256: hex.EncodeToString(h.Sum(nil))}
	}
	return nil
}

// fail remembers the first error: once something is missing, Close must not succeed.
func (w *Writer) fail(what string, err error) error {
	err = fmt.Errorf("bundle: %s: %s: %w", w.path, what, err)
	if w.err == nil {
		w.err = err
	}
	return err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
