// Package bundletest makes bundles for tests: a shop of two services under three assumptions, with
// one failure and one leaf whose fault never fired.
package bundletest

import (
	"fmt"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// Options change what Shop writes.
type Options struct {
	// Extra is how many more events the failing leaf has.
	Extra int
	// Interrupted leaves the last row of the matrix undecided.
	Interrupted bool
	// Seed is the run's seed; 0 means 42.
	Seed uint64
	// Clean gives the order that is lost back to the disk, so that every leaf but one passes.
	Clean bool
}

// Failing and Open are the ids of the two leaves that do not pass.
const (
	Failing = "7c1e04b2"
	Open    = "90abd113"
)

const source = `# shop.star: two services, three things that go wrong.
db = service("db", binary="bin/store",
    interfaces=[interface("main", "http", 5432)],
    healthcheck=tcp("localhost:5432"))
api = service("api", binary="bin/api", depends_on=[db],
    interfaces=[interface("public", "http", 8080)],
    env={"DB": "http://db:5432"},
    healthcheck=http("localhost:8080/health"))

db_down   = fault_assumption("db_down", link(api, db).refuse())
disk_full = fault_assumption("disk_full", db.fault(write=deny("ENOSPC"), path="/data/**"))
slow_link = fault_assumption("slow_link", link(api, db).latency("120ms"))

def confirmed_means_persisted(e):
    """an order that a client was told about is on disk"""
    if not [w for w in events().where(service="db", op="append", order=e.order)]:
        fail("order %d was confirmed, never written" % e.order)

monitor("confirmed_means_persisted", on=stdout(service="api", status="confirmed"), fn=confirmed_means_persisted)
fault_matrix([create_order, cancel_order, list_orders], [db_down, disk_full, slow_link])
`

// Shop writes the bundle to path.
func Shop(path string, o Options) error {
	if o.Seed == 0 {
		o.Seed = 42
	}
	w, err := bundle.Create(path, bundle.NewRedactor([]string{"SHOP_API_TOKEN=s3cr3t-t0k3n-value"}))
	if err != nil {
		return err
	}
	defer w.Abort()
	plan := Plan(o.Seed)
	if err := w.Plan(plan); err != nil {
		return err
	}
	if err := w.SpecFile("shop.star", []byte(source)); err != nil {
		return err
	}
	for i, leaf := range plan.Leaves {
		if o.Interrupted && i >= 8 {
			break
		}
		if err := writeLeaf(w, leaf, o, i); err != nil {
			return err
		}
	}
	w.Replay(bundle.Replay{Source: "shop.star", Args: []string{"--jobs", "2"}})
	return w.Close(bundle.Manifest{
		Tool: "squall 0.1.0", CreatedAt: time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC),
		Complete: !o.Interrupted, Seed: o.Seed, Source: "shop.star",
		Environment: map[string]string{
			"kernel": "6.8.0", "os": "linux/amd64", "backend": "notify", "namespaces": "yes", "user": "root",
			"cpus": "2", "SHOP_API_TOKEN": "s3cr3t-t0k3n-value",
		},
		Summary: bundle.Summary{Duration: 1_900 * time.Millisecond},
	})
}

