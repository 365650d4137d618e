package bundle

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/squallhq/squall/event"
)

// Limits bound what a reader accepts, since a bundle may come from a stranger.
type Limits struct {
	// File is the size of the archive; Directory that of the zip's list of members.
	File, Directory int64
	// Members is how many there may be; Total is how large they may be together, unpacked.
	Members int
	Total   int64
	// JSON is the largest manifest, plan, list of verdicts or replay; Member the largest of all others.
	JSON, Member int64
	// Objects is how many objects one of the former may hold: three bytes of text can become hundreds in memory.
	Objects int
	// Events is the largest unpacked event log, Line the largest event in it.
	Events int64
	Line   int
	// Ratio is how much larger than its packed form a member of more than a MiB may be.
	Ratio int64
}

// DefaultLimits returns what Open applies.
func DefaultLimits() Limits {
	return Limits{
		File: 2 << 30, Directory: 16 << 20, Members: 50_000, Total: 8 << 30,
		JSON: 256 << 20, Objects: 2_500_000, Member: 2 << 30, Events: 4 << 30, Line: 8 << 20, Ratio: 1100,
	}
}

// InvalidError says why a file is not taken for a bundle.
type InvalidError struct {
	// Member is the part concerned, or "".
	Member string
	Cause  error
}

// Error says which member is wrong, and how.
func (e *InvalidError) Error() string {
	if e.Member == "" {
		return "not a valid bundle: " + e.Cause.Error()
	}
	return fmt.Sprintf("not a valid bundle: %s: %v", e.Member, e.Cause)
}

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Cause }

// SchemaError is returned for a member of a format, or of a major version, that this reader does
// not know.
type SchemaError struct{ Member, Got, Want string }

// Error names both versions.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s has schema %q, this squall reads %q", e.Member, e.Got, e.Want)
}

// Reader reads a bundle. All of it was verified by Open. It is safe for concurrent use.
type Reader struct {
	file     *os.File
	path     string
	limits   Limits
	members  map[string]*zip.File
	order    []string
	manifest Manifest
	plan     Plan
	verdicts Verdicts
	replay   Replay
}

// Open opens a bundle and verifies it: its structure and sizes, its schemas, the hash of every
// member, and that what it says about its outcome agrees with its verdicts. It returns an
// *InvalidError or *SchemaError, wrapped, where the file is not a bundle that can be trusted to mean
// what it says.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	r := &Reader{file: f, path: path, limits: DefaultLimits()}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &InvalidError{Cause: errors.New("not a regular file")}
	}
	if err == nil {
		err = r.load(f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("bundle: open %s: %w", path, err)
	}
	return r, nil
}

// Read is Open for a bundle in memory.
func Read(b []byte) (*Reader, error) {
	r := &Reader{limits: DefaultLimits()}
	if err := r.load(bytes.NewReader(b), int64(len(b))); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return r, nil
}

// Close releases the file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Path returns the path that Open was given, or "" for a bundle in memory.
func (r *Reader) Path() string { return r.path }

// Manifest returns the description of the bundle.
func (r *Reader) Manifest() Manifest { return r.manifest }

// Plan returns what was to be run.
func (r *Reader) Plan() Plan { return r.plan }

// Verdicts returns what came of it, in the plan's order.
func (r *Reader) Verdicts() Verdicts { return r.verdicts }

// Replay returns what a replay needs beyond the specification.
func (r *Reader) Replay() Replay { return r.replay }

// Events returns the events of a leaf; a leaf that never began has none.
func (r *Reader) Events(leaf string) ([]event.Event, error) {
	var events []event.Event
	err := r.EachEvent(leaf, func(e event.Event) error {
		events = append(events, e)
		return nil
	})
	return events, err
}

// EachEvent calls fn with each event of a leaf in order, until one returns an error.
func (r *Reader) EachEvent(leaf string, fn func(event.Event) error) error {
	f, ok := r.members[eventsMember(leaf)]
	if !ok {
		return nil
	}
	if err := r.eachEvent(f, leaf, fn); err != nil {
		return fmt.Errorf("bundle: events of leaf %s: %w", leaf, err)
	}
	return nil
}

