package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/squallhq/squall/protocol/protocoltest"
	"github.com/squallhq/squall/protocol/redis"
	"github.com/squallhq/squall/spec"
)

func TestConformance(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Protocol: redis.Protocol{},
		Serve: func(conn net.Conn) {
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if lines.Text() == "PING" {
					_, _ = fmt.Fprint(conn, "+PONG\r\n")
				}
			}
		},
		Op: spec.Operation{Method: "ping"},
		Check: func(t *testing.T, r spec.Response) {
			if !r.OK || r.Body != "PONG" || r.Error != "" {
				t.Errorf("%+v", r)
			}
		},
		Missing: []spec.Operation{
			{Method: "get"}, {Method: "set", Args: map[string]any{"key": "k"}}, {Method: "command"},
			{Method: "command", Args: map[string]any{"args": " "}}, {Method: "command", Args: map[string]any{"args": "[]"}},
		},
	})
}

// TestReplies is what a client makes of replies.
func TestReplies(t *testing.T) {
	for _, tc := range []struct{ reply, body, failure string }{
		{"+OK\r\n", "OK", ""},
		{"-ERR x y\r\n", "", "ERR x y"},
		{"!8\r\nERR\r\nx y\r\n", "", "ERR\r\nx y"},
		{"$-1\r\n", "", ""},
		{"*-1\r\n", "", ""},
		{"_\r\n", "", ""},
		{"#t\r\n", "true", ""},
		{",1.5\r\n", "1.5", ""},
		{",inf\r\n", "inf", ""},
		{"(12345678901234567890\r\n", "12345678901234567890", ""},
		{"=7\r\ntxt:abc\r\n", "abc", ""},
		{"~2\r\n:1\r\n:2\r\n", "[1,2]", ""},
		{"%1\r\n+a\r\n*1\r\n%0\r\n", `{"a":[{}]}`, ""},
		{"|1\r\n+ttl\r\n:1\r\n:7\r\n", "7", ""},
		{"*2\r\n-ERR x\r\n+y\r\n", `["-ERR x","y"]`, ""},
		{"$5\r\nab", "", "connection closed"},
		{"?\r\n", "", `redis: "?" is not understood`},
		{":x\r\n", "", `redis: ":x" is not understood`},
		{"$99999999999\r\n", "", `redis: "99999999999" is not understood`},
		{"$999999999\r\n", "", "the reply is longer than 16 MiB"},
		{"*2000000000\r\n" + strings.Repeat("+\r\n", 6<<20), "", "the reply is longer than 16 MiB"},
		{strings.Repeat("*1\r\n", 100), "", `redis: "*1" is not understood`},
		{"+" + strings.Repeat("x", 17<<20), "", "the reply is longer than 16 MiB"},
	} {
		t.Run(fmt.Sprintf("%.20q", tc.reply), func(t *testing.T) {
			here, there := net.Pipe()
			c := redis.Protocol{}.Client(func(context.Context) (net.Conn, error) { return here, nil }, spec.Target{})
			go func() {
				_, _ = there.Read(make([]byte, 100))
				_, _ = there.Write([]byte(tc.reply))
				_ = there.Close()
			}()
			r := do(t, c, spec.Operation{Method: "ping"})
			if r.Body != tc.body || r.Error != tc.failure || r.OK != (tc.failure == "") {
				t.Errorf("ok %v, %q, %q", r.OK, r.Body, r.Error)
			}
		})
	}
}