// Plan returns the shop's plan.
func Plan(seed uint64) bundle.Plan {
	p := bundle.Plan{
		Source: "shop.star", Seed: seed,
		Services: []bundle.PlanService{
			{Name: "db", Binary: "bin/store", Interfaces: []bundle.PlanInterface{{Name: "main", Protocol: "http", Port: 5432}}, Position: "shop.star:2:6"},
			{Name: "api", Binary: "bin/api", DependsOn: []string{"db"}, Interfaces: []bundle.PlanInterface{{Name: "public", Protocol: "http", Port: 8080}}, Position: "shop.star:5:7"},
		},
		Scenarios: []bundle.PlanScenario{
			{Name: "create_order", Doc: "a client orders one piece", Position: "shop.star:24:1"},
			{Name: "cancel_order", Doc: "a client takes an order back", Position: "shop.star:29:1"},
			{Name: "list_orders", Doc: "a client looks at all orders", Position: "shop.star:35:1"},
		},
		Assumptions: []bundle.PlanAssumption{
			{Name: "db_down", Effects: []string{"refuse()"}, Position: "shop.star:10:13"},
			{Name: "disk_full", Doc: "the store's disk has no room", Effects: []string{`write=deny("ENOSPC")`}, Position: "shop.star:11:13"},
			{Name: "slow_link", Effects: []string{`latency("120ms")`}, Position: "shop.star:12:13"},
		},
	}
	ids := []string{
		"1f00a3c4", "2a91be07", Failing, "3d5512f9",
		"4e7730aa", "58c1d2e3", "6b09f4a1", Open,
		"8d3c5b72", "9e1f60d4", "a4b7c8e9", "b0d2e4f6",
	}
	for i, scenario := range p.Scenarios {
		for j, assumption := range []string{"none", "db_down", "disk_full", "slow_link"} {
			k := 4*i + j
			p.Leaves = append(p.Leaves, bundle.PlanLeaf{ID: ids[k], Scenario: scenario.Name, Assumption: assumption, Seed: seed*1000 + uint64(k)})
		}
	}
	return p
}

func writeLeaf(w *bundle.Writer, planned bundle.PlanLeaf, o Options, index int) error {
	l, err := w.Leaf(planned.ID)
	if err != nil {
		return err
	}
	defer l.Abort()
	r := record(planned, o, index)
	for _, e := range r.log.All() {
		if err := l.Event(e); err != nil {
			return err
		}
	}
	for _, service := range []string{"db", "api"} {
		if err := l.Log(service, r.output[service].Bytes()); err != nil {
			return err
		}
	}
	return l.Close(r.leaf, r.decisions)
}

func (r *recorder) judge(planned bundle.PlanLeaf, o Options) {
	leaf := &r.leaf
	*leaf = bundle.Leaf{
		ID: planned.ID, Scenario: planned.Scenario, Assumption: planned.Assumption, Seed: planned.Seed,
		Verdict: verdict.Verdict{Outcome: verdict.Pass}, Duration: r.at,
		Phases: map[string]time.Duration{"start": 24 * time.Millisecond, "body": r.at - 31*time.Millisecond, "stop": 7 * time.Millisecond},
		Rules:  r.rules, Result: r.result, Assurance: bundle.Assurance{Level: "L1", LevelReason: "the notify backend does not order threads"},
		Trace:   fmt.Sprintf("%016x", planned.Seed*0x9e3779b97f4a7c15),
		Choices: []bundle.ChoiceRecord{{Name: "quantity", Index: 1, Of: 3}},
	}
	monitor := bundle.PropertyRecord{Name: "confirmed_means_persisted", Kind: "monitor", Result: "satisfied", Position: "shop.star:19:1"}
	switch {
	case planned.ID == Failing && !o.Clean:
		monitor.Result, monitor.Message, monitor.Witness = "violated", "order 17 was confirmed, never written", r.witness
		leaf.Verdict = verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{
			Code: verdict.MonitorViolated, Detail: "order 17 was confirmed, never written", Subject: "confirmed_means_persisted",
			Witness: r.witness, Position: "shop.star:19:1",
		}}}
	case planned.ID == Open:
		leaf.Verdict = verdict.Verdict{Outcome: verdict.Inconclusive, Reasons: []verdict.Reason{{
			Code: verdict.FaultNeverFired, Detail: "no connection api -> db in this leaf", Subject: "slow_link/latency", Position: "shop.star:12:13",
		}}}
		fallthrough
	case planned.Scenario != "create_order":
		monitor.Result = "never_triggered"
		leaf.Verdict.Warnings = []verdict.Reason{{Code: verdict.NeverTriggered, Detail: "no order was confirmed", Subject: monitor.Name, Position: monitor.Position}}
	}
	leaf.Properties = []bundle.PropertyRecord{monitor}
}

func (r *recorder) tick(d time.Duration) { r.at += d }

func (r *recorder) add(lane string, kind event.Kind, fields map[string]any, after ...int64) int64 {
	return r.log.Append(lane, kind, fields, after...).Seq
}
