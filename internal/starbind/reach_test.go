package starbind

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/spec"
)

const reachPrelude = `
load("lib/faults.star", "fill_disk", "hurt_any", "slow_rule", "KW", "hurt_requests", lib_fault = "renamed")
db = service("db", interface("pg", "postgres", 5432), binary = "prog", ops = {"commit": op(["fsync", "pwrite64"], path = "/data/*.wal")})
api = service("api", interface("http", "http", 8080), binary = "prog")
cache = service("cache", interface("kv", "tcp", 6379), interface("admin", "http", 80), binary = "prog")
disk = fault_assumption("disk", target = db, fsync = deny("EIO"))
slow = fault_assumption("slow", target = db.pg, source = api, rules = [latency("1s")])
own = latency("1s", on = link(api, cache.kv))
start = fault
LINKS = {"x": link(db, api)}
WRITES = {"write": deny("EIO"), "close": deny("EIO")}
def nothing(): pass
def helper(svc): fault(svc, unlink = deny("EIO"), run = nothing)
def make(svc):
    def body(): fault(svc, listen = deny("EIO"), run = nothing)
    return body
def keeps(g):
    def inner(f = g): f(db, write = deny("EIO"), run = nothing)
    return inner
kept = keeps(fault)
def by_default(f = fault): f(db, write = deny("EIO"), run = nothing)
def with_assumption(a): fault(a, run = nothing)
def with_kwargs(**kw): fault(db, run = nothing, **kw)
slow_request = delay("1s", method = "GET")
unavailable = fault_assumption("unavailable", target = api.http, source = db, rules = [error(status = 503)])
def hurt(where, rule): fault(where, rule, run = nothing)
def make_rule(): return error()
def nested(depth):
    if depth: return lambda: helper(db)
    return nothing
`

const reachLibrary = `
load("deep.star", "deep")
def hurt_requests(rule): fault(ref("api").http, rule, run = lambda: None)
def fill_disk(svc): fault(svc, truncate = deny("ENOSPC"), run = lambda: deep(svc))
def hurt_any(svc, run): return fault(svc, rename = deny("EIO"), run = run)
def renamed(): return fault_start
slow_rule = latency("1s")
KW = {"mkdir": deny("EIO")}
`

const reachDeep = `
def deep(svc): fault(svc, stat = deny("EIO"), run = lambda: None)
`

