package bundle

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

func (r *Reader) load(in io.ReaderAt, size int64) error {
	if err := r.checkDirectory(in, size); err != nil {
		return &InvalidError{Cause: err}
	}
	z, err := zip.NewReader(in, size)
	if err != nil {
		return &InvalidError{Cause: err}
	}
	if err := r.index(z); err != nil {
		return err
	}
	if err := r.decode(manifestName, &r.manifest); err != nil {
		return err
	}
	if err := checkSchema(manifestName, r.manifest.Schema, ManifestSchema); err != nil {
		return err
	}
	if err := r.checkMembers(); err != nil {
		return err
	}
	for _, m := range []struct {
		name, want string
		into       any
		schema     *string
	}{
		{planName, PlanSchema, &r.plan, &r.plan.Schema},
		{verdictsName, VerdictsSchema, &r.verdicts, &r.verdicts.Schema},
		{replayName, ReplaySchema, &r.replay, &r.replay.Schema},
	} {
		if err := r.decode(m.name, m.into); err != nil {
			return err
		}
		if err := checkSchema(m.name, *m.schema, m.want); err != nil {
			return err
		}
	}
	return r.checkMeaning()
}

// checkDirectory reads the zip's last record before the zip package reads the whole list, so that a
// short file cannot make it allocate much. What it insists on, a Writer always writes: no comment,
// nothing before the first member, no zip64.
func (r *Reader) checkDirectory(in io.ReaderAt, size int64) error {
	const length = 22
	if size > r.limits.File {
		return fmt.Errorf("larger than %d bytes", r.limits.File)
	}
	var end [length]byte
	if size < length {
		return errors.New("too short for a zip archive")
	}
	if _, err := in.ReadAt(end[:], size-length); err != nil {
		return err
	}
	if !bytes.HasPrefix(end[:], []byte("PK\x05\x06")) {
		return errors.New("not a zip archive, or cut short")
	}
	count := int(binary.LittleEndian.Uint16(end[10:]))
	directory := int64(binary.LittleEndian.Uint32(end[12:]))
	offset := int64(binary.LittleEndian.Uint32(end[16:]))
	switch {
	case count > r.limits.Members:
		return fmt.Errorf("more than %d members", r.limits.Members)
	case directory > r.limits.Directory:
		return fmt.Errorf("a list of members of %d bytes", directory)
	case offset+directory != size-length:
		return errors.New("bytes that belong to no member")
	}
	return nil
}

func (r *Reader) index(z *zip.Reader) error {
	if z.Comment != "" {
		return &InvalidError{Cause: errors.New("an archive comment")}
	}
	r.members = make(map[string]*zip.File, len(z.File))
	var total int64
	for _, f := range z.File {
		if err := cmp.Or(validName(f.Name), r.checkFile(f)); err != nil {
			return &InvalidError{f.Name, err}
		}
		if _, ok := r.members[f.Name]; ok {
			return &InvalidError{f.Name, errors.New("appears twice")}
		}
		total += int64(f.UncompressedSize64)
		if total > r.limits.Total {
			return &InvalidError{Cause: fmt.Errorf("larger than %d bytes unpacked", r.limits.Total)}
		}
		r.members[f.Name] = f
		r.order = append(r.order, f.Name)
	}
	slices.Sort(r.order)
	return checkOverlap(z.File)
}

