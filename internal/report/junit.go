package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/verdict"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property,omitempty"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure,omitempty"`
	Error   *junitProblem `xml:"error,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the verdicts as JUnit XML: one testsuite for the specification, one testcase a leaf.
// FAIL is a failure; INCONCLUSIVE is an error, so that no reader takes it for a success or a skip.
func JUnit(w io.Writer, m bundle.Manifest, v bundle.Verdicts) error {
	suite := junitSuite{
		Name: m.Source, Tests: len(v.Leaves), Failures: m.Summary.Fail, Errors: m.Summary.Inconclusive,
		Time: junitTime(m.Summary.Duration),
		Properties: []junitProperty{
			{"squall.seed", fmt.Sprint(m.Seed)}, {"squall.tool", m.Tool}, {"squall.outcome", string(m.Summary.Outcome)},
		},
	}
	if !m.CreatedAt.IsZero() {
		suite.Timestamp = m.CreatedAt.UTC().Format("2006-01-02T15:04:05")
	}
	for _, leaf := range v.Leaves {
		suite.Cases = append(suite.Cases, junitLeaf(m, leaf))
	}
	if len(v.Leaves) == 0 {
		// A file without a case reads as success everywhere; nothing tested is none.
		row, _ := verdict.Lookup(verdict.NothingTested)
		suite.Tests, suite.Errors = 1, 1
		suite.Cases = []junitCase{{Name: "squall", Class: className(m.Source), Time: "0.000",
			Error: &junitProblem{Message: row.Sentence, Type: string(row.Code), Text: row.Mend}}}
	}
	suites := junitSuites{
		Name: "squall", Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time, Suites: []junitSuite{suite},
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suites); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitLeaf(m bundle.Manifest, leaf bundle.Leaf) junitCase {
	c := junitCase{
		Name: leaf.Scenario + " x " + leaf.Assumption, Class: className(m.Source),
		Time: junitTime(leaf.Duration), Out: "leaf " + leaf.ID,
	}
	if leaf.Verdict.Outcome == verdict.Pass {
		return c
	}
	p := &junitProblem{Message: string(leaf.Verdict.Outcome), Type: string(leaf.Verdict.Outcome)}
	var lines []string
	for i, r := range leaf.Verdict.Reasons {
		if i == 0 {
			p.Message, p.Type = printable(reason(r)), string(r.Code)
		}
		row, _ := verdict.Lookup(r.Code)
		line := reason(r) + "\n" + row.Sentence + "\nmend: " + row.Mend
		if r.Position != "" {
			line = r.Position + ": " + line
		}
		if r.Witness > 0 {
			line += fmt.Sprintf("\nwitness: event #%d", r.Witness)
		}
		lines = append(lines, line)
	}
	p.Text = strings.Join(append(lines, "leaf "+leaf.ID), "\n")
	if leaf.Verdict.Outcome == verdict.Fail {
		c.Failure = p
	} else {
		c.Error = p
	}
	return c
}

func className(source string) string {
	return "squall." + strings.TrimSuffix(strings.ReplaceAll(strings.Trim(source, "./"), "/", "."), ".star")
}

func junitTime(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// JSON writes the verdicts as the bundle's verdicts.json has them.
func JSON(w io.Writer, v bundle.Verdicts) error {
	v.Schema = bundle.VerdictsSchema
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
