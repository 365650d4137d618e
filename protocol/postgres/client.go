package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Client returns a client without a connection.
func (Protocol) Client(dial protocol.Dialer, target spec.Target) protocol.Client {
	return &client{dial: dial, target: target, who: credentials(target)}
}

// Asks names the question of Ready.
func (Protocol) Asks() string { return "SELECT 1" }

// Ready logs in and runs a statement.
func (Protocol) Ready(ctx context.Context, dial protocol.Dialer, target spec.Target) error {
	c := &client{dial: dial, target: target, who: credentials(target)}
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return protocol.Within(ctx, s, func() error {
		_, err := s.run("SELECT 1")
		return err
	})
}

type client struct {
	dial   protocol.Dialer
	target spec.Target
	who    account
	// kept is the connection that connect opened; nil where there is none.
	kept *session
}

// account is who logs in where.
type account struct{ user, password, database string }

func credentials(t spec.Target) account {
	user := protocol.Credential(t, "postgres", "POSTGRES_USER", "PGUSER")
	return account{
		user:     user,
		password: protocol.Credential(t, "", "POSTGRES_PASSWORD", "PGPASSWORD"),
		database: protocol.Credential(t, user, "POSTGRES_DB", "PGDATABASE"),
	}
}

// session is a connection that is logged in.
type session struct {
	net.Conn
	wire *pgproto3.Frontend
}

// maxMessage bounds what a server can make the client keep.
const maxMessage = 16 << 20

func (c *client) Do(ctx context.Context, op spec.Operation) (spec.Response, error) {
	ctx, cancel := protocol.Bound(ctx, op)
	defer cancel()
	switch op.Method {
	case "query", "exec":
		sql, ok := protocol.Text(op, "sql")
		if !ok || strings.Contains(sql, "\x00") {
			return spec.Response{}, fmt.Errorf("postgres: %s on %s: sql is missing, or has a zero byte in it", op.Method, c.target)
		}
		return c.statement(ctx, op, sql)
	case "connect":
		_ = c.Close()
		s, err := c.open(ctx)
		if err != nil {
			return refused(op, err)
		}
		c.kept = s
		return spec.Response{OK: true}, nil
	case "close":
		_ = c.Close()
		return spec.Response{OK: true}, nil
	}
	return spec.Response{}, protocol.Unknown("postgres", op)
}

func (c *client) open(ctx context.Context) (*session, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn, pgproto3.NewFrontend(conn, conn)}
	s.wire.SetMaxBodyLen(maxMessage)
	if err := protocol.Within(ctx, conn, func() error { return s.login(c.who) }); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func (c *client) statement(ctx context.Context, op spec.Operation, sql string) (spec.Response, error) {
	s := c.kept
	if s == nil {
		var err error
		if s, err = c.open(ctx); err != nil {
			return refused(op, err)
		}
		defer func() { _ = s.Close() }()
	}
	var got result
	err := protocol.Within(ctx, s, func() error {
		var err error
		got, err = s.run(sql)
		return err
	})
	if err == nil {
		r := got.response(op.Method == "query")
		r.OK = true
		return r, nil
	}
	var said *serverError
	if !errors.As(err, &said) || said.fatal() {
		// What else comes on the connection would be taken for the answer to a later statement.
		_ = c.Close()
	}
	return refused(op, err)
}

// refused turns an error into a Response, with the server's code if it has one.
func refused(op spec.Operation, err error) (spec.Response, error) {
	var said *serverError
	if !errors.As(err, &said) {
		return protocol.Failed(op, spec.Response{}, err)
	}
	return spec.Response{Error: said.Error(), Fields: map[string]any{"code": said.code}}, nil
}

// Close closes the connection that connect opened.
func (c *client) Close() error {
	if c.kept == nil {
		return nil
	}
	err := c.kept.Close()
	c.kept = nil
	return err
}

// serverError is an ErrorResponse.
type serverError struct{ severity, code, message string }

func (e *serverError) Error() string {
	return fmt.Sprintf("%s: %s (SQLSTATE %s)", e.severity, e.message, e.code)
}

// fatal says that the server ends the connection.
func (e *serverError) fatal() bool { return e.severity == "FATAL" || e.severity == "PANIC" }

func said(m *pgproto3.ErrorResponse) error {
	severity := m.SeverityUnlocalized
	if severity == "" {
		severity = m.Severity
	}
	return &serverError{severity, m.Code, m.Message}
}

// affected is the number at the end of a command tag.
func affected(tag string) (int64, bool) {
	n, err := strconv.ParseInt(tag[strings.LastIndexByte(tag, ' ')+1:], 10, 64)
	return n, err == nil
}
