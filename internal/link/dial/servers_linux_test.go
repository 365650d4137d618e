package dial

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
)

const postgresBin = "/usr/lib/postgresql/15/bin/"

// account is whom PostgreSQL runs as: it refuses to run as root. Its directory is his.
type account struct {
	credential *syscall.Credential
	dir        string
}

func newAccount(t *testing.T) account {
	t.Helper()
	// The test's own directories are closed to others.
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	a := account{dir: dir}
	if os.Geteuid() != 0 {
		return a
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			t.Skip("this machine has no user that PostgreSQL could run as: ", err)
		}
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		t.Fatalf("%+v", u)
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	a.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return a
}

func (a account) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = a.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + a.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
	return cmd
}

// template makes a cluster that each server gets a copy of, which is quicker than making each.
func (a account) template(t *testing.T) {
	t.Helper()
	out, err := a.command(postgresBin+"initdb", "-D", "template", "-U", "shop", "-A", "trust", "-E", "UTF8", "--no-locale",
		"--no-sync", "--no-instructions", "--wal-segsize=1").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
}

// postgres serves a copy of the template at the db.
func (a account) postgres(s *system) {
	s.t.Helper()
	data, err := os.MkdirTemp(a.dir, "data")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { os.RemoveAll(data) })
	cluster := filepath.Join(data, "cluster")
	if a.credential != nil {
		if err := os.Chown(data, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
			s.t.Fatal(err)
		}
	}
	if out, err := a.command("/bin/cp", "-a", "template", cluster).CombinedOutput(); err != nil {
		s.t.Fatalf("cp: %v: %s", err, out)
	}
	log := s.temp()
	cmd := a.command(postgresBin+"postgres", "-D", cluster, "-p", "5432", "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "autovacuum=off", "-c", "shared_buffers=1MB",
		"-c", "dynamic_shared_memory_type=mmap")
	cmd.Stdout, cmd.Stderr = log, log
	// An immediate shutdown: a server that is killed leaves its children and a segment of shared memory. The
	// signal follows the thread that forked, which here is the namespace's own.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	s.ns["db"].do(func() { err = cmd.Start() })
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("the server's log:\n%s", read(s.t, log))
		}
	})
	// It listens before it answers; a first query says that it is up.
	until(s.t, "PostgreSQL to be up", func() bool {
		probe := a.command(postgresBin+"pg_isready", "-q", "-h", "127.0.0.1", "-p", "5432", "-U", "shop", "-d", "postgres")
		s.ns["db"].do(func() { err = probe.Run() })
		return err == nil
	})
}

// talk is a client that is told line by line what to ask.
type talk struct {
	s    *system
	in   *os.File
	outs [2]*os.File
	pid  int
	wait func() unix.WaitStatus
}

func (s *system) talk(args []string) *talk {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { w.Close() })
	c := &talk{s: s, in: w, outs: [2]*os.File{s.temp(), s.temp()}}
	c.pid, c.wait = s.supervise("api", r, c.outs, args)
	r.Close()
	return c
}

// say may be too late for a client that ended because it could not connect.
func (c *talk) say(lines string) {
	c.s.t.Helper()
	if _, err := io.WriteString(c.in, lines); err != nil && !errors.Is(err, unix.EPIPE) {
		c.s.t.Fatal(err)
	}
}

// hear waits for the client to write something. It leaves alone the offset that it shares with the client.
func (c *talk) hear(out *os.File, words string) {
	c.s.t.Helper()
	until(c.s.t, words, func() bool {
		b, err := os.ReadFile(out.Name())
		return err == nil && strings.Contains(string(b), words)
	})
}

// outcome is how a client's run ends.
type outcome struct {
	status int
	// out is what it wrote, by words; errs is a pattern of what it complained of.
	out, errs string
	// took bounds the time in milliseconds.
	took [2]int
}

func (c *talk) end(t *testing.T, began time.Time, want outcome) {
	t.Helper()
	c.in.Close()
	hung := time.AfterFunc(15*time.Second, func() { _ = unix.Kill(c.pid, unix.SIGKILL) })
	status := c.wait()
	hung.Stop()
	took := time.Since(began)
	out, errs := strings.Join(strings.Fields(read(t, c.outs[0])), " "), strings.TrimSpace(read(t, c.outs[1]))
	t.Logf("status %d after %v: %q, %q", status.ExitStatus(), took.Round(time.Millisecond), out, errs)
	if !status.Exited() || status.ExitStatus() != want.status {
		t.Errorf("status %#x, want %d", status, want.status)
	}
	if out != want.out {
		t.Errorf("it wrote %q, want %q", out, want.out)
	}
	if (want.errs == "") != (errs == "") || !regexp.MustCompile(want.errs).MatchString(errs) {
		t.Errorf("it complained %q, want %q", errs, want.errs)
	}
	// The upper bounds leave room for a busy machine.
	between(t, "done", took, time.Duration(want.took[0]-5)*time.Millisecond, time.Duration(want.took[1])*time.Millisecond)
}

