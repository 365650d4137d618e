package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// part is a member of a bundle made by hand.
type part struct {
	header zip.FileHeader
	body   []byte
	// raw bodies are packed already.
	raw bool
	// unlisted parts are not in the manifest.
	unlisted bool
}

// draft is a bundle before it is put together; each hostile case spoils one thing in it.
type draft struct {
	parts    []part
	plan     Plan
	verdicts Verdicts
	replay   Replay
	manifest Manifest
	// list changes the manifest after its members have been listed.
	list func(*Manifest)
	// bytes changes the finished file.
	bytes func([]byte) []byte
	// skip leaves a member out.
	skip string
	// override replaces a JSON member.
	override map[string][]byte
}

func pack(t testing.TB, lines string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll([]byte(lines), nil)
}

func sound(t testing.TB) *draft {
	return &draft{
		parts: []part{
			{header: zip.FileHeader{Name: "events/aa.ndjson.zst"}, body: pack(t, `{"seq":1,"at_ns":5,"service":"driver","kind":"note","fields":{"n":3}}`+"\n")},
			{header: zip.FileHeader{Name: "logs/aa/api.log", Method: zip.Deflate}, body: []byte("hello\n")},
			{header: zip.FileHeader{Name: "spec/x.star", Method: zip.Deflate}, body: []byte("# nothing\n")},
		},
		plan:     Plan{Schema: PlanSchema, Source: "x.star", Leaves: []PlanLeaf{{ID: "aa", Scenario: "s", Assumption: "none"}}},
		verdicts: Verdicts{Schema: VerdictsSchema, Leaves: []Leaf{{ID: "aa", Scenario: "s", Assumption: "none", Verdict: verdict.Verdict{Outcome: verdict.Pass}, Events: 1}}},
		replay:   Replay{Schema: ReplaySchema},
		manifest: Manifest{Schema: ManifestSchema, Complete: true, Summary: Summary{Outcome: verdict.Pass, Pass: 1}},
		override: map[string][]byte{},
	}
}

