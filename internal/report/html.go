package report

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

//go:embed dist/report.js
var script string

//go:embed dist/report.css
var style string

//go:embed page.tmpl
var pageTemplate string

// HTML writes the report: one page that needs nothing but itself. What it says is in the page as
// plain HTML, so that it prints and reads without its script; the script adds the lanes, the event
// lists and the logs of each leaf, from data that it unpacks when a leaf is opened.
func HTML(w io.Writer, r *bundle.Reader) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"seconds": seconds, "plural": plural, "sentence": sentenceCase,
	}).Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	p, payloads, err := newPage(r)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	if err := t.ExecuteTemplate(out, "top", p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, id := range p.order {
		fmt.Fprintf(out, `<script type="application/gzip" id="data-%s">%s</script>`+"\n", id, payloads[id])
	}
	// The script stands outside the template: the policy in the head names its hash, so that not one
	// byte of it may be escaped.
	io.WriteString(out, "<script>"+script+"</script>\n</body>\n</html>\n")
	return out.Flush()
}

// page is what the template shows.
type page struct {
	Manifest bundle.Manifest
	Plan     bundle.Plan
	Sentence string
	Replay   string
	Levels   string
	Policy   string
	Style    template.CSS
	Matrix   matrixView
	Cards    []card
	Coverage coverage
	order    []string
	text     Text
}

type matrixView struct {
	Assumptions []column
	Rows        []matrixRow
}

type column struct{ Name, Doc string }

type matrixRow struct {
	Scenario, Doc string
	Cells         []matrixCell
}

type matrixCell struct {
	Assumption string
	Leaves     []leafLink
}

type leafLink struct {
	ID, Short, Text, Class, Label string
}

// card tells about one leaf that does not pass.
type card struct {
	Leaf           bundle.Leaf
	Link           leafLink
	Reason, Mend   string
	More           []string
	Again          string
	Story          []line
	Interpretation string
}

// line is an event of a story.
type line struct {
	Seq                 int64
	Lane, Verb, What    string
	Fault, Witness, Dim bool
}

func newPage(r *bundle.Reader) (*page, map[string]string, error) {
	m, v := r.Manifest(), r.Verdicts()
	p := &page{
		Manifest: m, Plan: r.Plan(), Sentence: Sentence(v), Levels: levels(v),
		Style: template.CSS(style), Policy: policy(),
		text: Text{Plan: r.Plan(), Bundle: r.Path()},
	}
	p.Matrix = p.matrix(v)
	payloads := map[string]string{}
	s := newSurveyor(p.Plan)
	for _, leaf := range v.Leaves {
		data, err := newPayload(p.Plan, leaf, r)
		if err != nil {
			return nil, nil, err
		}
		events, err := r.Events(leaf.ID)
		if err != nil {
			return nil, nil, err
		}
		s.leaf(events)
		if leaf.Verdict.Outcome != verdict.Pass && !interrupted(leaf) {
			p.Cards = append(p.Cards, p.card(leaf, data))
		}
		if payloads[leaf.ID], err = packed(data); err != nil {
			return nil, nil, err
		}
		p.order = append(p.order, leaf.ID)
	}
	slices.SortStableFunc(p.Cards, func(a, b card) int { return rank(a.Leaf) - rank(b.Leaf) })
	p.Replay = "squall replay " + shellQuote(r.Path())
	if len(p.Cards) > 0 {
		p.Replay = p.Cards[0].Again
	}
	p.Coverage = s.result(v)
	run, err := packed(p.run(r))
	if err != nil {
		return nil, nil, err
	}
	payloads["run"] = run
	p.order = append(p.order, "run")
	return p, payloads, nil
}

// runData is the part of the page's data that is not about one leaf only.
type runData struct {
	Verdicts bundle.Verdicts        `json:"verdicts"`
	Short    map[string]string      `json:"short"`
	Again    map[string]string      `json:"again"`
	Codes    map[string]verdict.Row `json:"codes"`
	Reasons  map[string][]string    `json:"reasons"`
}

