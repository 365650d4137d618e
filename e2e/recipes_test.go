package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/starbind/library"
	"github.com/squallhq/squall/verdict"
)

// recipePreludes are the system that the recipes of each file are tried on. In a run R is the recipe's
// name as it was loaded.
var recipePreludes = map[string]string{
	"http": `
s = service("s", interface("main", "http", 8080), binary = "toyd", args = ["8080/http"])
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [s])
def get(path = "/x", name = "c"):
    return a.send(data = "fetch %s GET s:8080%s" % (name, path), timeout = "5s").body
def raw():
    return a.send(data = "sh curl -si http://s:8080/x", timeout = "5s").body
def under(*rules, run = get):
    return fault(s.main, run = run, *rules)
`,
	"tcp": `
s = service("s", interface("main", "tcp", 8080), binary = "toyd", args = ["8080"])
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [s])
def say(line = "ping"):
    a.send(data = "open c s:8080")
    return a.send(data = "say c 600 " + line, timeout = "5s").body
def under(*rules, run = say):
    return fault(s.main, run = run, *rules)
`,
	"net": `
s = service("s", interface("main", "tcp", 8080), interface("gossip", "udp", 8081), interface("web", "http", 8082), binary = "toyd", args = ["8080", "8081/udp", "8082/http"])
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [s])
both = link(a, s.main)
def open():
    return a.send(data = "open c s:8080", timeout = "8s").body
def say(line = "ping", limit = 600):
    return a.send(data = "say c %d %s" % (limit, line), timeout = "8s").body
def under(rules, run = say, on = both):
    return fault(on, run = run, *rules)
def took(r):
    return int(r.split("after ")[1].split(" ")[0])
def dialled():
    """How long connecting took, and then a line."""
    return [took(open()), took(say("ping", 2000))]
`,
	"redis": `
s = service("s", interface("main", "redis", 6379), binary = "redis-server", args = ["--save", "", "--dir", "/data"], healthcheck = tcp("localhost:6379"))
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [s])
def cli(*commands):
    path = "/data/commands-%d" % events().count(type = "step_send")
    for line in commands:
        a.send(data = "write %s %s" % (path, line))
    return a.send(data = "sh exec redis-cli -h s < %s 2>&1" % path, timeout = "8s").body
def set_get():
    return cli("SET k v", "GET k")
def under(*rules, run = set_get):
    return fault(s.main, run = run, *rules)
`,
	"postgres": `
s = service("s", interface("main", "postgres", 5432), binary = "HERE/bin/pg", args = ["run", "HERE/bin/template", "/data/pg"], env = {"POSTGRES_USER": "shop"}, healthcheck = ready())
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [s])
def psql(*sql):
    return a.send(data = "sh psql -X -At -w 'postgresql://shop@s/shop?sslmode=disable' -v VERBOSITY=sqlstate " + " ".join(["-c \"%s\"" % s for s in sql]) + " 2>&1", timeout = "15s").body
INSERT = "insert into orders (item, qty) values ('y', 1)"
def insert():
    return psql(INSERT)
def under(*rules, run = insert):
    return fault(s.main, run = run, *rules)
def count():
    return psql("select count(*) from orders")
`,
	"disk": `
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])
def do(line):
    return a.send(data = line, timeout = "5s").body
def under(rules, line = "write /data/f hello"):
    return fault(a, run = lambda: do(line), **rules)
def found():
    return do("read /data/f")
`,
}