func TestConversation(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	protocoltest.Converse(t, redis.Protocol{}, []protocoltest.Dialogue{
		{
			Name:  "commands",
			Turns: []string{"*2\r\n$3\r\nget\r\n$1\r\nk\r\nPING\r\n\r\n*0\r\nset 'a b' c\n", "$1\r\nv\r\n+PONG\r\n-OOM no room\r\n", "*1\r\n$4\r\nEXEC\r\n", "*2\r\n*1\r\n:1\r\n$-1\r\n"},
			Want:  []string{"command=GET key=k ruled", "command=PING ruled", "- 6", "command=SET key=a b ruled", "command=EXEC ruled", "", "", "code=OOM text=no room", ""},
		},
		{
			Name: "keys",
			Turns: []string{"EVAL s 0 a\nEVAL s 1 k a\nXREAD COUNT 1 STREAMS s 0\nXREAD BLOCK 0 streams s 0\nXREAD\nOBJECT ENCODING k\nZUNION 2 a b\nBLPOP l 0\nLMPOP 1 l LEFT\n" +
				"PUBLISH c m\nKEYS k\nNOSUCH k\nEVAL\nSELECT 1\n"},
			Want: []string{"command=EVAL ruled", "command=EVAL key=k ruled", "command=XREAD key=s ruled", "command=XREAD key=s ruled !duplicate", "command=XREAD ruled",
				"command=OBJECT key=k ruled", "command=ZUNION key=a ruled", "command=BLPOP key=l ruled !duplicate", "command=LMPOP key=l ruled", "command=PUBLISH key=c ruled",
				"command=KEYS ruled", "command=NOSUCH key=k ruled", "command=EVAL ruled", "command=SELECT"},
		},
		{
			Name:  "a transaction",
			Turns: []string{"MULTI\nSET k v\nMULTI\nEXEC\nSET k v\n", "+OK\r\n+QUEUED\r\n-ERR nested\r\n*1\r\n+OK\r\n+OK\r\n"},
			Want: []string{"command=MULTI ruled !response", "command=SET key=k ruled !duplicate !response", "command=MULTI ruled !response", "command=EXEC ruled", "command=SET key=k ruled",
				"", "", "code=ERR text=nested", "", ""},
		},
		{
			Name:  "subscriptions",
			Turns: []string{"GET a\nSUBSCRIBE c d\nPING\n", "$-1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n", "UNSUBSCRIBE\nPING\n", "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nd\r\n:0\r\n+PONG\r\n"},
			Want: []string{"command=GET key=a ruled", "command=SUBSCRIBE key=c ruled !duplicate !response", "command=PING ruled", "command=UNSUBSCRIBE ruled !duplicate !response", "command=PING ruled",
				"", "", "- 31", "", "", ""},
		},
		{
			Name:  "pushes of RESP3",
			Turns: []string{"HELLO 3\nSUBSCRIBE c\nLRANGE l 0 1\n", "%1\r\n+proto\r\n:3\r\n>3\r\n+subscribe\r\n+c\r\n:1\r\n>2\r\n+invalidate\r\n*1\r\n+k\r\n*3\r\n+message\r\n+c\r\n+x\r\n"},
			Want:  []string{"command=HELLO", "command=SUBSCRIBE key=c ruled !duplicate !response", "command=LRANGE key=l ruled", "", "", "- 25", ""},
		},
		{
			Name:  "answers that are not wanted",
			Turns: []string{"CLIENT REPLY SKIP\nGET a\nGET b\nCLIENT REPLY OFF\nGET c\nclient reply on\nGET d\n", "$1\r\nb\r\n+OK\r\n$1\r\nd\r\n"},
			Want: []string{"command=CLIENT silent", "command=GET key=a ruled silent !duplicate !error !response", "command=GET key=b ruled", "command=CLIENT silent", "command=GET key=c ruled silent", "command=CLIENT", "command=GET key=d ruled",
				"", "", ""},
		},
		{
			Name:  "MONITOR",
			Turns: []string{"MONITOR\n", "+OK\r\n", "PING\n", "+1339518083.107412 [0 127.0.0.1:60866] \"keys\" \"*\"\r\n+PONG\r\n"},
			Want:  []string{"command=MONITOR", "command=PING ruled", "", "- 51", ""},
		},
		{
			Name:  "a server that speaks first",
			Turns: []string{"", "-ERR max number of clients reached\r\n"},
			Want:  []string{"- 36"},
		},
		{
			Name:  "long values",
			Turns: []string{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2097152\r\n" + long + "\r\nGET k\n", "+OK\r\n$2097152\r\n" + long + "\r\n"},
			Want:  []string{"command=SET key=k ruled !duplicate", "command=GET key=k ruled", "", ""},
		},
		{Name: "TLS", Turns: []string{"\x16\x03\x01\x02\x00\x01\x00"}, Err: "encrypted"},
		{Name: "a replica", Turns: []string{"PING\nPSYNC ? -1\n", "+PONG\r\n"}, Err: "replica"},
		{Name: "replies switched off in a transaction", Turns: []string{"MULTI\nCLIENT REPLY OFF\n"}, Err: "transaction"},
		{Name: "no RESP", Turns: []string{"PING\n", "HTTP/1.1 200 OK\r\n\r\n"}, Err: "not understood"},
		{Name: "a length that is none", Turns: []string{"*1\r\n$x\r\n"}, Err: "not understood"},
		{Name: "nested too deep", Turns: []string{"PING\n", strings.Repeat("*1\r\n", 600)}, Err: "too deep"},
		{Name: "a line without an end", Turns: []string{strings.Repeat("x", 70000)}, Err: "too long"},
	})
}

func FuzzConversation(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nSUBSCRIBE a\r\nMULTI\r\nSET a 1\r\nEXEC\r\n"), []byte("$-1\r\n*3\r\n+subscribe\r\n+a\r\n:1\r\n+OK\r\n"), 3)
	f.Add([]byte("HELLO 3\r\nCLIENT REPLY SKIP\r\nEVAL x 1 k\r\n"), []byte("%1\r\n+a\r\n|1\r\n+x\r\n_\r\n#t\r\n>1\r\n+x\r\n"), 1)
	f.Fuzz(func(t *testing.T, up, down []byte, size int) {
		protocoltest.Hostile(t, redis.Protocol{}, up, down, size, 2<<20)
	})
}

func TestReady(t *testing.T) {
	for _, tc := range []struct{ reply, want string }{
		{"+PONG\r\n", ""},
		{"-LOADING Redis is loading the dataset in memory\r\n", "LOADING Redis is loading the dataset in memory"},
		{"-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required."},
		{"+HELLO\r\n", `redis: PING is answered by "HELLO"`},
		{"", "EOF"},
	} {
		dial := func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Read(make([]byte, 100))
				_, _ = there.Write([]byte(tc.reply))
				_ = there.Close()
			}()
			return here, nil
		}
		if err := (redis.Protocol{}).Ready(t.Context(), dial, spec.Target{}); (err == nil) != (tc.want == "") || (err != nil && err.Error() != tc.want) {
			t.Errorf("%q: %v, want %q", tc.reply, err, tc.want)
		}
	}
}
