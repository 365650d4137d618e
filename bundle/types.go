// Package bundle is the evidence on disk: its types, its writer and its reader.
//
// A bundle is a zip, *.squall: manifest.json, plan.json, verdicts.json,
// replay.json, events/<leaf>.ndjson.zst, logs/<leaf>/<service>.log and
// spec/<file>. The manifest has the SHA-256 of every other member.
package bundle

import (
	"time"

	"github.com/squallhq/squall/verdict"
)

// Schema names of the JSON members. A reader refuses a major version that it does not know.
const (
	ManifestSchema = "squall.manifest/1"
	PlanSchema     = "squall.plan/1"
	VerdictsSchema = "squall.verdicts/1"
	ReplaySchema   = "squall.replay/1"
)

// Manifest describes a bundle.
type Manifest struct {
	Schema string `json:"schema"`
	// Tool is the version of squall that wrote it.
	Tool      string    `json:"tool"`
	CreatedAt time.Time `json:"created_at"`
	// Complete is false where the run was stopped: what is decided is there, the rest is Interrupted.
	Complete    bool              `json:"complete"`
	Seed        uint64            `json:"seed"`
	Source      string            `json:"source"`
	Environment map[string]string `json:"environment"`
	Members     []Member          `json:"members"`
	Summary     Summary           `json:"summary"`
}

// Member is a file of the bundle.
type Member struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Summary counts outcomes.
type Summary struct {
	Outcome      verdict.Outcome `json:"outcome"`
	Pass         int             `json:"pass"`
	Fail         int             `json:"fail"`
	Inconclusive int             `json:"inconclusive"`
	Duration     time.Duration   `json:"duration_ns"`
}

// Plan is what was to be run.
type Plan struct {
	Schema      string           `json:"schema"`
	Source      string           `json:"source"`
	Seed        uint64           `json:"seed"`
	Services    []PlanService    `json:"services"`
	Scenarios   []PlanScenario   `json:"scenarios"`
	Assumptions []PlanAssumption `json:"assumptions"`
	Leaves      []PlanLeaf       `json:"leaves"`
	// Untried names assumptions that are declared, and that no leaf of the specification tries.
	Untried []string `json:"untried,omitempty"`
	// Pruned are leaves that the scenario has ruled out before its first step, or that are the same as another.
	Pruned []PrunedLeaf `json:"pruned,omitempty"`
	// Coverage is what can go wrong, part by part, and how many leaves of the plan try it.
	Coverage []PlanCoverage `json:"coverage,omitempty"`
	// Open tells that leaves may come to light while others run.
	Open bool `json:"open,omitempty"`
	// Unexplored is how many leaves came to light that a limit left out.
	Unexplored int `json:"unexplored,omitempty"`
}

// PlanService is a declared service.
type PlanService struct {
	Name      string   `json:"name"`
	Binary    string   `json:"binary"`
	DependsOn []string `json:"depends_on,omitempty"`
	// Ref is what the specification's text calls it; "" where it has no name there.
	Ref        string          `json:"ref,omitempty"`
	Interfaces []PlanInterface `json:"interfaces"`
	Position   string          `json:"position,omitempty"`
}

// PlanInterface is a declared interface.
type PlanInterface struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	// Port is 0 for a Unix socket, which has a Path.
	Port int    `json:"port,omitempty"`
	Path string `json:"path,omitempty"`
}

// PlanScenario is a declared scenario.
type PlanScenario struct {
	Name     string `json:"name"`
	Doc      string `json:"doc,omitempty"`
	Position string `json:"position,omitempty"`
	// Ref is what the specification's text calls its function; "" where that has no name there.
	Ref string `json:"ref,omitempty"`
	// Choices are the unknowns that its code can come to, as far as its text tells.
	Choices []PlanChoice `json:"choices,omitempty"`
}

// PlanAssumption is a declared assumption.
type PlanAssumption struct {
	Name     string   `json:"name"`
	Doc      string   `json:"doc,omitempty"`
	Effects  []string `json:"effects"`
	Position string   `json:"position,omitempty"`
}

// Baseline is the assumption of a leaf that runs without any fault.
const Baseline = "none"

