package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/squallhq/squall/internal/link/message"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/postgres"
	"github.com/squallhq/squall/spec"
)

func fault(code string) message.Action {
	return message.Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true, Code: code, Text: "made up"}}
}

// messages has the product's own client, which sends simple queries, meet every verb before a real server.
func messages(t *testing.T, port int) {
	p := newProxy(t, port)
	direct := postgres.Protocol{}.Client(to(port), spec.Target{})
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, p *proxy, c, direct protocol.Client)
	}{
		{"an error outside a transaction", hasAnErrorOutsideATransaction},
		{"an error in a transaction", hasAnErrorInATransaction},
		{"an error after a savepoint", hasAnErrorAfterASavepoint},
		{"a commit that fails", hasACommitThatFails},
		{"duplicate", hasDuplicate},
		{"response", hasResponse},
		{"hold and drop", hasHoldAndDrop},
		{"large answers and queries", hasLargeAnswersAndQueries},
		{"what an answer tells", hasWhatAnAnswerTells},
	} {
		t.Run(tc.name, func(t *testing.T) {
			do(t, direct, query("TRUNCATE t"))
			p.rule(t, "none of these", message.Action{})
			c := postgres.Protocol{}.Client(to(p.port), spec.Target{})
			t.Cleanup(func() { _ = c.Close() })
			if r := do(t, c, spec.Operation{Method: "connect"}); !r.OK {
				t.Fatal(r.Error)
			}
			tc.run(t, p, c, direct)
		})
	}
}

func hasAnErrorOutsideATransaction(t *testing.T, p *proxy, c, _ protocol.Client) {
	p.rule(t, "insert into t *", fault("53100"))
	fails(t, c, "INSERT INTO t VALUES (1)", "53100")
	ok(t, c, "SELECT count(*) FROM t", `[{"count":0}]`)
	p.acted(t, 1)
}

func hasAnErrorInATransaction(t *testing.T, p *proxy, c, _ protocol.Client) {
	p.rule(t, "insert into t values (2)", fault("40001"))
	ok(t, c, "BEGIN", "BEGIN")
	ok(t, c, "INSERT INTO t VALUES (1)", "INSERT 0 1")
	fails(t, c, "INSERT INTO t VALUES (2)", "40001")
	fails(t, c, "INSERT INTO t VALUES (3)", "25P02")
	fails(t, c, "SELECT 1", "25P02")
	ok(t, c, "COMMIT", "ROLLBACK")
	ok(t, c, "SELECT count(*) FROM t", `[{"count":0}]`)
	p.acted(t, 1)
}

func hasAnErrorAfterASavepoint(t *testing.T, p *proxy, c, _ protocol.Client) {
	p.rule(t, "*values (2)", fault("40001"))
	ok(t, c, "BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s", "SAVEPOINT")
	fails(t, c, "INSERT INTO t VALUES (2)", "40001")
	ok(t, c, "ROLLBACK TO s", "ROLLBACK")
	ok(t, c, "INSERT INTO t VALUES (3)", "INSERT 0 1")
	ok(t, c, "COMMIT", "COMMIT")
	ok(t, c, "SELECT string_agg(id::text, ',' ORDER BY id) s FROM t", `[{"s":"1,3"}]`)
	p.acted(t, 1)
}

func hasACommitThatFails(t *testing.T, p *proxy, c, direct protocol.Client) {
	p.rule(t, "commit", fault("40001"))
	ok(t, c, "BEGIN", "BEGIN")
	ok(t, c, "INSERT INTO t VALUES (1)", "INSERT 0 1")
	fails(t, c, "COMMIT", "40001")
	// No transaction is open any more, and what was in it is undone.
	ok(t, c, "INSERT INTO t VALUES (2)", "INSERT 0 1")
	ok(t, direct, "SELECT string_agg(id::text, ',' ORDER BY id) s FROM t", `[{"s":"2"}]`)
	p.acted(t, 1)
}