func (r *Reader) checkFile(f *zip.File) error {
	limit := r.limits.Member
	if strings.HasSuffix(f.Name, ".json") && !strings.Contains(f.Name, "/") {
		limit = r.limits.JSON
	}
	size, packed := f.UncompressedSize64, f.CompressedSize64
	switch {
	case f.Mode()&fs.ModeType != 0:
		return fmt.Errorf("not a regular file (%s)", f.Mode())
	case f.Flags&1 != 0:
		return errors.New("encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Errorf("compression method %d", f.Method)
	case size > uint64(limit) || packed > uint64(r.limits.File):
		return fmt.Errorf("larger than %d bytes", limit)
	case size > 1<<20 && size/max(packed, 1) > uint64(r.limits.Ratio):
		return fmt.Errorf("unpacks to %d times its size", size/max(packed, 1))
	}
	if strings.HasPrefix(f.Name, "spec/") {
		_, err := specPath(f.Name)
		return err
	}
	return nil
}

// checkOverlap refuses members that share their bytes: the way to a bomb whose every member looks
// innocent.
func checkOverlap(files []*zip.File) error {
	type span struct {
		from, to int64
		name     string
	}
	spans := make([]span, 0, len(files))
	for _, f := range files {
		from, err := f.DataOffset()
		if err != nil {
			return &InvalidError{f.Name, err}
		}
		spans = append(spans, span{from, from + int64(f.CompressedSize64), f.Name})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans); i++ {
		// Between two members there is at least the second one's header.
		if spans[i].from < spans[i-1].to+30 {
			return &InvalidError{spans[i].name, fmt.Errorf("overlaps %s", spans[i-1].name)}
		}
	}
	return nil
}

// checkMembers compares what is there with what the manifest says.
func (r *Reader) checkMembers() error {
	listed := map[string]bool{}
	for _, m := range r.manifest.Members {
		f, ok := r.members[m.Path]
		switch {
		case listed[m.Path]:
			return &InvalidError{m.Path, errors.New("listed twice in the manifest")}
		case m.Path == manifestName:
			return &InvalidError{m.Path, errors.New("lists itself")}
		case !ok:
			return &InvalidError{m.Path, errors.New("listed in the manifest, and missing")}
		case m.Size < 0 || uint64(m.Size) != f.UncompressedSize64:
			return &InvalidError{m.Path, fmt.Errorf("%d bytes, the manifest says %d", f.UncompressedSize64, m.Size)}
		}
		listed[m.Path] = true
		got, err := r.hash(f)
		if err != nil {
			return err
		}
		if got != m.SHA256 {
			return &InvalidError{m.Path, fmt.Errorf("its SHA-256 is %.12s…, the manifest says %.12s…", got, m.SHA256)}
		}
	}
	for _, name := range r.order {
		if name != manifestName && !listed[name] {
			return &InvalidError{name, errors.New("not listed in the manifest")}
		}
	}
	return nil
}

func (r *Reader) decode(name string, into any) error {
	f, ok := r.members[name]
	if !ok {
		return &InvalidError{name, errors.New("missing")}
	}
	b, err := r.read(f, r.limits.JSON)
	if err != nil {
		return err
	}
	if bytes.Count(b, []byte("{")) > r.limits.Objects || bytes.Count(b, []byte(",")) > 8*r.limits.Objects {
		return &InvalidError{name, fmt.Errorf("more than %d objects", r.limits.Objects)}
	}
	// The version comes first: a later major may not even have the same shape.
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err == nil && head.Schema != "" {
		want := map[string]string{
			manifestName: ManifestSchema, planName: PlanSchema, verdictsName: VerdictsSchema, replayName: ReplaySchema,
		}[name]
		if err := checkSchema(name, head.Schema, want); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(b, into); err != nil {
		return &InvalidError{name, err}
	}
	return nil
}

// checkSchema takes the same format with the same major version; minor versions only add.
func checkSchema(member, got, want string) error {
	format, version, _ := strings.Cut(got, "/")
	major, _, _ := strings.Cut(version, ".")
	if format+"/"+major != want {
		return &SchemaError{Member: member, Got: got, Want: want}
	}
	return nil
}

// checkMeaning refuses a bundle that says more than its verdicts do.
func (r *Reader) checkMeaning() error {
	planned := map[string]PlanLeaf{}
	for _, leaf := range r.plan.Leaves {
		if _, known := planned[leaf.ID]; known || !validID(leaf.ID) {
			return &InvalidError{planName, fmt.Errorf("leaf id %q is not usable or repeated", leaf.ID)}
		}
		planned[leaf.ID] = leaf
	}
	decided := map[string]bool{}
	for _, leaf := range r.verdicts.Leaves {
		switch plan, known := planned[leaf.ID]; {
		case !known:
			return &InvalidError{verdictsName, fmt.Errorf("leaf %q is not in the plan", leaf.ID)}
		case decided[leaf.ID]:
			return &InvalidError{verdictsName, fmt.Errorf("leaf %s has two verdicts", leaf.ID)}
		case !plan.is(leaf):
			return &InvalidError{verdictsName, fmt.Errorf("leaf %s is %q x %q, the plan says %q x %q", leaf.ID,
				leaf.Scenario, leaf.Assumption, plan.Scenario, plan.Assumption)}
		}
		if err := validLeaf(leaf); err != nil {
			return &InvalidError{verdictsName, fmt.Errorf("leaf %s: %w", leaf.ID, err)}
		}
		if leaf.Events > 0 && r.members[eventsMember(leaf.ID)] == nil {
			return &InvalidError{eventsMember(leaf.ID), errors.New("missing, though the verdict counts events")}
		}
		decided[leaf.ID] = true
	}
	if err := validBaselines(r.verdicts.Leaves); err != nil {
		return &InvalidError{verdictsName, err}
	}
	if len(decided) != len(planned) {
		return &InvalidError{verdictsName, fmt.Errorf("%d leaves planned, %d with a verdict", len(planned), len(decided))}
	}
	if want := Summarize(r.verdicts.Leaves, r.manifest); want != r.manifest.Summary {
		return &InvalidError{manifestName, fmt.Errorf("its summary (%s, %d/%d/%d) does not follow from the verdicts (%s, %d/%d/%d)",
			r.manifest.Summary.Outcome, r.manifest.Summary.Pass, r.manifest.Summary.Fail, r.manifest.Summary.Inconclusive,
			want.Outcome, want.Pass, want.Fail, want.Inconclusive)}
	}
	return nil
}