func (d *draft) build(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(p part) {
		create := z.CreateHeader
		if p.raw {
			create = z.CreateRaw
		}
		w, err := create(&p.header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(p.body); err != nil {
			t.Fatal(err)
		}
		if !p.unlisted {
			sum := sha256.Sum256(p.body)
			d.manifest.Members = append(d.manifest.Members, Member{Path: p.header.Name, Size: int64(len(p.body)), SHA256: hex.EncodeToString(sum[:])})
		}
	}
	addJSON := func(name string, v any, unlisted bool) {
		if d.skip == name {
			return
		}
		b := d.override[name]
		if b == nil {
			var err error
			if b, err = json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
		add(part{header: zip.FileHeader{Name: name, Method: zip.Deflate}, body: b, unlisted: unlisted})
	}
	for _, p := range d.parts {
		add(p)
	}
	addJSON(planName, d.plan, false)
	addJSON(verdictsName, d.verdicts, false)
	addJSON(replayName, d.replay, false)
	if d.list != nil {
		d.list(&d.manifest)
	}
	addJSON(manifestName, d.manifest, true)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if d.bytes != nil {
		return d.bytes(out.Bytes())
	}
	return out.Bytes()
}

func TestTheDraftItselfIsSound(t *testing.T) {
	r, err := Read(sound(t).build(t))
	if err != nil {
		t.Fatal(err)
	}
	if events, err := r.Events("aa"); err != nil || len(events) != 1 || events[0].Fields["n"] != int64(3) {
		t.Fatalf("%v, %v", events, err)
	}
}

func named(name string) part { return part{header: zip.FileHeader{Name: name}, body: []byte("x")} }

// directory changes the central directory's entry of a member, at an offset within that entry.
func directory(name string, at int, b ...byte) func([]byte) []byte {
	return func(file []byte) []byte {
		i := bytes.LastIndex(file, []byte(name))
		// The name stands 46 bytes into its entry.
		copy(file[i-46+at:], b)
		return file
	}
}

func bomb() part {
	// 64 MiB of zeros, packed 1:1029 per layer of deflate; a claimed size far beyond that is refused too.
	h := zip.FileHeader{Name: "spec/bomb", Method: zip.Deflate, UncompressedSize64: 1 << 30, CompressedSize64: 100}
	return part{header: h, body: make([]byte, 100), raw: true}
}

// hostileCase is one thing that is wrong, and what the reader has to say to it.
type hostileCase struct {
	name, want string
	spoil      func(*draft)
}

func hostile() []hostileCase {
	link := zip.FileHeader{Name: "spec/link"}
	link.SetMode(fs.ModeSymlink | 0o777)
	device := zip.FileHeader{Name: "spec/dev"}
	device.SetMode(fs.ModeDevice | 0o600)
	return []hostileCase{
		{"path leads up", "leads out of the bundle", func(d *draft) { d.parts = append(d.parts, named("../evil")) }},
		{"path leads up inside", "not in its simplest form", func(d *draft) { d.parts = append(d.parts, named("spec/../../evil")) }},
		{"absolute path", "absolute", func(d *draft) { d.parts = append(d.parts, named("/etc/passwd")) }},
		{"backslash path", "not allowed", func(d *draft) { d.parts = append(d.parts, named(`spec\..\evil`)) }},
		{"drive letter", "not allowed", func(d *draft) { d.parts = append(d.parts, named("C:evil")) }},
		{"control character", "not allowed", func(d *draft) { d.parts = append(d.parts, named("spec/a\x00b")) }},
		{"name not UTF-8", "not UTF-8", func(d *draft) { d.parts = append(d.parts, named("spec/\xff\xfe")) }},
		{"name of a kilobyte", "too long", func(d *draft) { d.parts = append(d.parts, named("spec/"+strings.Repeat("a", 1000))) }},
		{"lone percent", "lone %", func(d *draft) { d.parts = append(d.parts, named("spec/%x")) }},
		{"up in the middle", "lone %", func(d *draft) { d.parts = append(d.parts, named("spec/a/%up/b")) }},
		{"directory entry", "not in its simplest form", func(d *draft) { d.parts = append(d.parts, part{header: zip.FileHeader{Name: "spec/d/"}}) }},
		{"symlink", "not a regular file", func(d *draft) { d.parts = append(d.parts, part{header: link, body: []byte("/etc/passwd")}) }},
		{"device", "not a regular file", func(d *draft) { d.parts = append(d.parts, part{header: device}) }},
		{"duplicate name", "appears twice", func(d *draft) { d.parts = append(d.parts, d.parts[2]) }},
		{"claimed size of a bomb", "times its size", func(d *draft) { d.parts = append(d.parts, bomb()) }},
		{"claims less than it is", "the manifest says 10", func(d *draft) { d.bytes = directory("spec/x.star", 24, 1, 0, 0, 0) }},
		{"encrypted flag", "encrypted", func(d *draft) { d.bytes = directory("spec/x.star", 8, 9) }},
		{"unknown method", "compression method 93", func(d *draft) { d.bytes = directory("spec/x.star", 10, 93) }},
		{"members share bytes", "overlaps", overlapping},
		{"cut short", "cut short", func(d *draft) { d.bytes = func(b []byte) []byte { return b[:len(b)-30] } }},
		{"only the end", "belong to no member", func(d *draft) { d.bytes = func(b []byte) []byte { return b[len(b)-22:] } }},
		{"empty file", "too short", func(d *draft) { d.bytes = func([]byte) []byte { return nil } }},
		{"text file", "not a zip archive", func(d *draft) { d.bytes = func([]byte) []byte { return []byte(strings.Repeat("PASS\n", 100)) } }},
		{"bytes before the archive", "belong to no member", func(d *draft) { d.bytes = func(b []byte) []byte { return append([]byte("#!/bin/sh\n"), b...) } }},
		{"bytes after the archive", "not a zip archive", func(d *draft) { d.bytes = func(b []byte) []byte { return append(b, "tail"...) } }},
		{"a bit flipped", "checksum", func(d *draft) { d.bytes = flip }},
		{"not listed", "not listed", func(d *draft) { p := named("spec/y.star"); p.unlisted = true; d.parts = append(d.parts, p) }},
		{"listed and missing", "and missing", func(d *draft) {
			d.list = func(m *Manifest) { m.Members = append(m.Members, Member{Path: "spec/gone"}) }
		}},
		{"listed twice", "listed twice", func(d *draft) { d.list = func(m *Manifest) { m.Members = append(m.Members, m.Members[0]) } }},
		{"manifest lists itself", "lists itself", func(d *draft) {
			d.list = func(m *Manifest) { m.Members = append(m.Members, Member{Path: manifestName}) }
		}},
		{"another hash", "SHA-256", func(d *draft) { d.list = func(m *Manifest) { m.Members[0].SHA256 = strings.Repeat("0", 64) } }},
		{"another size", "the manifest says", func(d *draft) { d.list = func(m *Manifest) { m.Members[0].Size++ } }},
		{"no manifest", "manifest.json: missing", func(d *draft) { d.skip = manifestName }},
		{"no plan", "plan.json: missing", func(d *draft) { d.skip = planName }},
		{"no verdicts", "verdicts.json: missing", func(d *draft) { d.skip = verdictsName }},
		{"no replay", "replay.json: missing", func(d *draft) { d.skip = replayName }},
		{"manifest is not JSON", "manifest.json: unexpected end", func(d *draft) { d.override[manifestName] = []byte("{") }},
		{"JSON nested without end", "max depth", func(d *draft) { d.override[planName] = []byte(strings.Repeat("[", 1<<20)) }},
		{"leaves without end", "more than 2500000 objects", func(d *draft) {
			d.override[planName] = []byte(`{"schema":"squall.plan/1","leaves":[` + strings.Repeat("{},", 3_000_000) + `{}]}`)
		}},
		{"names without end", "more than 2500000 objects", func(d *draft) {
			d.override[planName] = []byte(`{"schema":"squall.plan/1","untried":[` + strings.Repeat(`"",`, 21_000_000) + `""]}`)
		}},
		{"verdicts of another type", "cannot unmarshal", func(d *draft) { d.override[verdictsName] = []byte(`{"schema":"squall.verdicts/1","leaves":7}`) }},
		{"two JSON values", "after top-level value", func(d *draft) { d.override[planName] = []byte(`{"schema":"squall.plan/1"}{}`) }},
		{"next major of the manifest", "squall.manifest/2", func(d *draft) { d.manifest.Schema = "squall.manifest/2" }},
		{"next major of the plan", "squall.plan/2.1", func(d *draft) { d.override[planName] = []byte(`{"schema":"squall.plan/2.1","leaves":"elsewhere"}`) }},
		{"next major of verdicts", "squall.verdicts/2", func(d *draft) { d.verdicts.Schema = "squall.verdicts/2" }},
		{"another format", "other.replay/1", func(d *draft) { d.replay.Schema = "other.replay/1" }},
		{"no schema", "has schema \"\"", func(d *draft) { d.verdicts.Schema = "" }},
		{"leaf outside the plan", "not in the plan", func(d *draft) { d.plan.Leaves[0].ID = "bb" }},
		{"leaf of another name", "the plan says", func(d *draft) { d.verdicts.Leaves[0].Scenario = "t" }},
		{"leaf under another fault", "the plan says", func(d *draft) { d.verdicts.Leaves[0].Assumption = "a" }},
		{"leaf without a verdict", "2 leaves planned, 1 with", func(d *draft) { d.plan.Leaves = append(d.plan.Leaves, PlanLeaf{ID: "bb"}) }},
		{"leaf judged twice", "two verdicts", func(d *draft) { d.verdicts.Leaves = append(d.verdicts.Leaves, d.verdicts.Leaves[0]) }},
		{"leaf id with a slash", "not usable", func(d *draft) { d.plan.Leaves[0].ID, d.verdicts.Leaves[0].ID = "../x", "../x" }},
		{"unknown outcome", "unknown outcome", func(d *draft) { d.verdicts.Leaves[0].Verdict.Outcome = "GREAT" }},
		{"no outcome", "unknown outcome", func(d *draft) { d.verdicts.Leaves[0].Verdict.Outcome = "" }},
		{"PASS over a FAIL", "does not follow", disguised},
		{"PASS of a stopped run", "does not follow", func(d *draft) { d.manifest.Complete = false }},
		{"PASS with no leaf at all", "does not follow", func(d *draft) { d.plan.Leaves, d.verdicts.Leaves, d.manifest.Summary.Pass = nil, nil, 0 }},
		{"counts that do not add up", "does not follow", func(d *draft) { d.manifest.Summary.Pass = 12 }},
		{"PASS over a fault that never fired", "never fired", func(d *draft) { d.verdicts.Leaves[0].Rules = []RuleRecord{{ID: "a/0"}} }},
		{"PASS over a violated property", `is "violated"`, func(d *draft) {
			d.verdicts.Leaves[0].Properties = []PropertyRecord{{Name: "p", Result: "violated"}}
		}},
		{"PASS over an open property", `is "undecided"`, func(d *draft) {
			d.verdicts.Leaves[0].Properties = []PropertyRecord{{Name: "p", Result: "undecided"}}
		}},
		{"PASS over a property of no result", `is ""`, func(d *draft) {
			d.verdicts.Leaves[0].Properties = []PropertyRecord{{Name: "p"}}
		}},
		{"PASS without a baseline", "though the baseline", func(d *draft) {
			d.plan.Leaves[0].Assumption, d.verdicts.Leaves[0].Assumption = "a", "a"
		}},
		{"PASS with a reason", "PASS with the reason", func(d *draft) {
			d.verdicts.Leaves[0].Verdict.Reasons = []verdict.Reason{{Code: verdict.Timeout}}
		}},
		{"FAIL for what fails nothing", "FAIL with the reason timeout", func(d *draft) { d.judge(verdict.Fail, verdict.Timeout) }},
		{"INCONCLUSIVE over a violation", "INCONCLUSIVE with the reason monitor", func(d *draft) { d.judge(verdict.Inconclusive, verdict.MonitorViolated) }},
		{"FAIL without a reason", "without a reason", func(d *draft) { d.verdicts.Leaves[0].Verdict.Outcome = verdict.Fail }},
		{"event log missing", "missing, though", func(d *draft) { d.parts = d.parts[1:] }},
	}
}

// judge gives the leaf another verdict, and the manifest the summary that follows from it.
func (d *draft) judge(o verdict.Outcome, c verdict.Code) {
	d.verdicts.Leaves[0].Verdict = verdict.Verdict{Outcome: o, Reasons: []verdict.Reason{{Code: c}}}
	d.manifest.Summary = Summarize(d.verdicts.Leaves, d.manifest)
}

func flip(b []byte) []byte {
	b[bytes.Index(b, []byte("aa.ndjson.zst"))+20] ^= 0x40
	return b
}

func disguised(d *draft) {
	d.verdicts.Leaves[0].Verdict = verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{Code: verdict.MonitorViolated}}}
}

