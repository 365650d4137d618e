package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// credentials is servers that want a password. The scenarios' steps and ready() take it from the service's environment; what they
// are asked is what a client would ask. SHOPDIR is the directory of the example that brings PostgreSQL's launcher and its template.
const credentials = `
def guarded():
    """Lets the server want a password from the next connection on."""
    db.pg.connect()
    db.pg.exec("ALTER USER shop PASSWORD 'quite secret 1'")
    db.pg.exec("COPY (SELECT 'host all all all scram-sha-256') TO '/data/pg/pg_hba.conf'")
    db.pg.query("SELECT pg_reload_conf()")
    db.pg.close()
    # The reload is a signal: it is done once a client without a password is refused.
    for _ in range(100):
        if "no password supplied" in a.send(data = "sh psql -X -w postgresql://shop@db/shop -c \"select 1\" 2>&1").body:
            return
        sleep("20ms")
    fail("anybody may log in still")

a = service("a", interface("main", "tcp", 7000), binary = "toyd", args = ["7000"])
db = service("db", interface("pg", "postgres", 5432), binary = "SHOPDIR/bin/pg", args = ["run", "SHOPDIR/bin/template", "/data/pg"],
    env = {"POSTGRES_USER": "shop", "POSTGRES_PASSWORD": "quite secret 1"}, healthcheck = ready(timeout = "20s"), depends_on = [a], seed = guarded)
cache = service("cache", interface("main", "redis", 6379), interface("sock", "redis", path = "/run/squall-e2e/redis.sock"), binary = "redis-server",
    args = ["--save", "", "--dir", "/data", "--requirepass", "open sesame", "--unixsocket", "/run/squall-e2e/redis.sock"],
    env = {"REDIS_PASSWORD": "REDISPASS"}, healthcheck = ready(interface = "sock", timeout = "2s"), seed = lambda: cache.main.set(key = "seeded", value = "yes"))

def postgres():
    assert_eq(db.pg.query("SELECT count(*) AS n FROM orders").fields["rows"], [{"n": 16}])

def redis():
    assert_eq(cache.sock.get("seeded").body, "yes")
    assert_eq(cache.main.get("seeded").body, "yes")
    assert_true("NOAUTH" in a.send(data = "sh redis-cli -h cache get seeded 2>&1").body)
    assert_eq(a.send(data = "sh redis-cli -s /run/squall-e2e/redis.sock -a \"open sesame\" --no-auth-warning get seeded").body, "ok yes")
    assert_eq(a.send(data = "sh redis-cli -h $SQUALL_CACHE_MAIN_HOST -p $SQUALL_CACHE_MAIN_PORT -a \"open sesame\" --no-auth-warning get seeded").body, "ok yes")

[scenario(s, timeout = "40s") for s in [postgres, redis]]
`

func TestCredentials(t *testing.T) {
	for _, name := range []string{"psql", "redis-cli", "redis-server"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s, which is not on this machine", name)
		}
	}
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/postgres"); err != nil {
		t.Skip("needs /usr/lib/postgresql/15/bin/postgres")
	}
	here := filepath.Dir(filepath.Dir(built(t, "examples/shop-postgres/bin/pg")))
	fill := func(password string) string {
		return strings.NewReplacer("SHOPDIR", here, "REDISPASS", password).Replace(credentials)
	}
	dir := specDir(t, fill("open sesame"))
	out, err := command(t, dir, "test", "spec.star").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "2 pass, 0 fail, 0 inconclusive") {
		t.Errorf("%v\n%s", err, out)
	}
	seen, err := command(t, dir, "inspect", ".squall/runs/0001/run.squall", "type=step_send", "--json").CombinedOutput()
	if err != nil || !strings.Contains(string(seen), "ALTER USER shop PASSWORD") {
		t.Errorf("%v\n%.2000s", err, seen)
	}
	for _, secret := range []string{"quite secret 1", "open sesame"} {
		if strings.Contains(string(seen), secret) {
			t.Errorf("the record has %q", secret)
		}
	}
	// Where the environment has another password than the server, nobody can work with it: it is not ready.
	out, _ = command(t, specDir(t, fill("another one")), "test", "spec.star", "--test", "redis").CombinedOutput()
	want := regexp.MustCompile(`cache:\s+not\s+ready\s+after\s+2s:\s+PING\s+at\s+cache\.sock\s+\(/run/squall-e2e/redis\.sock\),\s+tried\s+\d+\s+times;\s+at\s+last:\s+(?s:.*)WRONGPASS`)
	if !strings.Contains(string(out), "1 inconclusive") || !want.Match(out) {
		t.Errorf("%s", out)
	}
}