// condition is what befalls the link: at its opening or, where established, after a first answer.
type condition struct {
	name                      string
	effect                    fault.LinkEffect
	direct, established, heal bool
	// impatient says that the client's kernel repeats a SYN only once before it gives up.
	impatient bool
	// psqlOptions goes into psql's connection string, redisCommand into redis-cli's command line: told line
	// by line, it goes on after an error and ends without one.
	psqlOptions, redisCommand string
	psql, redis               outcome
}

const (
	psqlFailed   = `^psql: error: connection to server at "127\.77\.0\.2", port 5432 failed: `
	psqlCutOff   = `server closed the connection unexpectedly\n\tThis probably means`
	psqlTimesOut = `could not receive data from server: Connection timed out\nconnection to server was lost$`
	redisFails   = `^Could not connect to Redis at 127\.77\.0\.2:5432: `
	probing      = "keepalives_idle=1 keepalives_interval=1 keepalives_count=2 tcp_user_timeout=1500"
	allOfPsql    = "one 2 3"
	allOfRedis   = "OK one 1 2"
)

func conditions() []condition {
	latency := fault.LinkEffect{Kind: fault.Latency, Delay: 200 * time.Millisecond, Connect: true}
	return []condition{
		{name: "plain", psql: outcome{0, allOfPsql, "", [2]int{200, 1500}}, redis: outcome{0, allOfRedis, "", [2]int{0, 950}}},
		{name: "direct", direct: true,
			psql: outcome{0, allOfPsql, "", [2]int{200, 1500}}, redis: outcome{0, allOfRedis, "", [2]int{0, 950}}},
		// Each round trip is 400 ms: the opening, the greeting (redis-cli asks for the commands there are), and
		// each statement.
		{name: "delay", effect: latency,
			psql: outcome{0, allOfPsql, "", [2]int{3000, 5500}}, redis: outcome{0, allOfRedis, "", [2]int{2400, 4500}}},
		{name: "delay later", effect: latency, established: true,
			psql: outcome{0, allOfPsql, "", [2]int{1800, 4000}}, redis: outcome{0, allOfRedis, "", [2]int{1200, 3000}}},
		// Given a command that it cannot send, redis-cli connects once more.
		{name: "timeout", effect: fault.LinkEffect{Kind: fault.TimeOut, Delay: 300 * time.Millisecond}, redisCommand: "GET k",
			psql:  outcome{2, "", psqlFailed + "Connection timed out", [2]int{300, 950}},
			redis: outcome{1, "", redisFails + "Connection timed out$", [2]int{600, 1900}}},
		{name: "refuse", effect: fault.LinkEffect{Kind: fault.Refuse}, redisCommand: "GET k",
			psql:  outcome{2, "", psqlFailed + "Connection refused", [2]int{0, 950}},
			redis: outcome{1, "", redisFails + "Connection refused$", [2]int{0, 950}}},
		{name: "reset", effect: fault.LinkEffect{Kind: fault.Reset, AfterBytes: 10}, redisCommand: "GET k",
			psql:  outcome{2, "", psqlFailed + psqlCutOff, [2]int{0, 950}},
			redis: outcome{1, "", "^Error: Connection reset by peer$", [2]int{0, 950}}},
		{name: "reset later", effect: fault.LinkEffect{Kind: fault.Reset, AfterBytes: 10}, established: true,
			psql:  outcome{2, "one", psqlCutOff + `(?s).*\nconnection to server was lost$`, [2]int{0, 950}},
			redis: outcome{0, "OK", "^Error: Connection reset by peer", [2]int{0, 950}}},
		// libpq counts whole seconds.
		{name: "blackhole", effect: fault.LinkEffect{Kind: fault.Blackhole}, psqlOptions: "connect_timeout=2", redisCommand: "GET k",
			impatient: true,
			psql:      outcome{2, "", psqlFailed + "timeout expired$", [2]int{1000, 2950}},
			redis:     outcome{1, "", redisFails + "Connection timed out$", [2]int{6000, 9000}}},
		{name: "blackhole later", effect: fault.LinkEffect{Kind: fault.Blackhole}, established: true,
			psqlOptions: probing,
			psql:        outcome{2, "one", psqlTimesOut, [2]int{1500, 4000}}},
		{name: "healed", effect: fault.LinkEffect{Kind: fault.Partition}, heal: true,
			psql: outcome{0, allOfPsql, "", [2]int{500, 2500}}, redis: outcome{0, allOfRedis, "", [2]int{300, 950}}},
		{name: "healed midway", effect: fault.LinkEffect{Kind: fault.Partition}, heal: true, established: true,
			psql: outcome{0, allOfPsql, "", [2]int{500, 2500}}, redis: outcome{0, allOfRedis, "", [2]int{300, 2500}}},
	}
}