// overlapping makes the second member's entry point into the first one's bytes.
func overlapping(d *draft) {
	d.bytes = func(file []byte) []byte {
		first := bytes.LastIndex(file, []byte("events/aa.ndjson.zst")) - 46
		second := bytes.LastIndex(file, []byte("logs/aa/api.log")) - 46
		copy(file[second+42:second+46], file[first+42:first+46])
		return file
	}
}

func TestHostileBundlesAreRefused(t *testing.T) {
	cases := hostile()
	if len(cases) < 20 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			d := sound(t)
			tc.spoil(d)
			path := filepath.Join(t.TempDir(), "x.squall")
			if err := os.WriteFile(path, d.build(t), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Open(path)
			if err == nil {
				r.Close()
				t.Fatal("it was taken")
			}
			var invalid *InvalidError
			var schema *SchemaError
			if !errors.As(err, &invalid) && !errors.As(err, &schema) {
				t.Errorf("the error has no type: %v", err)
			}
			if strings.Contains(tc.name, "major") && schema == nil {
				t.Errorf("the error is not one of the version: %v", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("refused for another reason: %v; want %q", err, tc.want)
			}
		})
	}
}

func TestAMinorVersionIsRead(t *testing.T) {
	d := sound(t)
	d.plan.Schema, d.manifest.Schema = PlanSchema+".3", ManifestSchema+".1"
	if _, err := Read(d.build(t)); err != nil {
		t.Error(err)
	}
}

