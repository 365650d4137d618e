package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// servers is psql against PostgreSQL and redis-cli against Redis, under each fault of a link. HERE is
// the directory of the example that brings PostgreSQL's launcher and its template.
const servers = `
db = service("db", interface("pg", "tcp", 5432), binary = "HERE/bin/pg", args = ["run", "HERE/bin/template", "/data/pg"], healthcheck = tcp("localhost:5432"))
cache = service("cache", interface("main", "tcp", 6379), binary = "redis-server", args = ["--save", "", "--dir", "/data"], healthcheck = tcp("localhost:6379"))
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [db, cache])
to_db, to_cache = link(a, db), link(a, cache)

def run(line):
    r = a.send(data = "sh " + line, timeout = "20s")
    return r.body

def psql(sql, options = ""):
    return run("psql -X -At -w 'postgresql://shop@db/shop?sslmode=disable" + options + "' " + " ".join(["-c '%s'" % s for s in sql]))

def redis(commands):
    return run("printf '" + "\\n".join(commands) + "\\n' | timeout 6 redis-cli -h cache 2>&1")

def has(answer, *words):
    for w in words:
        if w in answer:
            return
    fail("want one of %s in %s" % (words, answer))

def plain():
    assert_eq(psql(["select 1"]), "ok 1")
    assert_eq(redis(["PING", "SET k v", "GET k"]), "ok PONG OK v")

def delayed():
    assert_eq(fault(to_db, latency("200ms", connect = True), run = lambda: psql(["select 1"])), "ok 1")
    assert_eq(fault(to_cache, latency("200ms", connect = True), run = lambda: redis(["PING"])), "ok PONG")

def timed_out():
    has(fault(to_db, timeout("300ms"), run = lambda: psql(["select 1"])), "Connection timed out")
    has(fault(to_cache, timeout("300ms"), run = lambda: redis(["PING"])), "Connection timed out")

def refused():
    has(fault(to_db, refuse(), run = lambda: psql(["select 1"])), "Connection refused")
    has(fault(to_cache, refuse(), run = lambda: redis(["PING"])), "Connection refused")

def reset_midway():
    has(fault(to_db, reset(after_bytes = 600, direction = "down"), run = lambda: psql(["select repeat(md5(1::text), 100)"])),
        "Connection reset by peer", "server closed the connection unexpectedly")
    has(fault(to_cache, reset(after_bytes = 100, direction = "down"), run = lambda: redis(["SETRANGE k 4000 x", "GET k"])),
        "Connection reset by peer", "Server closed the connection")

def hole():
    has(fault(to_db, blackhole(), run = lambda: psql(["select 1"], "&connect_timeout=2")), "timeout expired")
    has(fault(to_cache, blackhole(), run = lambda: redis(["PING"])), "err exit status 124")

def cable_pulled():
    """Keepalive and TCP_USER_TIMEOUT end a connection whose cable is pulled in the middle of a query."""
    def pull():
        sleep("500ms")
        partition_start(a, db)
    answers = parallel(lambda: psql(["select pg_sleep(1.5)", "select 1"], "&keepalives_idle=1&keepalives_interval=1&keepalives_count=2&tcp_user_timeout=1500"), pull)
    partition_stop(a, db)
    has(answers[0], "timed out", "server closed the connection unexpectedly")

def healed_at_connect():
    def heal():
        sleep("400ms")
        partition_stop(a, db)
        partition_stop(a, cache)
    partition_start(a, db)
    partition_start(a, cache)
    answers = parallel(lambda: psql(["select 1"]), lambda: redis(["PING"]), heal)
    assert_eq((answers[0], answers[1]), ("ok 1", "ok PONG"))

def healed_midway():
    def blink():
        sleep("300ms")
        partition(a, db, run = lambda: sleep("1s"))
    answers = parallel(lambda: psql(["select pg_sleep(0.7)", "select 2"]), blink)
    assert_eq(answers[0], "ok 2")

[scenario(s, expect = lambda r: None, timeout = "40s") for s in [
    plain, delayed, timed_out, refused, reset_midway, hole, cable_pulled, healed_at_connect, healed_midway,
]]
`

// needServers skips where psql, Redis or PostgreSQL is missing.
func needServers(t *testing.T) {
	t.Helper()
	for _, name := range []string{"psql", "redis-cli", "redis-server"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s, which is not on this machine", name)
		}
	}
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/postgres"); err != nil {
		t.Skip("needs /usr/lib/postgresql/15/bin/postgres")
	}
}

// serversSpec fills in where the example is that brings PostgreSQL's launcher.
func serversSpec(t *testing.T, text string) string {
	here := filepath.Dir(filepath.Dir(built(t, "examples/shop-postgres/bin/pg")))
	return strings.ReplaceAll(text, "HERE", here)
}

// psql and redis-cli see what a real network would show them.
func TestServers(t *testing.T) {
	needServers(t)
	out, err := command(t, specDir(t, serversSpec(t, servers)), "test", "spec.star").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "9 pass, 0 fail, 0 inconclusive") {
		t.Errorf("%v\n%s", err, out)
	}
}
