package redis_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/internal/link/message"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/redis"
	"github.com/squallhq/squall/spec"
)

// server starts Redis and returns its port.
func server(t *testing.T, env map[string]string, args ...string) int {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server, which is not on this machine")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	var log bytes.Buffer
	cmd := exec.Command("redis-server", append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := redis.Protocol{}.Ready(ctx, to(port), spec.Target{Env: env})
		if err == nil {
			return port
		}
		if ctx.Err() != nil {
			t.Fatalf("Redis is not ready: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func command(line string) spec.Operation {
	return spec.Operation{Method: "command", Args: map[string]any{"args": line}}
}

func do(t *testing.T, c protocol.Client, op spec.Operation) spec.Response {
	t.Helper()
	r, err := c.Do(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// says wants a command's answer as text; one that fails begins with its code.
func says(t *testing.T, c protocol.Client, line, want string) {
	t.Helper()
	r := do(t, c, command(line))
	got := r.Body
	if !r.OK {
		got = r.Error
	}
	if got != want {
		t.Errorf("%s: %q, want %q", line, got, want)
	}
}

func TestSteps(t *testing.T) {
	c := redis.Protocol{}.Client(to(server(t, nil)), spec.Target{})
	op := func(method string, args ...any) spec.Operation {
		m := map[string]any{}
		for i := 0; i < len(args); i += 2 {
			m[args[i].(string)] = args[i+1]
		}
		return spec.Operation{Method: method, Args: m}
	}
	for _, tc := range []struct {
		op    spec.Operation
		body  string
		value any
	}{
		{op("ping"), "PONG", "PONG"},
		{op("set", "key", "k", "value", "a\r\nb"), "OK", "OK"},
		{op("get", "key", "k"), "a\r\nb", "a\r\nb"},
		{op("get", "key", "none"), "", nil},
		{op("incr", "key", "n"), "1", int64(1)},
		{op("rpush", "key", "l", "value", "b"), "1", int64(1)},
		{op("lpush", "key", "l", "value", "a"), "2", int64(2)},
		{op("lrange", "key", "l"), `["a","b"]`, nil},
		{op("lrange", "key", "l", "start", int64(1), "stop", int64(1)), `["b"]`, nil},
		{op("keys"), `["k","l","n"]`, nil},
		{op("keys", "pattern", "[kl]"), `["k","l"]`, nil},
		{op("delete", "key", "k"), "1", int64(1)},
		{command(`set "a b" 'it\'s'`), "OK", "OK"},
		{command(`["GET", "a b"]`), "it's", "it's"},
		{command(`["INCRBY", "n", 9007199254740993]`), "9007199254740994", int64(9007199254740994)},
	} {
		r := do(t, c, tc.op)
		if !r.OK || r.Body != tc.body || (tc.value != nil && r.Fields["value"] != tc.value) {
			t.Errorf("%+v: %+v", tc.op, r)
		}
	}
	if r := do(t, c, op("lpush", "key", "n", "value", "x")); r.OK || r.Fields["code"] != "WRONGTYPE" || !strings.HasPrefix(r.Error, "WRONGTYPE Operation") {
		t.Errorf("%+v", r)
	}
	// A transaction needs one connection.
	says(t, c, "MULTI", "OK")
	says(t, c, "EXEC", "ERR EXEC without MULTI")
	do(t, c, op("connect"))
	do(t, c, command("HELLO 3"))
	says(t, c, "MULTI", "OK")
	says(t, c, "INCR n", "QUEUED")
	says(t, c, "LPUSH n x", "QUEUED")
	says(t, c, "HGETALL none", "QUEUED")
	says(t, c, "EXEC", `[9007199254740995,"-WRONGTYPE Operation against a key holding the wrong kind of value",{}]`)
	do(t, c, op("close"))
}

func TestPassword(t *testing.T) {
	env := map[string]string{"REDIS_PASSWORD": "open sesame"}
	port := server(t, env, "--requirepass", "open sesame")
	says(t, redis.Protocol{}.Client(to(port), spec.Target{Env: env}), "PING", "PONG")
	says(t, redis.Protocol{}.Client(to(port), spec.Target{}), "PING", "NOAUTH Authentication required.")
	wrong := map[string]string{"REDIS_PASSWORD": "x", "REDIS_USERNAME": "default"}
	says(t, redis.Protocol{}.Client(to(port), spec.Target{Env: wrong}), "PING", "WRONGPASS invalid username-password pair or user is disabled.")
	if err := (redis.Protocol{}).Ready(t.Context(), to(port), spec.Target{}); err == nil {
		t.Error("ready without the password")
	}
}

// TestMessages has each verb, and what follows from it, before a real server.
func TestMessages(t *testing.T) {
	port := server(t, nil)
	p := newProxy(t, port)
	direct := redis.Protocol{}.Client(to(port), spec.Target{})
	c := redis.Protocol{}.Client(to(p.port), spec.Target{})
	defer func() { _ = c.Close() }()
	do(t, c, spec.Operation{Method: "connect"})
	failing := message.Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true, Code: "OOM", Text: "made up"}}

	p.rule(t, "set", "k*", failing)
	says(t, c, "SET k1 v", "OOM made up")
	says(t, c, "GET k1", "")
	says(t, c, "SET j v", "OK")
	p.acted(t, 1)

	// In a transaction, the server has to give it up as well.
	says(t, c, "MULTI", "OK")
	says(t, c, "SET j w", "QUEUED")
	says(t, c, "SET k1 v", "OOM made up")
	says(t, c, "EXEC", "EXECABORT Transaction discarded because of previous errors.")
	says(t, c, "GET j", "v")
	p.rule(t, "exec", "*", failing)
	says(t, c, "MULTI", "OK")
	says(t, c, "SET j w", "QUEUED")
	says(t, c, "EXEC", "OOM made up")
	says(t, c, "GET j", "v")
	p.acted(t, 1)

	p.rule(t, "incr", "*", message.Action{Verb: protocol.Duplicate})
	says(t, c, "INCR n", "1")
	says(t, c, "GET n", "2")
	p.acted(t, 1)

	for _, tc := range []struct{ form, body, want string }{
		{"", "x", "x"}, {"simple", "OK", "OK"}, {"integer", "7", "7"}, {"nil", "", ""}, {"json", `{"b": [1, "x", null, 1.5, true], "a": 2}`, `["a",2,"b",[1,"x",null,"1.5",1]]`},
	} {
		p.rule(t, "get", "j", message.Action{Verb: protocol.Respond, Answer: protocol.Answer{Code: tc.form, Body: []byte(tc.body)}})
		says(t, c, "GET j", tc.want)
		p.acted(t, 1)
	}
	says(t, c, "MULTI", "OK")
	says(t, c, "GET j", "QUEUED")
	says(t, c, "EXEC", `["v"]`)
	if got := p.told(message.Failed); len(got) != 1 || !strings.Contains(got[0].Err.Error(), "EXEC") {
		t.Errorf("%+v", got)
	}

	until := make(chan struct{})
	p.rule(t, "incr", "n", message.Action{Verb: protocol.Hold, Until: until})
	go func() {
		for len(p.told(message.Acted)) == 0 {
			time.Sleep(time.Millisecond)
		}
		_, _ = direct.Do(context.Background(), command("SET n 10"))
		close(until)
	}()
	says(t, c, "INCR n", "11")
	p.rule(t, "*", "n", message.Action{Verb: protocol.Drop, How: message.Close})
	says(t, c, "INCR n", "connection closed")
	says(t, direct, "GET n", "11")
	p.acted(t, 1)
}

// talk sends bytes over a connection of their own and wants the answers to be as given.
func talk(t *testing.T, port int, send, want string) {
	t.Helper()
	conn, err := to(port)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if err != nil || string(got) != want {
		t.Errorf("%q:\n%q %v, want\n%q", send, got[:n], err, want)
	}
}

// TestDialogues are conversations in which answers do not simply follow requests; a rule acts in each, so that an answer that
// is counted wrongly shows.
func TestDialogues(t *testing.T) {
	port := server(t, nil)
	p := newProxy(t, port)
	p.rule(t, "echo", "*", message.Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true, Text: "no"}})
	const no = "-ERR no\r\n"
	direct := redis.Protocol{}.Client(to(port), spec.Target{})
	for _, tc := range []struct{ name, send, want string }{
		{"pipeline", "PING 1\r\nECHO 2\r\nPING 3\r\nECHO 4\r\n", "$1\r\n1\r\n" + no + "$1\r\n3\r\n" + no},
		{"empty lines", "\r\n*0\r\nPING\r\n\r\nECHO 1\r\n", "+PONG\r\n" + no},
		{"transaction in one piece", "MULTI\r\nSET a 1\r\nECHO 1\r\nSET a 2\r\nEXEC\r\nGET a\r\n",
			"+OK\r\n+QUEUED\r\n" + no + "+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n$-1\r\n"},
		{"reply off", "PING 1\r\nCLIENT REPLY OFF\r\nPING 2\r\nECHO 3\r\nBAD\r\nCLIENT REPLY ON\r\nECHO 4\r\nPING 5\r\n", "$1\r\n1\r\n+OK\r\n" + no + "$1\r\n5\r\n"},
		{"reply skip", "CLIENT REPLY SKIP\r\nPING 1\r\nPING 2\r\nECHO 3\r\nCLIENT REPLY SKIP\r\nPING 4\r\nPING 5\r\n", "$1\r\n2\r\n" + no + "$1\r\n5\r\n"},
		{"subscriptions", "PING 0\r\nSUBSCRIBE a b\r\nPSUBSCRIBE c*\r\nECHO x\r\nPING 1\r\nGET a\r\nUNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nUNSUBSCRIBE\r\nECHO 1\r\nPING 2\r\n",
			"$1\r\n0\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n*3\r\n$10\r\npsubscribe\r\n$2\r\nc*\r\n:3\r\n" + no +
				"*2\r\n$4\r\npong\r\n$1\r\n1\r\n" +
				"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"},
		{"push", "HELLO 3\r\nSUBSCRIBE a\r\nPUBLISH a x\r\nECHO 1\r\nLRANGE none 0 1\r\nUNSUBSCRIBE\r\nECHO 1\r\n", "%7\r\n"},
		{"a list like a message", "RPUSH l message a b\r\nLRANGE l 0 -1\r\nECHO 1\r\nPING 1\r\n", ":3\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n" + no + "$1\r\n1\r\n"},
		{"monitor", "MONITOR\r\nECHO 1\r\n", "+OK\r\n" + no},
		{"reset", "SUBSCRIBE a\r\nRESET\r\nRPUSH l message a b\r\nLRANGE l 0 -1\r\nECHO 1\r\nPING 1\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n+RESET\r\n" +
			":3\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n" + no + "$1\r\n1\r\n"},
		{"a subscription that is refused", "SUBSCRIBE\r\nECHO 1\r\nPING 1\r\n", "-ERR wrong number of arguments for 'subscribe' command\r\n" + no + "$1\r\n1\r\n"},
		{"quoted", "SET q \"a\\x41 \\n\"\r\nGET q\r\nECHO 'it''s'\r\n", "+OK\r\n$4\r\naA \n\r\n" + no},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p.rule(t, "echo", "*", message.Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true, Text: "no"}})
			says(t, direct, "FLUSHALL", "OK")
			talk(t, p.port, tc.send, tc.want)
			if n := len(p.told(message.Failed)) + len(p.told(message.Blind)); n > 0 || len(p.told(message.Acted)) == 0 {
				t.Errorf("%d failures, %d acted", n, len(p.told(message.Acted)))
			}
		})
	}
}