func TestHostileEventLogs(t *testing.T) {
	line := `{"seq":1,"at_ns":5,"service":"driver","kind":"note"}`
	for name, tc := range map[string]struct {
		body   []byte
		events int
	}{
		"not zstd":               {[]byte("plain"), 1},
		"not JSON":               {pack(t, "{\n"), 1},
		"another count":          {pack(t, line+"\n"), 2},
		"a number left out":      {pack(t, line+"\n"+strings.Replace(line, ":1", ":3", 1)+"\n"), 2},
		"two on a line":          {pack(t, line+line+"\n"), 1},
		"a line without end":     {pack(t, strings.Repeat(" ", 9<<20)), 1},
		"cut in a frame":         {pack(t, strings.Repeat(line+"\n", 10))[:20], 10},
		"nothing":                {pack(t, ""), 1},
		"fields of another kind": {pack(t, `{"seq":1,"fields":[1]}`+"\n"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := sound(t)
			d.parts[0].body = tc.body
			d.verdicts.Leaves[0].Events = tc.events
			r, err := Read(d.build(t))
			if err != nil {
				t.Fatalf("the archive itself is sound: %v", err)
			}
			if events, err := r.Events("aa"); err == nil {
				t.Errorf("taken: %v", events)
			}
		})
	}
}