// recipeRuns has, by the recipe's name, the body of a scenario that uses the recipe and sees what it does.
var recipeRuns = map[string]map[string]string{
	"http": {
		"rate_limited":        `has(under(R(retry_after = 7), run = raw), "429", "Retry-After: 7")`,
		"server_error":        `has(under(R()), "ok 500 internal")`,
		"bad_gateway":         `has(under(R()), "ok 502 bad gateway")`,
		"service_unavailable": `has(under(R(path = "/x")), "ok 503 service"); eq(get("/seen"), "ok 200 0 kept", 3)`,
		"maintenance_window":  `has(under(R(), run = raw), "503", "Retry-After: 3600")`,
		"gateway_timeout":     `has(under(R()), "ok 504 gateway")`,
		"unauthorized":        `has(under(R(), run = raw), "401", "WWW-Authenticate: Bearer")`,
		"forbidden":           `has(under(R(method = "GET")), "ok 403 forbidden")`,
		"not_found":           `has(under(R()), "ok 404 not found")`,
		"moved":               `has(under(R("/elsewhere", path = "/x")), "ok 200 GET /elsewhere 1")`,
		"broken_body":         `has(under(R()), "ok 200 {\"id\": 17, \"na ")`,
		"slow_endpoint":       `r = under(R("300ms")); has(r, "ok 200 GET /x 1"); between(r, 300, 1500)`,
		"hanging_endpoint":    `eq(under(R()), "err TIMEOUT")`,
		"connection_drop":     `eq(under(R()), "err EOF"); eq(under(R(how = "reset"), run = lambda: get(name = "d")), "err ECONNRESET")`,
		"flaky":               `r = under(R("50%"), run = lambda: [get() for _ in range(40)]); n = len([x for x in r if "ok 503 flaky" in x]); assert_true(n > 5 and n < 35, str(n))`,
		"sent_twice":          `has(under(R()), "ok 200 GET /x 1"); has(get("/seen"), "ok 200 2")`,
	},
	"tcp": {
		"error_line":   `eq(under(R("no luck", data = "ping")), "ok 8 bytes", 3)`,
		"slow_line":    `between(under(R("200ms")), 200, 590)`,
		"lost_line":    `eq(under(R()), "err EOF"); eq(under(R(how = "reset")), "err ECONNRESET"); eq(under(R(how = "silence")), "err TIMEOUT")`,
		"line_twice":   `under(R(data = "print*"), run = lambda: say("print hello")); sleep("100ms"); eq(events().count(type = "stdout", line = "hello"), 2)`,
		"hanging_line": `eq(under(R()), "err TIMEOUT")`,
	},
	"net": {
		"flaky_wifi":          `open(); between(under(R()), 40, 590)`,
		"slow_link":           `r = under(R(), run = dialled); assert_true(r[0] >= 200 and r[1] >= 400, str(r)); between(under(R(by = "1ms", rate = "20kB/s"), run = lambda: open() and say("blob 20000", 6000)), 700, 6000)`,
		"satellite":           `r = under(R(), run = dialled); assert_true(r[0] >= 300 and r[1] >= 600, str(r))`,
		"another_continent":   `r = under(R(), run = dialled); assert_true(r[0] >= 80 and r[1] >= 160, str(r))`,
		"dripping":            `open(); between(under(R("10kB/s"), run = lambda: say("blob 5000", 6000)), 350, 6000)`,
		"pulled_cable":        `open(); eq(under(R()), "err TIMEOUT")`,
		"one_way":             `open(); eq(under(R(), run = lambda: say("print here")), "err TIMEOUT"); await_event(match.event(type = "stdout", line = "here"))`,
		"gone_peer":           `eq(under(R(), run = lambda: open() and say()), "err TIMEOUT")`,
		"nobody_listens":      `eq(under(R(), run = open), "err ECONNREFUSED")`,
		"firewall":            `eq(under(R("200ms"), run = open), "err ETIMEDOUT")`,
		"impatient_middlebox": `open(); eq(under(R()), "err ECONNRESET")`,
		"cut_answer":          `open(); eq(under(R(5), run = lambda: say("blob 100")), "err EOF")`,
		"lossy_datagrams":     `r = under(R(), run = lambda: a.send(data = "volley s:8081 200", timeout = "8s").body, on = link(a, s.gossip)); n = [int(x) for x in r.split(" ")[1:]]; assert_true(n[1] > 0 and n[2] > 0 and n[0] - n[1] < 200, r)`,
	},
	"redis": {
		"oom":              `eq(under(R()), "ok OOM command not allowed when used memory > 'maxmemory'.")`,
		"loading":          `eq(under(R(command = "GET")), "ok OK LOADING Redis is loading the dataset in memory")`,
		"readonly_replica": `eq(under(R()), "ok READONLY You can't write against a read only replica.")`,
		"masterdown":       `has(under(R(command = "GET")), "ok OK MASTERDOWN")`,
		"misconf":          `has(under(R()), "ok MISCONF Errors writing")`,
		"busy":             `has(under(R(command = "GET")), "ok OK BUSY")`,
		"noauth":           `has(under(R(command = "GET")), "ok OK NOAUTH")`,
		"wrongtype":        `has(under(R(command = "GET", key = "k")), "ok OK WRONGTYPE")`,
		"cluster_down":     `has(under(R(command = "GET")), "ok OK CLUSTERDOWN")`,
		"moved":            `has(under(R("s:6379", slot = 12539, command = "GET")), "ok OK MOVED 12539 s:6379")`,
		"cache_miss":       `eq(under(R(key = "k")), "ok OK"); eq(set_get(), "ok OK v")`,
		"stale_read":       `eq(under(R("old", key = "k")), "ok OK old")`,
		"slow_command":     `slower(300, lambda: eq(under(R("300ms", command = "GET")), "ok OK v"))`,
		"connection_drop":  `has(under(R(command = "GET")), "OK", "Server closed the connection"); has(under(R(how = "reset", command = "GET")), "Connection reset")`,
	},
	"postgres": {
		"deadlock":              `has(under(R(query = "insert*")), "40P01")`,
		"serialization_failure": `has(under(R(query = "insert*")), "40001")`,
		"lock_not_available":    `has(under(R(query = "insert*")), "55P03")`,
		"unique_violation":      `has(under(R(query = "insert*")), "23505")`,
		"statement_timeout":     `has(under(R(query = "insert*")), "57014")`,
		"too_many_connections":  `has(under(R()), "53300")`,
		"read_only_transaction": `r = under(R(), run = lambda: psql("select 1", INSERT)); has(r, "1 ", "25006")`,
		"disk_full":             `n = count(); has(under(R()), "53100"); eq(count(), n)`,
		"out_of_memory":         `has(under(R()), "53200")`,
		"admin_shutdown":        `has(under(R(nth = 1)), "57P01")`,
		"connection_failure":    `has(under(R()), "server closed the connection unexpectedly")`,
		"lost_commit_answer":    `n = count(); has(under(R(), run = lambda: psql("begin", INSERT, "commit")), "INSERT 0 1", "server closed the connection"); eq(count(), n)`,
		"slow_query":            `slower(300, lambda: has(under(R("300ms", nth = 1)), "INSERT 0 1"))`,
		"slow_writes":           `slower(300, lambda: has(under(R("300ms")), "INSERT 0 1"))`,
	},
	"disk": {
		"disk_full":           `eq(under(R(path = "/data/**")), "err ENOSPC"); eq(under(R(optional = True), "sys mkdir /data/d"), "err ENOSPC"); eq(found(), "ok")`,
		"quota_exceeded":      `eq(under(R()), "err EDQUOT")`,
		"slow_disk":           `do("write /data/f hello"); slower(200, lambda: eq(under(R(), "fsync /data/f"), "ok"))`,
		"failing_fsync":       `do("write /data/f hello"); eq(under(R(), "fsync /data/f"), "err EIO")`,
		"failing_reads":       `do("write /data/f hello"); eq(under(R(), "read /data/f"), "err EIO")`,
		"failing_writes":      `eq(under(R()), "err EIO")`,
		"read_only_disk":      `eq(under(R()), "err EROFS"); eq(under(R(optional = True), "rename /data/f /data/g"), "err EROFS"); eq(found(), "ok")`,
		"short_writes":        `eq(under(R(3), "move write /data/f hello"), "ok 3"); eq(found(), "ok hel")`,
		"short_reads":         `do("write /data/f hello"); eq(under(R(3), "move read /data/f hello"), "ok 3 hel")`,
		"no_rename":           `do("write /data/f hello"); eq(under(R(), "rename /data/f /data/g"), "err EIO"); eq(found(), "ok hello")`,
		"not_permitted":       `eq(under(R(path = "/data/*")), "err EACCES")`,
		"too_many_open_files": `a.connect(); do("ping"); eq(under(R(), "sys descriptor /data"), "err EMFILE")`,
		"interrupted":         `do("write /data/f hello"); eq(under(R(), "read /data/f"), "ok hello"); eq(under(R(), "sys open /data/f"), "err EINTR")`,
	},
}

