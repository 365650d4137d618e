package e2e

import (
	"strings"
	"testing"
)

// requests is psql against PostgreSQL and redis-cli against Redis, under faults on their requests.
const requests = `
db = service("db", interface("pg", "postgres", 5432), binary = "HERE/bin/pg", args = ["run", "HERE/bin/template", "/data/pg"], healthcheck = tcp("localhost:5432"))
cache = service("cache", interface("main", "redis", 6379), binary = "redis-server", args = ["--save", "", "--dir", "/data"], healthcheck = tcp("localhost:6379"))
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [db, cache])

def run(line):
    return a.send(data = "sh " + line, timeout = "20s").body

def psql(*sql):
    return run("psql -X -At -w 'postgresql://shop@db/shop?sslmode=disable' -v VERBOSITY=verbose " + " ".join(["-c '%s'" % s for s in sql]) + " 2>&1")

def redis(*commands):
    return run("printf '" + "\\n".join(commands) + "\\n' | timeout 6 redis-cli -h cache 2>&1")

def has(answer, *words):
    for w in words:
        assert_true(w in answer, "want %s in %s" % (w, answer))

def plain():
    assert_eq(fault(db.pg, delay("1ms", query = "select*"), run = lambda: psql("select 1", "select 2")), "ok 1 2")
    assert_eq(fault(cache.main, delay("1ms"), run = lambda: redis("SET k v", "GET k")), "ok OK v")

def errors():
    r = fault(db.pg, error(query = "INSERT INTO t*", code = "40001", text = "try again"), run = lambda: psql(
        "create table t (n int)", "insert  into t values (1)", "select count(*) from t"))
    has(r, "CREATE TABLE", "40001", "try again", "0")
    r = fault(cache.main, error(command = "set", key = "k*", code = "READONLY", text = "not here"), run = lambda: redis("SET k 1", "SET other 2", "GET other"))
    has(r, "READONLY not here", "OK 2")

def in_a_transaction():
    psql("create table t (n int)")
    r = fault(db.pg, error(query = "insert into t values (2)", code = "23505"), run = lambda: psql(
        "begin", "insert into t values (1)", "insert into t values (2)", "insert into t values (3)", "commit"))
    has(r, "23505")
    has(psql("select count(*) from t"), "0")

def responses():
    assert_eq(fault(cache.main, response(command = "GET", body = "forged"), run = lambda: redis("SET k v", "GET k", "STRLEN k")), "ok OK forged 1")

def second_only():
    r = fault(cache.main, error(command = "INCR", nth = 2), run = lambda: redis("INCR n", "INCR n", "INCR n"))
    has(r, "ok 1 ERR", " 2")

def lost():
    has(fault(db.pg, drop(query = "select 2"), run = lambda: psql("select 1", "select 2")), "1", "server closed the connection unexpectedly")
    has(fault(cache.main, drop(command = "GET"), run = lambda: redis("SET k v", "GET k")), "OK", "Server closed the connection")

def twice():
    psql("create table t (n int)")
    fault(db.pg, duplicate(query = "insert*"), run = lambda: psql("insert into t values (1)"))
    has(psql("select count(*) from t"), "2")
    assert_eq(fault(cache.main, duplicate(command = "INCR"), run = lambda: redis("INCR n", "GET n")), "ok 1 2")

[scenario(s, expect = lambda r: None, timeout = "40s") for s in [plain, errors, in_a_transaction, responses, second_only, lost, twice]]
`

// Real clients and servers under faults on requests.
func TestRequests(t *testing.T) {
	needServers(t)
	out, err := command(t, specDir(t, serversSpec(t, requests)), "test", "spec.star").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "7 pass, 0 fail, 0 inconclusive") {
		t.Errorf("%v\n%s", err, out)
	}
}
