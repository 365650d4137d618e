package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/squallhq/squall/protocol/postgres"
	"github.com/squallhq/squall/spec"
)

// parts has a client that sends statements in parts that end with Flush, and several before it reads an answer, meet errors before a
// real server.
func parts(t *testing.T, port int) {
	p := newProxy(t, port)
	direct := postgres.Protocol{}.Client(to(port), spec.Target{})
	conn, err := to(p.port)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	front := pgproto3.NewFrontend(conn, conn)
	// talk sends messages and reads until the last answer that is wanted.
	talk := func(name string, send []pgproto3.FrontendMessage, want ...string) {
		t.Helper()
		for _, m := range send {
			front.Send(m)
		}
		if err := front.Flush(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for len(got) < len(want) {
			m, err := front.Receive()
			if err != nil {
				t.Fatalf("%s: %v, after %v, want %v", name, err, got, want)
			}
			if s := short(m); s != "" {
				got = append(got, s)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	type list = []pgproto3.FrontendMessage
	sync, flush := &pgproto3.Sync{}, &pgproto3.Flush{}
	insert := func(value string) list {
		return list{&parse{Query: "INSERT INTO t VALUES (" + value + ")"}, &bind{}, &execute{}}
	}
	do(t, direct, query("TRUNCATE t"))
	talk("log in", list{&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "postgres"}}}, "ready I")
	p.rule(t, "*9*", fault("40001"))
	talk("a part", append(insert("1"), flush), "parsed", "bound", "INSERT 0 1")
	talk("an error in the last part", append(insert("9"), sync), "error 40001", "ready I")
	talk("what comes next", list{&simple{String: "SELECT 1"}}, "SELECT 1", "ready I")
	ok(t, direct, "SELECT count(*) FROM t", `[{"count":0}]`)
	talk("an error in a part", append(insert("9"), flush), "error 40001")
	talk("what is passed over", append(insert("2"), sync), "ready I")
	ok(t, direct, "SELECT count(*) FROM t", `[{"count":0}]`)
	talk("begin", list{&simple{String: "BEGIN"}}, "BEGIN", "ready T")
	talk("an error in a part of a transaction", append(insert("9"), flush), "error 40001")
	talk("the end of the parts", list{sync}, "ready E")
	talk("rollback", list{&simple{String: "ROLLBACK"}}, "ROLLBACK", "ready I")
	talk("all at once", list{&simple{String: "BEGIN"}, &simple{String: "SELECT 9"}, &simple{String: "SELECT 9, 9"}, &simple{String: "COMMIT"}, &simple{String: "SELECT 9"}},
		"BEGIN", "ready T", "error 40001", "ready E", "error 40001", "ready E", "ROLLBACK", "ready I", "error 40001", "ready I")
	p.acted(t, 6)
}

// short is a server's message in a word or two; "" for those that say nothing here.
func short(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.ParseComplete:
		return "parsed"
	case *pgproto3.BindComplete:
		return "bound"
	case *pgproto3.CommandComplete:
		return string(m.CommandTag)
	case *pgproto3.ErrorResponse:
		return "error " + m.Code
	case *pgproto3.ReadyForQuery:
		return "ready " + string(m.TxStatus)
	}
	return ""
}
