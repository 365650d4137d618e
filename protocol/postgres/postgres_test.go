package postgres_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/postgres"
	"github.com/squallhq/squall/protocol/protocoltest"
	"github.com/squallhq/squall/spec"
)

func TestConformance(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Protocol: postgres.Protocol{},
		Serve: func(conn net.Conn) {
			b := pgproto3.NewBackend(conn, conn)
			if _, err := b.ReceiveStartupMessage(); err != nil {
				return
			}
			b.Send(&pgproto3.AuthenticationOk{})
			for {
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				if b.Flush() != nil {
					return
				}
				if m, err := b.Receive(); err != nil || m.(*pgproto3.Query).String != "SELECT 1" {
					return
				}
				b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("n"), DataTypeOID: 23}}})
				b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("1")}})
				b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
			}
		},
		Op: query("SELECT 1"),
		Check: func(t *testing.T, r spec.Response) {
			if !r.OK || r.Body != `[{"n":1}]` || r.Error != "" {
				t.Errorf("%+v", r)
			}
		},
		Missing: []spec.Operation{{Method: "query"}, {Method: "exec", Args: map[string]any{"sql": 3}}, query("a\x00b")},
	})
}

func TestNormal(t *testing.T) {
	normal := postgres.Protocol{}.Messages().Match[0].Normal
	for _, tc := range []struct{ sql, want string }{
		{"SELECT  *\n FROM Users;", "select*from users"},
		{"select*from USERS ;; ", "select*from users"},
		{`SELECT "Name", 'It''s', E'a\'B', $1, $22 FROM "T" -- why`, `select "Name" , 'It''s' , e'a\'B' , ? , ? from "T"`},
		{"INSERT INTO t(a,b) VALUES($1,?)", "insert into t ( a , b ) values ( ? , ? )"},
		{"a=1 AND b<>'X'OR c::text>=2", "a = 1 and b <> 'X' or c :: text >= 2"},
		{"SELECT $$It's; Mine$$, $q$ $$ $q$", "select $$It's; Mine$$ , $q$ $$ $q$"},
		{"/* a /* b */ ; */ BEGIN ; SELECT 1", "begin ; select 1"},
		{"select a.b, c . d from e.f", "select a.b , c.d from e.f"},
		{"select 'open", "select 'open"},
		{"select 1 - -1", "select 1 - - 1"},
		{"x - --y", "x -"},
		{"a / * b", "a / *b"},
		{"ÄÖ Ä", "ÄÖ Ä"},
		{"", ""},
	} {
		if got := normal(tc.sql); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.sql, got, tc.want)
		}
		if got := normal(tc.want); got != tc.want {
			t.Errorf("%q: %q a second time", tc.want, got)
		}
	}
}

func FuzzNormal(f *testing.F) {
	f.Add("SELECT $1, E'\\'' /* x */ FROM t -- y")
	f.Add("a*/ *$q$.$1;;")
	normal := postgres.Protocol{}.Messages().Match[0].Normal
	f.Fuzz(func(t *testing.T, sql string) {
		once := normal(sql)
		if twice := normal(once); twice != once {
			t.Errorf("%q: %q, then %q", sql, once, twice)
		}
	})
}

// said makes bytes of what a client says, and answered of what a server does.
func said(list ...pgproto3.FrontendMessage) string {
	var out []byte
	for _, m := range list {
		out, _ = m.Encode(out)
	}
	return string(out)
}

func answered(list ...pgproto3.BackendMessage) string {
	var out []byte
	for _, m := range list {
		out, _ = m.Encode(out)
	}
	return string(out)
}

func tag(text string) pgproto3.BackendMessage {
	return &pgproto3.CommandComplete{CommandTag: []byte(text)}
}
func now(state byte) pgproto3.BackendMessage { return &pgproto3.ReadyForQuery{TxStatus: state} }
func failure(code string) pgproto3.BackendMessage {
	return &pgproto3.ErrorResponse{Severity: "ERROR", Code: code, Message: "made up"}
}

type (
	parse    = pgproto3.Parse
	bind     = pgproto3.Bind
	execute  = pgproto3.Execute
	describe = pgproto3.Describe
	simple   = pgproto3.Query
)

func login() (client, server string) {
	return said(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "me", "database": "db"}}),
		answered(&pgproto3.AuthenticationOk{}, &pgproto3.ParameterStatus{Name: "a", Value: "b"}, &pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte("abcd")}, now('I'))
}

func TestConversation(t *testing.T) {
	for _, d := range dialogues() {
		if !strings.HasPrefix(d.Name, "raw") {
			// The log-in comes first; | stands where the server's lines begin.
			client, server := login()
			d.Turns = append([]string{client, server}, d.Turns...)
			if cut := slices.Index(d.Want, "|"); cut >= 0 {
				d.Want = slices.Concat([]string{"database=db user=me"}, d.Want[:cut], []string{"status=I", "- 9"}, d.Want[cut+1:])
			}
		}
		protocoltest.Converse(t, postgres.Protocol{}, []protocoltest.Dialogue{d})
	}
}