func hasDuplicate(t *testing.T, p *proxy, c, _ protocol.Client) {
	p.rule(t, "update *", message.Action{Verb: protocol.Duplicate})
	ok(t, c, "INSERT INTO t VALUES (1)", "INSERT 0 1")
	ok(t, c, "UPDATE t SET id = id + 1 RETURNING id", `[{"id":2}]`)
	ok(t, c, "SELECT id FROM t", `[{"id":3}]`)
	p.acted(t, 1)
}

func hasResponse(t *testing.T, p *proxy, c, _ protocol.Client) {
	p.rule(t, "*t*", message.Action{Verb: protocol.Respond, Answer: protocol.Answer{Text: "UPDATE 7"}})
	if r := do(t, c, spec.Operation{Method: "exec", Args: map[string]any{"sql": "UPDATE t SET id = 1"}}); r.Fields["affected"] != int64(7) {
		t.Errorf("%+v", r)
	}
	p.acted(t, 1)
	// An answer with rows cannot be made up: the rule fails, and the query passes.
	ok(t, c, "SELECT count(*) FROM t", `[{"count":0}]`)
	if got := p.told(message.Failed); len(got) != 1 || !strings.Contains(got[0].Err.Error(), "returns no rows") {
		t.Errorf("%v", got)
	}
}

func hasHoldAndDrop(t *testing.T, p *proxy, c, direct protocol.Client) {
	until := make(chan struct{})
	p.rule(t, "insert *", message.Action{Verb: protocol.Hold, Until: until})
	go func() {
		for len(p.told(message.Acted)) == 0 {
			time.Sleep(time.Millisecond)
		}
		r, err := direct.Do(context.Background(), query("INSERT INTO t VALUES (2)"))
		if err != nil || !r.OK {
			t.Errorf("%v %v", r.Error, err)
		}
		close(until)
	}()
	fails(t, c, "INSERT INTO t VALUES (2)", "23505")
	p.rule(t, "insert *", message.Action{Verb: protocol.Drop, How: message.Close})
	if r := do(t, c, query("INSERT INTO t VALUES (3)")); r.Error != "connection closed" {
		t.Errorf("%+v", r)
	}
	ok(t, direct, "SELECT count(*) FROM t", `[{"count":1}]`)
	p.acted(t, 1)
}

func hasLargeAnswersAndQueries(t *testing.T, p *proxy, c, _ protocol.Client) {
	p.rule(t, "select length *", fault("53200"))
	long := strings.Repeat("x", 3<<20)
	fails(t, c, "SELECT length ( '"+long+"')", "53200")
	ok(t, c, "SELECT 1, length ( '"+long+"')", `"length":3145728`)
	r := do(t, c, query("SELECT repeat('x', 5000000) r"))
	if rows, _ := r.Fields["rows"].([]any); !r.OK || len(rows) != 0 || r.Fields["truncated"] != true {
		t.Errorf("%v %v", r.Error, r.Fields)
	}
	ok(t, c, "SELECT 2 two", `[{"two":2}]`)
	p.acted(t, 1)
}

func hasWhatAnAnswerTells(t *testing.T, p *proxy, c, _ protocol.Client) {
	fails(t, c, "SELECT 1; SELECT 1/0", "22012")
	if answers := p.told(message.Answered); len(answers) != 1 || answers[0].Answer.Fields["code"] != "22012" || answers[0].Answer.Fields["status"] != "I" {
		t.Errorf("%+v", answers)
	}
}

// clients has a real driver, which uses the extended protocol, meet errors before a real server.
func clients(t *testing.T, port int) {
	p := newProxy(t, port)
	ctx := t.Context()
	cfg, err := pgx.ParseConfig(fmt.Sprintf("host=127.0.0.1 port=%d user=postgres database=postgres sslmode=prefer", p.port))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			cfg.DefaultQueryExecMode = mode
			p.rule(t, "insert into t (id) values (?)", fault("40001"))
			conn, err := pgx.ConnectConfig(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			driver(t, p, conn, mode == pgx.QueryExecModeSimpleProtocol)
		})
	}
}