// PlanLeaf is one run to be made.
type PlanLeaf struct {
	ID       string `json:"id"`
	Scenario string `json:"scenario"`
	// Assumption is Baseline, "none", for a baseline.
	Assumption string `json:"assumption"`
	Seed       uint64 `json:"seed"`
	// Cell is what leaves that differ by their choices or their run have in common; "" where it is the ID.
	Cell string `json:"cell,omitempty"`
	// Choices are those at which the leaf takes another option than the first; it takes the first at all others.
	Choices []ChoiceRecord `json:"choices,omitempty"`
	// Waits is what became of the operations of its parallel branches: "." ended, "w" waited for another branch,
	// a letter is the branch that went on first where all waited.
	Waits string `json:"waits,omitempty"`
	// Run is the number of the repetition, from 0.
	Run int `json:"run,omitempty"`
}

// PlanChoice is a choice that is known before anything runs.
type PlanChoice struct {
	Name string `json:"name"`
	// Options are the options in words; empty where they are not known.
	Options []string `json:"options,omitempty"`
	// Sure is set where every run comes to it that does not end before.
	Sure     bool   `json:"sure,omitempty"`
	Position string `json:"position,omitempty"`
}

// PlanCoverage is a part of the system and a class of faults.
type PlanCoverage struct {
	// Service is the one that is hit. From and Interface are set for faults between two services.
	Service   string `json:"service"`
	From      string `json:"from,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Class is connections, messages, disk or process.
	Class  string `json:"class"`
	Leaves int    `json:"leaves"`
}

// PrunedLeaf is a combination of choices that turned out to be none.
type PrunedLeaf struct {
	PlanLeaf
	Why string `json:"why"`
}

// Verdicts is what came of it.
type Verdicts struct {
	Schema string `json:"schema"`
	Leaves []Leaf `json:"leaves"`
}

// Leaf is what came of one run.
type Leaf struct {
	ID         string          `json:"id"`
	Scenario   string          `json:"scenario"`
	Assumption string          `json:"assumption"`
	Seed       uint64          `json:"seed"`
	Verdict    verdict.Verdict `json:"verdict"`
	Duration   time.Duration   `json:"duration_ns"`
	// Phases are how long start, body and stop took.
	Phases     map[string]time.Duration `json:"phases_ns,omitempty"`
	Rules      []RuleRecord             `json:"rules,omitempty"`
	Properties []PropertyRecord         `json:"properties,omitempty"`
	Choices    []ChoiceRecord           `json:"choices,omitempty"`
	// Result is the scenario's result in the words of the spec.
	Result string `json:"result,omitempty"`
	Assurance
	// Events is how many events the leaf's log has.
	Events int `json:"events"`
	// Trace is the hash of the log's normal form; two runs that did the same have the same.
	Trace string `json:"trace,omitempty"`
}

// RuleRecord is a rule and what it did.
type RuleRecord struct {
	ID         string `json:"id"`
	Assumption string `json:"assumption,omitempty"`
	Target     string `json:"target"`
	Effect     string `json:"effect"`
	Optional   bool   `json:"optional,omitempty"`
	Fired      int    `json:"fired"`
	Position   string `json:"position,omitempty"`
}

// PropertyRecord is a property and how it was decided.
type PropertyRecord struct {
	Name string `json:"name"`
	// Kind is monitor, eventually or always.
	Kind string `json:"kind"`
	// Result is violated, satisfied, undecided or never_triggered.
	Result   string `json:"result"`
	Message  string `json:"message,omitempty"`
	Witness  int64  `json:"witness,omitempty"`
	Position string `json:"position,omitempty"`
}

// ChoiceRecord is a decided unknown.
type ChoiceRecord struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	Of    int    `json:"of"`
	// Option is the option taken, in words.
	Option string `json:"option,omitempty"`
}

// Decision is one decision of a rule, keyed so that scheduling does not matter.
type Decision struct {
	Rule string `json:"rule"`
	// Key is the service and, for links, the flow and direction.
	Key   string `json:"key"`
	Index int64  `json:"index"`
	Hit   bool   `json:"hit"`
}

// Replay is what a replay needs beyond the spec.
type Replay struct {
	Schema string `json:"schema"`
	Source string `json:"source"`
	// Args are the options of the recorded run that change what is run.
	Args []string `json:"args,omitempty"`
	// Decisions are kept by leaf.
	Decisions map[string][]Decision `json:"decisions,omitempty"`
}