// An event log of a few kilobytes that unpacks to gigabytes must end at the limit, whether it says
// its size, in one frame, or hides it in many.
func TestEventBombEnds(t *testing.T) {
	line := func(seq string) string {
		return `{"seq":` + seq + `,"service":"` + strings.Repeat("a", 600<<10) + "\"}\n"
	}
	for name, body := range map[string][]byte{
		"one frame":   pack(t, line("1")+line("2")+line("3")),
		"many frames": slices.Concat(pack(t, line("1")), pack(t, line("2")), pack(t, line("3"))),
	} {
		d := sound(t)
		d.parts[0].body = body
		r, err := Read(d.build(t))
		if err != nil {
			t.Fatal(err)
		}
		r.limits.Events = 1 << 20
		n := 0
		err = r.EachEvent("aa", func(event.Event) error { n++; return nil })
		if err == nil || !strings.Contains(err.Error(), "larger than") && !strings.Contains(err.Error(), "exceeds configured limit") {
			t.Errorf("%s: %d events, %v", name, n, err)
		}
	}
}

func TestLimitsHold(t *testing.T) {
	b := sound(t).build(t)
	for name, change := range map[string]func(*Limits){
		"file":      func(l *Limits) { l.File = int64(len(b)) - 1 },
		"directory": func(l *Limits) { l.Directory = 100 },
		"members":   func(l *Limits) { l.Members = 3 },
		"total":     func(l *Limits) { l.Total = 100 },
		"member":    func(l *Limits) { l.Member = 5 },
		"json":      func(l *Limits) { l.JSON = 50 },
	} {
		r := &Reader{limits: DefaultLimits()}
		change(&r.limits)
		var invalid *InvalidError
		if err := r.load(bytes.NewReader(b), int64(len(b))); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	b := sound(f).build(f)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(flip(bytes.Clone(b)))
	end := bytes.Clone(b)
	binary.LittleEndian.PutUint16(end[len(end)-12:], 0xffff)
	f.Add(end)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Read(b)
		if err != nil {
			return
		}
		if r.manifest.Summary.Outcome == verdict.Pass && (len(r.verdicts.Leaves) == 0 || !r.manifest.Complete) {
			t.Error("a PASS out of nothing")
		}
		for _, leaf := range r.verdicts.Leaves {
			_, _ = r.Events(leaf.ID)
			for _, service := range r.Logs(leaf.ID) {
				_, _ = r.Log(leaf.ID, service)
			}
		}
		if _, err := r.SpecFiles(); err != nil {
			t.Errorf("a verified bundle's specification cannot be read: %v", err)
		}
	})
}