func dialogues() []protocoltest.Dialogue {
	ssl, gss := said(&pgproto3.SSLRequest{}), said(&pgproto3.GSSEncRequest{})
	client, server := login()
	sync, flush := &pgproto3.Sync{}, &pgproto3.Flush{}
	select1 := said(&parse{Name: "s", Query: "SELECT 1"}, &describe{ObjectType: 'S', Name: "s"}, sync)
	long := strings.Repeat("x", 2<<20)
	return []protocoltest.Dialogue{
		{Name: "raw encryption refused", Turns: []string{ssl, "N", gss, "N", client, server}, Want: []string{"", "", "database=db user=me", "text=N", "text=N", "status=I", "- 9"}},
		{Name: "raw encryption", Turns: []string{ssl, "S", "\x16\x03\x01\x00"}, Err: "encrypted"},
		{Name: "raw TLS without a question", Turns: []string{"\x16\x03\x01\x02\x00\x01\x00\x01"}, Err: "encrypted"},
		{Name: "raw cancel", Turns: []string{said(&pgproto3.CancelRequest{ProcessID: 1, SecretKey: []byte("abcd")})}, Want: []string{"silent"}},
		{Name: "raw version", Turns: []string{"\x00\x00\x00\x08\x00\x02\x00\x00"}, Err: "version 2.0"},
		{Name: "raw refused", Turns: []string{client, answered(failure("28P01"))}, Want: []string{"database=db user=me", "code=28P01 text=made up"}},
		{
			Name:  "raw password",
			Turns: []string{client, answered(&pgproto3.AuthenticationCleartextPassword{}), said(&pgproto3.PasswordMessage{Password: "x"}), answered(&pgproto3.AuthenticationOk{}, now('I'))},
			Want:  []string{"database=db user=me", "silent", "status=I"},
		},
		{
			Name:  "simple queries",
			Turns: []string{said(&simple{String: "SELECT 1"}, &simple{String: "BEGIN"}), answered(&pgproto3.RowDescription{}, &pgproto3.DataRow{}, tag("SELECT 1"), now('I'), tag("BEGIN"), now('T'))},
			Want:  []string{"query=SELECT 1 ruled", "query=BEGIN ruled", "|", "status=I tag=SELECT 1", "status=T tag=BEGIN"},
		},
		{
			Name:  "a prepared statement",
			Turns: []string{select1, answered(&pgproto3.ParseComplete{}, &pgproto3.ParameterDescription{}, &pgproto3.RowDescription{}, now('I')), said(&bind{PreparedStatement: "s"}, &execute{}, sync), answered(&pgproto3.BindComplete{}, tag("SELECT 0"), now('I'))},
			Want:  []string{"", "query=SELECT 1 ruled", "|", "status=I", "status=I tag=SELECT 0"},
		},
		{
			Name:  "what cannot be doubled",
			Turns: []string{said(&parse{Name: "s", Query: "a"}, &bind{PreparedStatement: "s"}, &execute{}, sync, &bind{PreparedStatement: "s", DestinationPortal: "p"}, &execute{Portal: "p"}, sync, &execute{Portal: "p"}, sync, &simple{String: "COPY t FROM STDIN"})},
			Want:  []string{"query=a ruled !duplicate", "query=a ruled !duplicate", "query=a ruled", "query=COPY t FROM STDIN ruled !duplicate", "|"},
		},
		{
			Name:  "several statements before a Sync",
			Turns: []string{said(&parse{Query: "a"}, &bind{}, &execute{}, &parse{Query: "b"}, &bind{}, &execute{}, sync), answered(&pgproto3.ParseComplete{}, &pgproto3.BindComplete{}, tag("A"), failure("22012"), now('I'))},
			Want:  []string{"query=a; b ruled", "|", "code=22012 status=I tag=A text=made up"},
		},
		{
			Name: "parts that end with Flush",
			Turns: []string{said(&parse{Query: "a"}, &describe{ObjectType: 'S'}, flush), answered(&pgproto3.ParseComplete{}, &pgproto3.ParameterDescription{}, &pgproto3.NoData{}),
				said(&bind{}, &execute{}, flush, flush), answered(&pgproto3.BindComplete{}, tag("A")), said(sync), answered(now('I'))},
			Want: []string{"", "query=a ruled !duplicate", "silent", "", "|", "", "tag=A", "status=I"},
		},
		{
			Name:  "an error passes over what comes before the Sync",
			Turns: []string{said(&parse{Query: "a"}, flush, &bind{}, &execute{}, flush, sync), answered(failure("42601"), now('I'))},
			Want:  []string{"", "query=a ruled !duplicate", "", "|", "code=42601 text=made up", "", "status=I"},
		},
		{
			Name:  "a simple query behind parts without a Sync",
			Turns: []string{said(&parse{Query: "a"}, &simple{String: "b"}), answered(&pgproto3.ParseComplete{}, tag("B"), now('I'))},
			Want:  []string{"", "query=b ruled", "|", "", "status=I tag=B"},
		},
		{
			Name: "COPY",
			Turns: []string{said(&simple{String: "COPY t FROM STDIN"}), answered(&pgproto3.CopyInResponse{}), said(&pgproto3.CopyData{Data: []byte("1\n")}, &pgproto3.CopyDone{}), answered(tag("COPY 1"), now('I')),
				said(&simple{String: "COPY t TO STDOUT"}), answered(&pgproto3.CopyOutResponse{}, &pgproto3.CopyData{Data: []byte("1\n")}, &pgproto3.CopyDone{}, tag("COPY 1"), now('I'))},
			Want: []string{"query=COPY t FROM STDIN ruled !duplicate", "silent", "silent", "query=COPY t TO STDOUT ruled !duplicate", "|", "status=I tag=COPY 1", "status=I tag=COPY 1"},
		},
		{
			Name: "COPY in the extended protocol needs a second Sync",
			Turns: []string{said(&parse{Query: "COPY t FROM STDIN"}, &bind{}, &execute{}, sync), answered(&pgproto3.ParseComplete{}, &pgproto3.BindComplete{}, &pgproto3.CopyInResponse{}),
				said(&pgproto3.CopyData{Data: []byte("1\n")}, &pgproto3.CopyDone{}, sync, &simple{String: "a"}), answered(tag("COPY 1"), now('I'), tag("A"), now('I'))},
			Want: []string{"query=COPY t FROM STDIN ruled !duplicate", "silent", "silent", "silent", "query=a ruled", "|", "status=I tag=COPY 1", "status=I tag=A"},
		},
		{
			Name:  "what a server says by itself",
			Turns: []string{said(&simple{String: "a"}), answered(tag("A"), now('I'), &pgproto3.NotificationResponse{Channel: "c"}, failure("57P01"))},
			Want:  []string{"query=a ruled", "|", "status=I tag=A", "- 41"},
		},
		{
			Name:  "notices in a query's midst",
			Turns: []string{said(&simple{String: "a"}, &pgproto3.Terminate{}), answered(&pgproto3.NoticeResponse{Message: "n"}, tag("A"), &pgproto3.NotificationResponse{Channel: "c"}, now('I'))},
			Want:  []string{"query=a ruled", "silent", "|", "status=I tag=A", "- 12"},
		},
		{
			Name:  "long messages",
			Turns: []string{said(&simple{String: long}, &parse{Query: "a"}, &bind{Parameters: [][]byte{[]byte(long)}}, &execute{}, sync), answered(&pgproto3.DataRow{Values: [][]byte{[]byte(long)}}, tag("SELECT 1"), now('I'), &pgproto3.ParseComplete{}, now('I'))},
			Want:  []string{"query=" + long[:60] + " ruled !duplicate", "query=a ruled !duplicate", "|", "status=I tag=SELECT 1", "status=I"},
		},
		{Name: "an unknown message in a batch", Turns: []string{said(&bind{}) + "!\x00\x00\x00\x04"}, Err: "unknown type"},
		{Name: "an unknown message", Turns: []string{"!\x00\x00\x00\x04"}, Err: "unknown type"},
		{Name: "a length that is none", Turns: []string{"Q\x00\x00\x00\x03"}, Err: "length 3"},
	}
}

