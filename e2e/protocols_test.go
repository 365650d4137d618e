package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// protocols is steps against PostgreSQL and Redis, with credentials from their environment, and rules on the messages that
// psql and redis-cli exchange with them. SHOPDIR is the directory of the example that brings PostgreSQL's launcher and its template.
const protocols = `
db = service("db", interface("pg", "postgres", 5432), binary = "SHOPDIR/bin/pg", args = ["run", "SHOPDIR/bin/template", "/data/pg"],
    env = {"POSTGRES_USER": "shop"}, healthcheck = ready())
cache = service("cache", interface("main", "redis", 6379), binary = "redis-server", args = ["--save", "", "--dir", "/data", "--requirepass", "open sesame"],
    env = {"REDIS_PASSWORD": "open sesame"}, healthcheck = ready())
a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"], depends_on = [db, cache])

def run(line):
    return a.send(data = "sh " + line, timeout = "20s").body

def psql(*sql):
    return run("psql -X -At -w 'postgresql://shop@db/shop' " + " ".join(["-c \"%s\"" % s for s in sql]) + " 2>&1")

def redis(*commands):
    return run("printf '" + "\\n".join(commands) + "\\n' | redis-cli -h cache -a 'open sesame' --no-auth-warning 2>&1")

def steps():
    r = db.pg.query("SELECT count(*) AS n, bool_or(cancelled) AS c FROM orders")
    assert_eq(r.fields["rows"], [{"n": 16, "c": False}])
    assert_eq(db.pg.exec("UPDATE orders SET qty = 2 WHERE id < 3").fields["affected"], 2)
    assert_eq(db.pg.query("SELECT 1 / 0").fields["code"], "22012")
    db.pg.connect()
    db.pg.exec("BEGIN; DELETE FROM orders")
    assert_eq(db.pg.exec("ROLLBACK").body, "ROLLBACK")
    db.pg.close()
    assert_eq(psql("SELECT count(*) FROM orders"), "ok 16")
    assert_eq(cache.main.ping().body, "PONG")
    assert_true(cache.main.set(key = "k", value = {"a": 1}).ok)
    assert_eq(cache.main.get("k").data, {"a": 1})
    assert_eq(cache.main.command(["HSET", "h", "f", "v"]).fields["value"], 1)
    assert_eq(cache.main.incr("h").fields["code"], "WRONGTYPE")
    assert_eq(redis("GET k"), "ok {\"a\":1}")

def conflict():
    """In a transaction an error spoils what was done before, and what comes after."""
    both = lambda: psql("BEGIN", "UPDATE orders SET qty = 9 WHERE id = 1", "UPDATE orders SET qty = 9 WHERE id = 2", "SELECT 1", "COMMIT")
    r = fault(db.pg, error(query = "update orders set qty = 9 where id = 2", code = "40001", text = "could not serialize"), run = both)
    assert_true("could not serialize" in r and "aborted" in r and "ROLLBACK" in r, r)
    assert_eq(psql("SELECT count(*) FROM orders WHERE qty = 9"), "ok 0")

def doubled():
    r = fault(db.pg, duplicate(query = "INSERT INTO orders*"), run = lambda: psql("INSERT INTO orders (item, qty) VALUES ('x', 1)"))
    assert_eq((r, psql("SELECT count(*) FROM orders")), ("ok INSERT 0 1", "ok 18"))

def refused_by_redis():
    r = fault(cache.main, error(command = "SET", key = "k*", code = "OOM", text = "full"), run = lambda: redis("SET k1 v", "SET j v", "GET k1"))
    assert_eq(r, "ok OOM full OK")
    r = fault(cache.main, error(command = "SET", key = "k*", nth = 2), run = lambda: redis("MULTI", "SET k1 v", "SET k2 v", "EXEC", "EXISTS k1"))
    assert_eq(r, "ok OK QUEUED ERR injected fault EXECABORT Transaction discarded because of previous errors. 0")

def stale():
    r = fault(cache.main, response(command = "GET", body = "old"), run = lambda: redis("SET k new", "GET k"))
    assert_eq(r, "ok OK old")

[scenario(s, expect = lambda r: None, timeout = "40s") for s in [steps, conflict, doubled, refused_by_redis, stale]]
`

func TestProtocols(t *testing.T) {
	for _, name := range []string{"psql", "redis-cli", "redis-server"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s, which is not on this machine", name)
		}
	}
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/postgres"); err != nil {
		t.Skip("needs /usr/lib/postgresql/15/bin/postgres")
	}
	here := filepath.Dir(filepath.Dir(built(t, "examples/shop-postgres/bin/pg")))
	out, err := command(t, specDir(t, strings.ReplaceAll(protocols, "SHOPDIR", here)), "test", "spec.star").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "5 pass, 0 fail, 0 inconclusive") {
		t.Errorf("%v\n%s", err, out)
	}
}