// TestBlocked has a popped list and a subscription wait for others, with rules in between.
func TestBlocked(t *testing.T) {
	port := server(t, nil)
	p := newProxy(t, port)
	p.rule(t, "blpop", "*", message.Action{Verb: protocol.Duplicate})
	direct := redis.Protocol{}.Client(to(port), spec.Target{})
	conn, err := to(p.port)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(conn)
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
			t.Fatalf("%q %v, want %q", got[:n], err, want)
		}
	}
	_, _ = io.WriteString(conn, "BLPOP l 0\r\nPING 1\r\n")
	says(t, direct, "RPUSH l x y", "2")
	expect("*2\r\n$1\r\nl\r\n$1\r\nx\r\n$1\r\n1\r\n")
	if got := p.told(message.Failed); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	_, _ = io.WriteString(conn, "SUBSCRIBE ch\r\n")
	expect("*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	long := strings.Repeat("x", 3<<20)
	for _, text := range []string{"a", long, "b"} {
		do(t, direct, spec.Operation{Method: "command", Args: map[string]any{"args": fmt.Sprintf("[%q, %q, %q]", "PUBLISH", "ch", text)}})
		expect(fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$%d\r\n%s\r\n", len(text), text))
	}
	_, _ = io.WriteString(conn, "PING 2\r\nUNSUBSCRIBE\r\nPING 3\r\n")
	expect("*2\r\n$4\r\npong\r\n$1\r\n2\r\n*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n$1\r\n3\r\n")
	// A long value is not kept, and what is behind it is understood.
	p.rule(t, "ping", "*", message.Action{Verb: protocol.Respond, Answer: protocol.Answer{Body: []byte("made up")}})
	_, _ = fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\nGET k\r\nPING\r\n", len(long), long)
	expect(fmt.Sprintf("+OK\r\n$%d\r\n%s\r\n$7\r\nmade up\r\n", len(long), long))
	p.acted(t, 1)
}