// TestNames has statements that are replaced and closed be forgotten, and very many be too many.
func TestNames(t *testing.T) {
	client, _ := login()
	c := postgres.Protocol{}.Converse()
	if _, err := c.Requests([]byte(client)); err != nil {
		t.Fatal(err)
	}
	give := func(name string, close bool) error {
		list := []pgproto3.FrontendMessage{&parse{Name: name, Query: strings.Repeat("x", 500_000)}}
		if close {
			list = append(list, &pgproto3.Close{ObjectType: 'S', Name: name})
		}
		_, err := c.Requests([]byte(said(append(list, &pgproto3.Sync{})...)))
		return err
	}
	for i := range 100 {
		for _, err := range []error{give("same", false), give(fmt.Sprint(i), true)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 100 {
		if err := give(fmt.Sprint("kept", i), false); err != nil {
			if i < 30 || !strings.Contains(err.Error(), "MiB of SQL") {
				t.Errorf("%d: %v", i, err)
			}
			return
		}
	}
	t.Error("50 MB of statements are remembered")
}

func FuzzConversation(f *testing.F) {
	client, server := login()
	for _, d := range dialogues() {
		var sides [2]string
		if !strings.HasPrefix(d.Name, "raw") {
			sides = [2]string{client, server}
		}
		for i, turn := range d.Turns {
			sides[i%2] += turn
		}
		if len(sides[0])+len(sides[1]) < 10000 {
			f.Add([]byte(sides[0]), []byte(sides[1]), 7)
		}
	}
	f.Fuzz(func(t *testing.T, up, down []byte, size int) {
		protocoltest.Hostile(t, postgres.Protocol{}, up, down, size, 3<<20)
	})
}

var _ protocol.Prober = postgres.Protocol{}