// recipeHelpers compare what a program said.
const recipeHelpers = `
def has(answer, *words):
    for w in words:
        assert_true(w in answer, "want %s in %s" % (w, answer))

def eq(answer, want, words = 0):
    """With words, so many of the answer's are looked at."""
    if words:
        answer, want = " ".join(answer.split(" ")[:words]), " ".join(want.split(" ")[:words])
    assert_eq(answer, want)

def between(answer, low, high):
    """The milliseconds in an answer: the last number, or what stands before ms."""
    words = [w for w in answer.split(" ") if w != "ms"]
    assert_true(answer.startswith("ok") and low <= int(words[-1]) and int(words[-1]) <= high, answer)

def slower(ms, run):
    """One step takes so long."""
    late = lambda: events().count(type = "step_recv", duration_ms = match.number(ge = ms))
    before = late()
    run()
    assert_eq(late() - before, 1, "steps that take %d ms" % ms)
`

var recipe = regexp.MustCompile(`(?m)^def ([a-z]\w*)\(`)

// Every recipe of the library is run, and what it does is seen by a program.
func TestRecipes(t *testing.T) {
	for _, name := range library.Names() {
		file := strings.TrimSuffix(strings.TrimPrefix(name, library.Prefix), ".star")
		if file == "expect" {
			continue // these judge; internal/starbind tries them
		}
		t.Run(file, func(t *testing.T) { runRecipes(t, file) })
	}
}