func driver(t *testing.T, p *proxy, conn *pgx.Conn, simple bool) {
	ctx := t.Context()
	exec := func(want, sql string, args ...any) {
		t.Helper()
		tag, err := conn.Exec(ctx, sql, args...)
		var pg *pgconn.PgError
		got := tag.String()
		if errors.As(err, &pg) {
			got = pg.Code
		} else if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s %v: %s, want %s", sql, args, got, want)
		}
	}
	exec("TRUNCATE TABLE", "TRUNCATE t")
	insert := "INSERT INTO t(id) VALUES ($1)"
	if simple {
		p.rule(t, "insert into t(id) values (*1*)", fault("40001"))
	}
	for range 2 {
		exec("40001", insert, 1)
		exec("BEGIN", "BEGIN")
		exec("40001", insert, 1)
		exec("25P02", "UPDATE t SET name = $1", "x")
		exec("ROLLBACK", "COMMIT")
	}
	p.acted(t, 4)
	p.rule(t, "insert *", message.Action{Verb: protocol.Duplicate})
	exec("INSERT 0 1", "INSERT INTO t (id, name) VALUES ($1::int, $2) ON CONFLICT (id) DO UPDATE SET name = 'twice'", 7, "once")
	p.acted(t, 1)
	var name string
	if err := conn.QueryRow(ctx, "SELECT name FROM t WHERE id = $1", 7).Scan(&name); err != nil || name != "twice" {
		t.Errorf("%q %v", name, err)
	}
	batches(t, p, conn)
	copying(t, p, conn)
}

// batches are several statements before one Sync.
func batches(t *testing.T, p *proxy, conn *pgx.Conn) {
	ctx := t.Context()
	send := func() error {
		b := &pgx.Batch{}
		b.Queue("UPDATE t SET name = $1", "x")
		b.Queue("DELETE FROM t WHERE id = $1", 99)
		return conn.SendBatch(ctx, b).Close()
	}
	p.rule(t, "*delete from t*", fault("55P03"))
	var pg *pgconn.PgError
	if err := send(); !errors.As(err, &pg) || pg.Code != "55P03" {
		t.Errorf("%v", err)
	}
	p.acted(t, 1)
	if err := send(); err == nil {
		t.Error("no error")
	}
	p.rule(t, "nothing", message.Action{})
	if err := send(); err != nil {
		t.Error(err)
	}
}

// copying is COPY both ways, which a duplicate would break, and a notification in between.
func copying(t *testing.T, p *proxy, conn *pgx.Conn) {
	ctx := t.Context()
	if _, err := conn.Exec(ctx, "LISTEN here"); err != nil {
		t.Fatal(err)
	}
	p.rule(t, "copy *", message.Action{Verb: protocol.Duplicate})
	rows := slices.Repeat([][]any{{0, strings.Repeat("y", 1000), nil}}, 3000)
	for i := range rows {
		rows[i] = []any{1000 + i, rows[i][1], nil}
	}
	n, err := conn.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id", "name", "data"}, pgx.CopyFromRows(rows))
	if err != nil || n != 3000 {
		t.Errorf("%d %v", n, err)
	}
	if got := p.told(message.Failed); len(got) != 1 || len(p.told(message.Acted)) != 0 {
		t.Errorf("failed: %v", got)
	}
	if _, err := conn.Exec(ctx, "NOTIFY here"); err != nil {
		t.Fatal(err)
	}
	if note, err := conn.WaitForNotification(ctx); err != nil || note.Channel != "here" {
		t.Errorf("%+v %v", note, err)
	}
	if got := p.told(message.Blind); len(got) > 0 {
		t.Errorf("blind: %v", got)
	}
}
