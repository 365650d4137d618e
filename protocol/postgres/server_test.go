package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/postgres"
	"github.com/squallhq/squall/spec"
)

const bin = "/usr/lib/postgresql/15/bin/"

// server starts PostgreSQL with users for each way to log in, and returns its port. All databases of a test binary's tests share it.
func server(t *testing.T) int {
	t.Helper()
	if _, err := os.Stat(bin + "postgres"); err != nil {
		t.Skipf("needs %spostgres, which is not on this machine", bin)
	}
	// Not t.TempDir: it is made below a directory that only its owner may enter.
	dir, err := os.MkdirTemp("", "squall-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := ordinary(t, dir)
	data := filepath.Join(dir, "data")
	initdb := exec.Command(bin+"initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "--locale=C.UTF-8")
	initdb.Dir, initdb.SysProcAttr = dir, as
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	const hba = "host all scram 127.0.0.1/32 scram-sha-256\nhost all md5 127.0.0.1/32 md5\nhost all clear 127.0.0.1/32 password\nhost all postgres 127.0.0.1/32 trust\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o644); err != nil {
		t.Fatal(err)
	}
	port := free(t)
	cmd := exec.Command(bin+"postgres", "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "dynamic_shared_memory_type=sysv", "-c", "autovacuum=off")
	cmd.Dir, cmd.SysProcAttr = dir, as
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		_ = cmd.Wait()
		_ = log.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := postgres.Protocol{}.Ready(ctx, to(port), spec.Target{})
		if err == nil {
			return port
		}
		if ctx.Err() != nil {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("PostgreSQL is not ready: %v\n%s", err, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ordinary gives dir to a user who may run PostgreSQL, which root may not.
func ordinary(t *testing.T, dir string) *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := 65534, 65534
	if u, err := user.Lookup("postgres"); err == nil {
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func free(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func to(port int) protocol.Dialer {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	}
}

func query(sql string) spec.Operation {
	return spec.Operation{Method: "query", Args: map[string]any{"sql": sql}}
}

func do(t *testing.T, c protocol.Client, op spec.Operation) spec.Response {
	t.Helper()
	r, err := c.Do(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ok wants the first column of the first row, or the tag, to be want.
func ok(t *testing.T, c protocol.Client, sql, want string) {
	t.Helper()
	r := do(t, c, query(sql))
	if got := r.Body; !r.OK || !strings.Contains(got, want) {
		t.Errorf("%s: ok %v, %s %s, want %s", sql, r.OK, got, r.Error, want)
	}
}

func fails(t *testing.T, c protocol.Client, sql, code string) {
	t.Helper()
	if r := do(t, c, query(sql)); r.OK || r.Fields["code"] != code {
		t.Errorf("%s: ok %v, %q, code %v, want %s", sql, r.OK, r.Error, r.Fields["code"], code)
	}
}

func TestServer(t *testing.T) {
	port := server(t)
	admin := postgres.Protocol{}.Client(to(port), spec.Target{})
	ok(t, admin, "CREATE ROLE scram LOGIN PASSWORD 'open sesame'", "CREATE ROLE")
	ok(t, admin, "SET password_encryption = 'md5'; CREATE ROLE md5 LOGIN PASSWORD 'open sesame'", "CREATE ROLE")
	ok(t, admin, "CREATE ROLE clear LOGIN PASSWORD 'open sesame'", "CREATE ROLE")
	ok(t, admin, "CREATE TABLE t (id int PRIMARY KEY, name text, data jsonb)", "CREATE TABLE")
	ok(t, admin, "GRANT ALL ON t TO PUBLIC", "GRANT")
	t.Run("logins", func(t *testing.T) { logins(t, port) })
	t.Run("results", func(t *testing.T) { results(t, port) })
	t.Run("messages", func(t *testing.T) { messages(t, port) })
	t.Run("parts", func(t *testing.T) { parts(t, port) })
	t.Run("clients", func(t *testing.T) { clients(t, port) })
}

func logins(t *testing.T, port int) {
	for _, tc := range []struct{ user, password, code string }{
		{"scram", "open sesame", ""},
		{"md5", "open sesame", ""},
		{"clear", "open sesame", ""},
		{"scram", "wrong", "28P01"},
		{"md5", "wrong", "28P01"},
		{"clear", "wrong", "28P01"},
		{"scram", "", "28P01"},
		{"nobody", "x", "28000"},
	} {
		target := spec.Target{Env: map[string]string{"POSTGRES_USER": tc.user, "POSTGRES_PASSWORD": tc.password, "POSTGRES_DB": "postgres"}}
		c := postgres.Protocol{}.Client(to(port), target)
		r := do(t, c, query("SELECT current_user"))
		code, _ := r.Fields["code"].(string)
		if code != tc.code || r.OK != (code == "") {
			t.Errorf("%s, %q: %+v", tc.user, tc.password, r)
		}
		if err := (postgres.Protocol{}).Ready(t.Context(), to(port), target); (err == nil) != (code == "") {
			t.Errorf("%s, %q: ready: %v", tc.user, tc.password, err)
		}
	}
	// Without POSTGRES_DB the database has the user's name.
	c := postgres.Protocol{}.Client(to(port), spec.Target{Env: map[string]string{"PGUSER": "scram", "PGPASSWORD": "open sesame"}})
	fails(t, c, "SELECT 1", "3D000")
}

func results(t *testing.T, port int) {
	c := postgres.Protocol{}.Client(to(port), spec.Target{})
	defer func() { _ = c.Close() }()
	ok(t, c, `SELECT 1 a, true b, 'x' c, NULL d, 1.50 e, 2.5::float8 f, '{"k": [1]}'::jsonb g, 'NaN'::float8 h`,
		`[{"a":1,"b":true,"c":"x","d":null,"e":"1.50","f":2.5,"g":{"k":[1]},"h":"NaN"}]`)
	ok(t, c, "SELECT 1 WHERE false", "[]")
	ok(t, c, "SELECT 1; CREATE TEMP TABLE x (i int)", "CREATE TABLE")
	ok(t, c, "", "")
	fails(t, c, "SELEC", "42601")
	fails(t, c, "COPY t FROM STDIN", "57014")
	fails(t, c, "SELECT 1; SELECT 1/0", "22012")
	r := do(t, c, spec.Operation{Method: "exec", Args: map[string]any{"sql": "INSERT INTO t VALUES (1), (2)"}})
	if !r.OK || r.Fields["affected"] != int64(2) || r.Body != "INSERT 0 2" || r.Fields["rows"] != nil {
		t.Errorf("%+v", r)
	}
	r = do(t, c, query("SELECT repeat('x', 100000) FROM generate_series(1, 20)"))
	if rows, _ := r.Fields["rows"].([]any); !r.OK || len(rows) != 10 || r.Fields["truncated"] != true {
		t.Errorf("%v, %d rows, %v", r.OK, len(rows), r.Fields["truncated"])
	}
	ok(t, c, "COPY t TO STDOUT", "COPY 2")
	// A connection of its own for each step, or the one that connect opened.
	op := func(m string) spec.Operation { return spec.Operation{Method: m} }
	do(t, c, query("BEGIN; DELETE FROM t"))
	ok(t, c, "SELECT count(*) FROM t", `[{"count":2}]`)
	do(t, c, op("connect"))
	ok(t, c, "BEGIN", "BEGIN")
	ok(t, c, "DELETE FROM t", "DELETE 2")
	fails(t, c, "SELECT pg_terminate_backend(pg_backend_pid())", "57P01")
	ok(t, c, "SELECT count(*) FROM t", `[{"count":2}]`)
	do(t, c, op("close"))
	ok(t, c, "TRUNCATE t", "TRUNCATE TABLE")
}

// drain keeps a copy's errors quiet: its connections end while it works.
func drain(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) }
