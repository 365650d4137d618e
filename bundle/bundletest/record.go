package bundletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/event"
)

// recorder plays a leaf: it appends what the supervisor would have seen.
type recorder struct {
	at        time.Duration
	log       *event.Log
	output    map[string]*bytes.Buffer
	rules     []bundle.RuleRecord
	decisions []bundle.Decision
	leaf      bundle.Leaf
	witness   int64
	result    string
	flows     int
}

const ms = time.Millisecond

func record(planned bundle.PlanLeaf, o Options, index int) *recorder {
	r := &recorder{output: map[string]*bytes.Buffer{"db": {}, "api": {}}}
	r.log = event.NewLog(func() time.Duration { return r.at })
	r.start()
	begin := r.add(event.Driver, event.Body, map[string]any{"phase": "begin"})
	r.install(planned.Assumption)
	for range 4 + index%3 {
		r.browse(planned)
	}
	r.act(planned, o)
	if planned.ID == Failing {
		for i := range o.Extra {
			r.noise(i)
		}
	}
	r.lift(planned.Assumption)
	r.tick(ms)
	r.add(event.Driver, event.Body, map[string]any{"phase": "end", "outcome": "returned"}, begin)
	r.stop()
	r.judge(planned, o)
	return r
}

func (r *recorder) start() {
	var ready int64
	for i, service := range []string{"db", "api"} {
		r.tick(3 * ms)
		started := r.add(service, event.Lifecycle, map[string]any{"phase": "started", "pid": int64(10 + i)}, ready)
		r.tick(6 * ms)
		port := []int{5432, 8080}[i]
		r.print(service, map[string]any{"msg": "listening", "port": int64(port)}, started)
		r.tick(2 * ms)
		ready = r.add(service, event.Lifecycle, map[string]any{"phase": "ready", "pid": int64(10 + i)})
	}
}

func (r *recorder) stop() {
	for i, service := range []string{"api", "db"} {
		r.tick(3 * ms)
		r.add(service, event.Lifecycle, map[string]any{"phase": "stopped", "pid": int64(11 - i), "signal": "SIGTERM"})
	}
}

func (r *recorder) install(assumption string) {
	rule := bundle.RuleRecord{Assumption: assumption}
	switch assumption {
	case "none":
		return
	case "db_down":
		rule.ID, rule.Target, rule.Effect, rule.Position = "db_down/refuse", "api -> db", "refuse()", "shop.star:10:13"
	case "disk_full":
		rule.ID, rule.Target, rule.Effect, rule.Position = "disk_full/write", "db", `write=deny("ENOSPC")`, "shop.star:11:13"
	case "slow_link":
		rule.ID, rule.Target, rule.Effect, rule.Position = "slow_link/latency", "api -> db", `latency("120ms")`, "shop.star:12:13"
	}
	r.rules = []bundle.RuleRecord{rule}
	r.add(event.Driver, event.Fault, map[string]any{"op": "installed", "rule": rule.ID, "assumption": assumption, "effect": rule.Effect, "fired": int64(0)})
}

func (r *recorder) lift(assumption string) {
	if assumption == "none" {
		return
	}
	rule := r.rules[0]
	r.add(event.Driver, event.Fault, map[string]any{"op": "lifted", "rule": rule.ID, "assumption": assumption, "effect": rule.Effect, "fired": int64(rule.Fired)})
}

func (r *recorder) fire(service string, after ...int64) int64 {
	rule := &r.rules[0]
	rule.Fired++
	r.decisions = append(r.decisions, bundle.Decision{Rule: rule.ID, Key: service, Index: int64(rule.Fired), Hit: true})
	return r.add(service, event.Fault, map[string]any{
		"op": "fired", "rule": rule.ID, "assumption": rule.Assumption, "effect": rule.Effect, "fired": int64(rule.Fired),
	}, after...)
}

func (r *recorder) print(service string, fields map[string]any, after ...int64) int64 {
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	r.output[service].Write(append(line, '\n'))
	fields["line"] = string(line)
	return r.add(service, event.Stdout, fields, after...)
}

// browse is a request that stays within api.
func (r *recorder) browse(planned bundle.PlanLeaf) {
	r.tick(2 * ms)
	send := r.add(event.Driver, event.StepSend, map[string]any{"target": "api.public", "protocol": "http", "method": "get", "args": map[string]any{"path": "/catalog"}})
	r.tick(ms)
	seen := r.print("api", map[string]any{"msg": "catalog", "items": int64(3)}, send)
	r.tick(ms)
	r.add(event.Driver, event.StepRecv, map[string]any{"target": "api.public", "method": "get", "status": int64(200), "ok": true, "body": `{"items":3}`, "duration_ms": int64(2)}, seen)
}