func (r *Reader) eachEvent(f *zip.File, leaf string, fn func(event.Event) error) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20),
		zstd.WithDecoderMaxMemory(uint64(r.limits.Events)))
	if err != nil {
		return err
	}
	defer z.Close()
	limited := &io.LimitedReader{R: z, N: r.limits.Events}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 64<<10), r.limits.Line)
	var n int64
	for lines.Scan() {
		n++
		e, err := decodeEvent(lines.Bytes())
		if limited.N == 0 {
			break
		}
		if err != nil {
			return &InvalidError{f.Name, fmt.Errorf("event %d: %w", n, err)}
		}
		if e.Seq != n {
			return &InvalidError{f.Name, fmt.Errorf("event %d stands at place %d", e.Seq, n)}
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &InvalidError{f.Name, err}
	}
	if limited.N == 0 {
		return &InvalidError{f.Name, fmt.Errorf("larger than %d bytes", r.limits.Events)}
	}
	if want, ok := r.Leaf(leaf); ok && int64(want.Events) != n {
		return &InvalidError{f.Name, fmt.Errorf("%d events, the verdict counts %d", n, want.Events)}
	}
	return nil
}

// Leaf returns the verdict of one leaf. The id may be cut short as long as it is unambiguous.
func (r *Reader) Leaf(id string) (Leaf, bool) {
	found := -1
	for i, leaf := range r.verdicts.Leaves {
		if leaf.ID == id {
			return leaf, true
		}
		if id != "" && strings.HasPrefix(leaf.ID, id) {
			if found >= 0 {
				return Leaf{}, false
			}
			found = i
		}
	}
	if found < 0 {
		return Leaf{}, false
	}
	return r.verdicts.Leaves[found], true
}

// Log returns a service's output in a leaf.
func (r *Reader) Log(leaf, service string) ([]byte, error) {
	f, ok := r.members[logMember(leaf, service)]
	if !ok {
		return nil, nil
	}
	return r.read(f, r.limits.Member)
}

// Logs returns the services that have a log in a leaf.
func (r *Reader) Logs(leaf string) []string {
	var services []string
	prefix := "logs/" + leaf + "/"
	for _, name := range r.order {
		if s, ok := strings.CutPrefix(name, prefix); ok {
			services = append(services, strings.TrimSuffix(s, ".log"))
		}
	}
	return services
}

// File is a file of the specification, as it was loaded.
type File struct {
	// Path is relative to the main file's directory; it may begin with "..".
	Path    string
	Content []byte
}

// SpecFiles returns every file of the specification.
func (r *Reader) SpecFiles() ([]File, error) {
	var files []File
	for _, name := range r.order {
		if !strings.HasPrefix(name, "spec/") {
			continue
		}
		path, err := specPath(name)
		if err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
		content, err := r.read(r.members[name], r.limits.Member)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: path, Content: content})
	}
	return files, nil
}

func (r *Reader) read(f *zip.File, limit int64) ([]byte, error) {
	in, err := f.Open()
	if err != nil {
		return nil, &InvalidError{f.Name, err}
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, &InvalidError{f.Name, err}
	}
	if int64(len(b)) > limit {
		return nil, &InvalidError{f.Name, fmt.Errorf("larger than %d bytes", limit)}
	}
	return b, nil
}

func (r *Reader) hash(f *zip.File) (string, error) {
	in, err := f.Open()
	if err != nil {
		return "", &InvalidError{f.Name, err}
	}
	defer in.Close()
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		return "", &InvalidError{f.Name, err}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// decodeEvent keeps whole numbers whole, as event.Event promises for its fields.
func decodeEvent(line []byte) (event.Event, error) {
	var e event.Event
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	if d.More() {
		return e, errors.New("more than one value on a line")
	}
	for name, v := range e.Fields {
		e.Fields[name] = plain(v)
	}
	return e, nil
}

func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return i
		}
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return string(v)
		}
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return v
}