// side is a real server with the client that is its own.
type side struct {
	serve func(s *system)
	args  []string
	// first is answered by heard, and rest follows.
	first, heard, rest string
}

func (d side) run(t *testing.T, c condition, want outcome) {
	s := newSystem(t, !c.direct)
	d.serve(s)
	if c.impatient {
		s.repeatSYN(t, "1")
	}
	var id string
	install := func(now bool) {
		if now && c.effect.Kind != "" {
			id = s.install(c.effect.Kind, func(e *fault.LinkEffect) { *e = c.effect })
		}
	}
	install(!c.established)
	began := time.Now()
	client := s.talk(d.args)
	client.say(d.first)
	if c.established {
		client.hear(client.outs[0], d.heard)
		began = time.Now()
		install(true)
	}
	client.say(d.rest)
	if c.heal {
		until(t, "the rule to act", func() bool { return s.links.Fired(id) > 0 })
		time.Sleep(300 * time.Millisecond)
		s.links.Lift(id)
	}
	client.end(t, began, want)
	if id != "" && s.links.Fired(id) == 0 {
		t.Error("the rule never acted")
	}
}

// repeatSYN sets how often the kernel of the api repeats an unanswered SYN.
func (s *system) repeatSYN(t *testing.T, times string) {
	t.Helper()
	var err error
	s.ns["api"].do(func() { err = os.WriteFile("/proc/sys/net/ipv4/tcp_syn_retries", []byte(times), 0) })
	if err != nil {
		t.Skip("cannot set how often a SYN is repeated: ", err)
	}
}

func psqlArgs(options string) []string {
	return []string{postgresBin + "psql", "-X", "-A", "-t", "-w",
		"host=127.77.0.2 port=5432 user=shop dbname=postgres sslmode=disable gssencmode=disable " + options}
}

// psql, by libpq, against PostgreSQL.
func TestPostgres(t *testing.T) {
	t.Parallel()
	installed(t, postgresBin+"postgres")
	installed(t, postgresBin+"psql")
	a := newAccount(t)
	a.template(t)
	t.Run("keepalive", func(t *testing.T) { keepalive(t, a) })
	for _, c := range conditions() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			side{a.postgres, psqlArgs(c.psqlOptions), "select 'one';\n", "one",
				"select pg_sleep(0.1); select 2;\nselect pg_sleep(0.1); select 3;\n"}.run(t, c, c.psql)
		})
	}
}

// A client that only listens is told by the probes of keepalive that the cable is pulled: the first after a
// second, and with the second one the time of tcp_user_timeout is over.
func keepalive(t *testing.T, a account) {
	t.Parallel()
	s := newSystem(t, true)
	a.postgres(s)
	client := s.talk(psqlArgs(probing))
	client.say("do $$ begin raise notice 'asleep'; perform pg_sleep(30); end $$;\n")
	client.hear(client.outs[1], "asleep")
	began := time.Now()
	s.install(fault.Blackhole, nil)
	client.end(t, began, outcome{2, "", psqlTimesOut, [2]int{1500, 4500}})
}

// redis-cli, by hiredis, against Redis.
func TestRedisServer(t *testing.T) {
	t.Parallel()
	server, cli := installed(t, "/usr/bin/redis-server"), installed(t, "/usr/bin/redis-cli")
	serve := func(s *system) {
		s.t.Cleanup(s.start("db", server, "--port", "5432", "--save", "", "--bind", "127.0.0.1"))
		until(s.t, "Redis to listen", func() bool { v4, _ := s.ns["db"].Listening(5432); return v4 })
	}
	for _, c := range conditions() {
		if c.redis == (outcome{}) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{cli, "-h", "127.77.0.2", "-p", "5432"}
			d := side{serve, args, "SET k one\n", "OK", "GET k\nINCR n\nINCR n\n"}
			if c.redisCommand != "" {
				d = side{serve: serve, args: append(args, strings.Fields(c.redisCommand)...)}
			}
			d.run(t, c, c.redis)
		})
	}
}