// TestReach says for bodies what they may inject.
func TestReach(t *testing.T) {
	const unlink, writes = "rmdir unlink unlinkat", "copy_file_range pwrite64 pwritev pwritev2 sendfile splice write writev"
	for _, tc := range []struct{ name, body, want string }{
		{"nothing", `api.get()`, ``},
		{"direct", `fault(db, write = deny("EIO"), run = nothing)`, `db: ` + writes},
		{"one call", `fault(db, pwrite64 = deny("EIO"), run = nothing)`, `db: pwrite64`},
		{"target by keyword", `fault(target = db, pwrite64 = deny("EIO"), run = nothing)`, `db: pwrite64`},
		{"interface as target", `fault(db.pg, pwrite64 = deny("EIO"), run = nothing)`, `db: pwrite64`},
		{"op", `fault(db, commit = deny("EIO"), run = nothing)`, `db: fdatasync fsync pwrite64 sync_file_range syncfs`},
		{"op of a service that is not known", `fault(choose("s", [db, api]), run = nothing, commit = deny("EIO"))`, `*: fdatasync fsync pwrite64 sync_file_range syncfs`},
		{"partial", `fault(db, pwrite64 = partial(3), run = nothing)`, `db: pwrite64`},
		{"hold", `h = fault_start(db, close = hold())`, `db: close`},
		{"all of a list", `fault_all([db, api], close = deny("EIO"), run = nothing)`, `api: close|db: close`},
		{"all of a list in a name", "both = [db, cache]\n    fault_all(services = both, close = deny(\"EIO\"), run = nothing)", `*: close`},
		{"all of an unknown list", `fault_all(choose("s", [[db], [api]]), close = deny("EIO"), run = nothing)`, `*: close`},
		{"all and more in run", `fault_all([db], close = deny("EIO"), run = lambda: fault(api, mkdir = deny("EIO"), run = nothing))`, `api: mkdir mkdirat|db: close`},
		{"start", `fault_start(db, pwrite64 = deny("EIO"))`, `db: pwrite64`},
		{"reference", `fault(ref("db"), pwrite64 = deny("EIO"), run = nothing)`, `db: pwrite64`},
		{"helper, parameter as target", `helper(db)`, `*: ` + unlink},
		{"loop over a list", `for s in [db, api]: fault(s, close = deny("EIO"), run = nothing)`, `api: close|db: close`},
		{"comprehension", `[fault(s, close = deny("EIO"), run = nothing) for s in (db, api)]`, `api: close|db: close`},
		{"choice of targets", `fault(db if api else cache, close = deny("EIO"), run = nothing)`, `cache: close|db: close`},
		{"local as target", "s = db\n    fault(s, close = deny(\"EIO\"), run = nothing)", `db: close`},
		{"unknown target", `fault(choose("s", [db, api]), close = deny("EIO"), run = nothing)`, `*: close`},
		{"run function", `fault(db, close = deny("EIO"), run = lambda: helper(api))`, `*: ` + unlink + `|db: close`},
		{"function passed", `parallel(lambda: fault(db, close = deny("EIO"), run = nothing), nothing)`, `db: close`},
		{"function in a list", `[nothing, helper][choose("x", [0, 1])](db)`, `*: ` + unlink},
		{"function in a dict", `{"a": helper}["a"](db)`, `*: ` + unlink},
		{"nested function", "def f(): fault(db, close = deny(\"EIO\"), run = nothing)\n    f()", `db: close`},
		{"returned function", `nested(1)()`, `*: ` + unlink},
		{"load()ed file, two deep", `fill_disk(db)`, `*: fallocate ftruncate lstat newfstatat stat statx`},
		{"load()ed file, function passed", `hurt_any(db, lambda: fault(db, close = deny("EIO"), run = nothing))`,
			`*: rename renameat renameat2|db: close`},
		{"global alias", `start(db, close = deny("EIO"), run = nothing)`, `db: close`},
		{"local alias", "f = fault\n    f(db, close = deny(\"EIO\"), run = nothing)", `db: close`},
		{"alias of an alias", "f = fault\n    g = f\n    g(db, close = deny(\"EIO\"), run = nothing)", `db: close`},
		{"alias that is passed on", "f = fault\n    hurt_any(db, f)", `everything`},
		{"builtin in a list", `[fault][0](db, close = deny("EIO"), run = nothing)`, `everything`},
		{"builtin as default", `by_default()`, `everything`},
		{"builtin as default of a closure", `kept()`, `everything`},
		{"builtin returned by a load()ed function", `lib_fault()(db, close = deny("EIO"))`, `everything`},
		{"builtin by getattr", `getattr(struct(f = fault), "f")(db, close = deny("EIO"), run = nothing)`, `everything`},
		{"keywords of a global dict", `fault(db, run = nothing, **WRITES)`, `db: close ` + writes},
		{"keywords of a load()ed dict", `fault(db, run = nothing, **KW)`, `db: mkdir mkdirat`},
		{"unknown keywords", `with_kwargs(write = deny("EIO"))`, `everything`},
		{"keywords of a local dict", "kw = {\"write\": deny(\"EIO\")}\n    fault(db, run = nothing, **kw)", `everything`},
		{"unknown arguments", `fault(db, run = nothing, *[own])`, `everything`},
		{"assumption", `fault(disk, run = nothing)`, `db: fdatasync fsync sync_file_range syncfs`},
		{"assumption passed as a variable", `with_assumption(disk)`, `db: fdatasync fsync sync_file_range syncfs`},
		{"assumption chosen", `with_assumption(choose("a", [disk, slow]))`, `db: fdatasync fsync sync_file_range syncfs|api>db.pg`},
		{"effect on an interface", `fault(db.pg, latency("1s"), run = nothing)`, `*>db.pg`},
		{"effect with source", `fault(db.pg, latency("1s"), source = api, run = nothing)`, `api>db.pg`},
		{"effect by name", `fault(db, slow_rule, run = nothing)`, `*>db`},
		{"effect with its own link", `fault(own, run = nothing)`, `api>cache.kv`},
		{"effect made in place", `fault(latency("1s", on = link(api, cache)), run = nothing)`, `api>cache`},
		{"effect through a parameter", `hurt_any(partition(db, api), nothing)`, `*: rename renameat renameat2|db=api`},
		{"requests to an interface", `fault(api.http, error(path = "/x"), run = nothing)`, `messages *>api.http`},
		{"requests of a source", `fault(api.http, hold(), drop(), source = db, run = nothing)`, `messages db>api.http`},
		{"requests and connections", `fault_start(api.http, delay("1s"), latency("1s"))`, `*>api.http|messages *>api.http`},
		{"requests or datagrams", `fault_start(api.http, duplicate())`, `*>api.http|messages *>api.http`},
		{"requests, in a loop", `for s in [db.pg, api.http]: fault(s, error(), run = nothing)`, `messages *>api.http|messages *>db.pg`},
		{"requests, by a global rule", `fault(api.http, slow_request, run = nothing)`, `messages *>api.http`},
		{"requests, in a helper", `hurt(api.http, error())`, `*>*|messages *>*`},
		{"requests, in a load()ed helper", `hurt_requests(error())`, `*>api.http|messages *>api.http`},
		{"requests, rule from a call", `fault(api.http, make_rule(), run = nothing)`, `*>api.http|messages *>api.http`},
		{"requests, by assumption", `fault(unavailable, run = nothing)`, `messages db>api.http`},
		{"rules on a link that an effect on connections names too", `fault(latency("1s", on = LINKS["x"]), run = nothing)
    fault(LINKS["x"], error(), run = nothing)`, `db>api|messages db>api`},
		{"a rule within partition's run", `partition(db, api, run = lambda: fault(link(db, cache), error(), run = nothing))`, `db=api|db>cache|messages db>cache`},
		{"rules on a link", `fault(link(db, api), error(), run = nothing)`, `db>api|messages db>api`},
		{"partition", `partition(db, api, run = nothing)`, `db=api`},
		{"partition, unknown end", `for n in [db, choose("x", [api])]: partition_start(n, api)`, `*=api`},
		{"partition, pairs in a loop", `for n in [db, cache]: partition(n, api, run = nothing)`, `cache=api|db=api`},
		{"not called", "if False:\n        fault(db, close = deny(\"EIO\"), run = nothing)", `db: close`},
		{"shadowed name", "def fault(*args, **kw): pass\n    fault(db, close = deny(\"EIO\"))", ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			main := reachPrelude + "def body():\n    " + tc.body + "\nscenario(body)\n"
			dir := write(t, map[string]string{"main.star": main, "lib/faults.star": reachLibrary, "lib/deep.star": reachDeep})
			s := mustLoad(t, filepath.Join(dir, "main.star"))
			if got := scopeText(s.Scenarios[0].MayInject); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestReachOfClosuresAndExpectations(t *testing.T) {
	main := reachPrelude + `
scenario(make(db), name = "closure")
scenario(nothing, expect = lambda r: fault(db, close = deny("EIO"), run = nothing))
fault_matrix(scenarios = [nothing], faults = [disk], overrides = {(nothing, disk): lambda r: helper(db)})
third = scenario(lambda: None, name = "third")
fault_matrix(scenarios = [third], faults = [disk], default_expect = lambda r: fault(db, fork = deny("EAGAIN"), run = nothing))
`
	dir := write(t, map[string]string{"main.star": main, "lib/faults.star": reachLibrary, "lib/deep.star": reachDeep})
	s := mustLoad(t, filepath.Join(dir, "main.star"))
	for i, want := range []string{"db: listen", "*: rmdir unlink unlinkat|db: close", "db: clone clone3 fork vfork"} {
		if got := scopeText(s.Scenarios[i].MayInject); got != want {
			t.Errorf("%s: got %s, want %s", s.Scenarios[i].Name, got, want)
		}
	}
}

func scopeText(list []spec.Scope) string {
	any := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	var out []string
	for _, s := range list {
		if s.Everything {
			return "everything"
		}
		if len(s.Calls) > 0 {
			out = append(out, fmt.Sprintf("%s: %s", any(s.Service), strings.Join(s.Calls, " ")))
		}
		pair := func(p fault.Pair) string {
			sep, iface := "=", ""
			if p.Directed {
				sep = ">"
			}
			if p.Interface != "" {
				iface = "." + p.Interface
			}
			return any(p.A) + sep + any(p.B) + iface
		}
		for _, p := range s.Links {
			out = append(out, pair(p))
		}
		for _, p := range s.Messages {
			out = append(out, "messages "+pair(p))
		}
	}
	return strings.Join(slices.Compact(out), "|")
}