func runRecipes(t *testing.T, file string) {
	spec, names := recipeSpec(t, file)
	needRecipes(t, file)
	if strings.Contains(spec, "HERE") {
		spec = serversSpec(t, spec)
	}
	dir := specDir(t, spec)
	out, err := command(t, dir, "test", "--json", "verdicts.json", "spec.star").CombinedOutput()
	passed := map[string]bool{}
	for _, l := range verdictsOf(t, filepath.Join(dir, "verdicts.json"), out).Leaves {
		passed[l.Scenario] = l.Verdict.Outcome == verdict.Pass
	}
	for _, name := range names {
		if !passed[name] && !passed["all"] {
			t.Errorf("%s did not pass", name)
		}
	}
	if t.Failed() || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// recipeSpec makes a scenario of the run of each recipe in a file of the library. It wants every recipe to have one.
func recipeSpec(t *testing.T, file string) (spec string, names []string) {
	text, err := library.Read(library.Prefix + file + ".star")
	if err != nil {
		t.Fatal(err)
	}
	runs := recipeRuns[file]
	spec = recipeHelpers + recipePreludes[file]
	for _, m := range recipe.FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		names = append(names, name)
		if runs[name] == "" {
			t.Errorf("%s.star: nothing runs %s", file, name)
			continue
		}
		body := strings.ReplaceAll(runs[name], "R(", "recipe_"+name+"(")
		spec += fmt.Sprintf("load(%q, recipe_%s = %q)\ndef run_%s():\n    %s\n", library.Prefix+file+".star", name, name, name, strings.ReplaceAll(body, "; ", "\n    "))
		if file != "postgres" {
			spec += fmt.Sprintf("scenario(run_%s, name = %q, expect = lambda r: None, timeout = \"25s\")\n", name, name)
		}
	}
	for name := range runs {
		if !slices.Contains(names, name) {
			t.Errorf("%s.star has no %s", file, name)
		}
	}
	if file == "postgres" { // which takes a second to start: one world for all
		spec += "def all():\n    for run in [run_" + strings.Join(names, ", run_") + "]:\n        run()\n    return \"done\"\n" +
			"scenario(all, expect = lambda r: assert_eq(r, \"done\"), timeout = \"60s\")\n"
	}
	return spec, names
}

// verdictsOf reads what squall test wrote.
func verdictsOf(t *testing.T, path string, said []byte) (v bundle.Verdicts) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return v
}

func needRecipes(t *testing.T, file string) {
	needs := map[string][]string{
		"postgres": {"psql", "/usr/lib/postgresql/15/bin/postgres"},
		"redis":    {"redis-cli", "redis-server"},
		"http":     {"curl"},
	}
	for _, name := range needs[file] {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s, which is not on this machine", name)
		}
	}
}