// act is the request that the scenario is about.
func (r *recorder) act(planned bundle.PlanLeaf, o Options) {
	method, path := "post", "/orders"
	switch planned.Scenario {
	case "cancel_order":
		method, path = "delete", "/orders/17"
	case "list_orders":
		method = "get"
	}
	r.tick(3 * ms)
	send := r.add(event.Driver, event.StepSend, map[string]any{"target": "api.public", "protocol": "http", "method": method, "args": map[string]any{"path": path, "item": "kite"}})
	r.tick(ms)
	last, status := send, int64(200)
	if planned.ID != Open {
		last, status = r.store(planned, send, o)
	}
	r.tick(ms)
	r.add(event.Driver, event.StepRecv, map[string]any{"target": "api.public", "method": method, "status": status, "ok": status < 400, "body": fmt.Sprintf(`{"status":%d}`, status), "duration_ms": int64(5)}, last)
	r.result = fmt.Sprintf("status %d", status)
}

func (r *recorder) link(op, rule string, after ...int64) int64 {
	fields := map[string]any{
		"op": op, "client": "api", "server": "db", "interface": "main", "flow": fmt.Sprintf("api>db.main#%d", r.flows), "direct": rule == "",
	}
	if rule != "" {
		fields["rule"] = rule
	}
	if op == "refused" {
		fields["errno"] = "ECONNREFUSED"
	}
	return r.add("api", event.Link, fields, after...)
}

// store is what happens between api and db.
func (r *recorder) store(planned bundle.PlanLeaf, send int64, o Options) (last, status int64) {
	r.flows++
	rule := ""
	if len(r.rules) > 0 && planned.Assumption != "disk_full" {
		rule = r.rules[0].ID
	}
	connect := r.link("connect", rule, send)
	r.tick(ms)
	if planned.Assumption == "db_down" {
		refused := r.link("refused", rule, r.fire("api", connect))
		r.tick(ms)
		return r.print("api", map[string]any{"msg": "store unreachable", "status": "failed"}, refused), 503
	}
	est := r.link("established", rule, connect)
	if planned.Assumption == "slow_link" {
		est = r.fire("api", est)
		r.tick(240 * ms)
	}
	r.tick(2 * ms)
	if planned.Scenario == "list_orders" {
		if planned.Assumption == "disk_full" {
			r.fire("db", r.print("db", map[string]any{"op": "compact"}, est))
		}
		read := r.print("db", map[string]any{"op": "scan", "rows": int64(16)}, est)
		return r.print("api", map[string]any{"msg": "listed", "orders": int64(16)}, read), 200
	}
	if planned.Assumption == "disk_full" {
		fired := r.fire("db", est)
		denied := r.add("db", event.Syscall, map[string]any{"name": "write", "pid": int64(10), "path": "/data/orders.wal", "on": "file", "decision": "deny", "errno": "ENOSPC", "rule": r.rules[0].ID, "index": int64(1)}, fired)
		r.tick(2 * ms)
		logged := r.add("db", event.Stderr, map[string]any{"line": "wal: write /data/orders.wal: no space left on device"}, denied)
		r.output["db"].WriteString("wal: write /data/orders.wal: no space left on device\n")
		r.tick(ms)
		if planned.ID == Failing && !o.Clean {
			r.witness = r.print("api", map[string]any{"status": "confirmed", "order": int64(17)}, logged)
			r.add(event.Driver, event.Property, map[string]any{"name": "confirmed_means_persisted", "result": "violated", "message": "order 17 was confirmed, never written", "witness": r.witness}, r.witness)
			return r.witness, 201
		}
		return r.print("api", map[string]any{"status": "failed", "order": int64(17)}, logged), 507
	}
	written := r.print("db", map[string]any{"op": "append", "order": int64(17)}, est)
	r.tick(ms)
	done := r.print("api", map[string]any{"status": "confirmed", "order": int64(17)}, written)
	r.link("close", rule, done)
	return done, 201
}

// noise is one of many events of a busy leaf.
func (r *recorder) noise(i int) {
	r.tick(37 * time.Microsecond)
	last := int64(r.log.Len())
	switch i % 4 {
	case 0:
		r.add(event.Driver, event.StepSend, map[string]any{"target": "api.public", "protocol": "http", "method": "get", "args": map[string]any{"path": fmt.Sprintf("/orders/%d", i)}})
	case 1:
		r.add("api", event.Stdout, map[string]any{"line": fmt.Sprintf("lookup %d", i), "msg": "lookup", "n": int64(i)}, last)
	case 2:
		r.add("db", event.Stdout, map[string]any{"line": fmt.Sprintf("read page %d", i%97), "op": "read", "page": int64(i % 97)}, last)
	default:
		r.add(event.Driver, event.StepRecv, map[string]any{"target": "api.public", "method": "get", "status": int64(404), "ok": false, "duration_ms": int64(1)}, last)
	}
}