func (p *page) run(r *bundle.Reader) runData {
	d := runData{Verdicts: r.Verdicts(), Short: map[string]string{}, Again: map[string]string{}, Codes: map[string]verdict.Row{}, Reasons: map[string][]string{}}
	for _, row := range verdict.Codes() {
		d.Codes[string(row.Code)] = row
	}
	for _, leaf := range d.Verdicts.Leaves {
		d.Short[leaf.ID], d.Again[leaf.ID] = p.text.short(leaf.ID), p.text.again(leaf.ID)
		for _, why := range leaf.Verdict.Reasons {
			d.Reasons[leaf.ID] = append(d.Reasons[leaf.ID], short(why))
		}
	}
	return d
}

// short is a reason where the outcome already stands beside it.
func short(r verdict.Reason) string {
	return strings.TrimPrefix(reason(r), "INCONCLUSIVE ")
}

func sentenceCase(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func rank(leaf bundle.Leaf) int {
	if leaf.Verdict.Outcome == verdict.Fail {
		return 0
	}
	return 1
}

func (p *page) matrix(v bundle.Verdicts) matrixView {
	g, leaves := newGrid(p.Plan), byID(v)
	docs := map[string]string{}
	for _, a := range p.Plan.Assumptions {
		docs[a.Name] = strings.Join(append([]string{a.Doc}, a.Effects...), "  ")
	}
	for _, s := range p.Plan.Scenarios {
		docs["scenario "+s.Name] = s.Doc
	}
	var out matrixView
	for _, a := range g.assumptions {
		out.Assumptions = append(out.Assumptions, column{a, strings.TrimSpace(docs[a])})
	}
	for _, s := range g.scenarios {
		row := matrixRow{Scenario: s, Doc: docs["scenario "+s]}
		for _, a := range g.assumptions {
			c := matrixCell{Assumption: a}
			for _, id := range g.cells[cellKey{s, a}] {
				c.Leaves = append(c.Leaves, p.link(leaves[id]))
			}
			row.Cells = append(row.Cells, c)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func (p *page) link(leaf bundle.Leaf) leafLink {
	l := leafLink{ID: leaf.ID, Short: p.text.short(leaf.ID), Text: cell(leaf.Verdict.Outcome), Class: class(leaf)}
	l.Label = fmt.Sprintf("%s under %s: %s, leaf %s", leaf.Scenario, leaf.Assumption, strings.ToLower(string(leaf.Verdict.Outcome)), l.Short)
	return l
}

func class(leaf bundle.Leaf) string {
	switch {
	case interrupted(leaf):
		return "stopped"
	case leaf.Verdict.Outcome == verdict.Pass:
		return "pass"
	case leaf.Verdict.Outcome == verdict.Fail:
		return "fail"
	}
	return "open"
}

func (p *page) card(leaf bundle.Leaf, data payload) card {
	first := leaf.Verdict.Reasons[0]
	row, _ := verdict.Lookup(first.Code)
	c := card{Leaf: leaf, Link: p.link(leaf), Reason: short(first), Mend: row.Mend, Interpretation: row.Sentence, Again: p.text.again(leaf.ID)}
	for _, r := range leaf.Verdict.Reasons[1:] {
		c.More = append(c.More, short(r))
	}
	for _, seq := range data.Story {
		i := seq - 1
		c.Story = append(c.Story, line{
			Seq: seq, Lane: data.Lanes[data.Lane[i]], Verb: data.Verb[i], What: printable(data.What[i]),
			Fault: data.Fault[i] > 0, Witness: seq == data.Witness,
		})
	}
	return c
}

func levels(v bundle.Verdicts) string {
	var out []string
	for _, leaf := range v.Leaves {
		if leaf.Level != "" && !slices.Contains(out, leaf.Level) {
			out = append(out, leaf.Level)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// policy allows the page's own style and script by their hashes, and nothing else: what a program
// printed cannot become code, and the page loads nothing.
func policy() string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; base-uri 'none'; form-action 'none'; script-src " + hash(script) + "; style-src " + hash(style)
}

func packed(v any) (string, error) {
	var out strings.Builder
	b64 := base64.NewEncoder(base64.StdEncoding, &out)
	z, err := gzip.NewWriterLevel(b64, gzip.BestSpeed+3)
	if err != nil {
		return "", err
	}
	e := json.NewEncoder(z)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := b64.Close(); err != nil {
		return "", err
	}
	return out.String(), nil
}
