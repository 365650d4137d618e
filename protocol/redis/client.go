package redis

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// Client returns a client without a connection.
func (Protocol) Client(dial protocol.Dialer, target spec.Target) protocol.Client {
	return &client{dial: dial, target: target}
}

// Asks names the question of Ready.
func (Protocol) Asks() string { return "PING" }

// Ready wants PONG: a server that loads its data answers LOADING, one whose master is lost MASTERDOWN.
func (Protocol) Ready(ctx context.Context, dial protocol.Dialer, target spec.Target) error {
	c := &client{dial: dial, target: target}
	conn, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return protocol.Within(ctx, conn, func() error {
		v, err := conn.ask("PING")
		if err == nil && v != "PONG" {
			return fmt.Errorf("redis: PING is answered by %.20q", fmt.Sprint(v))
		}
		return err
	})
}

type client struct {
	dial   protocol.Dialer
	target spec.Target
	// kept is the connection that connect opened; nil where there is none.
	kept *connection
}

type connection struct {
	net.Conn
	r reader
}

func (c *client) Do(ctx context.Context, op spec.Operation) (spec.Response, error) {
	ctx, cancel := protocol.Bound(ctx, op)
	defer cancel()
	switch op.Method {
	case "connect":
		_ = c.Close()
		conn, err := c.open(ctx)
		if err != nil {
			return refused(op, err)
		}
		c.kept = conn
		return spec.Response{OK: true}, nil
	case "close":
		_ = c.Close()
		return spec.Response{OK: true}, nil
	}
	args, err := arguments(op)
	if err != nil {
		return spec.Response{}, fmt.Errorf("redis: %s on %s: %w", op.Method, c.target, err)
	}
	if args == nil {
		return spec.Response{}, protocol.Unknown("redis", op)
	}
	return c.command(ctx, op, args)
}

// arguments returns the command that a step sends; nil for no step of this protocol.
func arguments(op spec.Operation) ([]string, error) {
	method := func(m protocol.Method) bool { return m.Name == op.Method }
	methods := Protocol{}.Info().Methods
	i := slices.IndexFunc(methods, method)
	if i < 0 {
		return nil, nil
	}
	defaults := map[string]any{"pattern": "*", "start": int64(0), "stop": int64(-1)}
	args := []string{strings.ToUpper(op.Method)}
	if op.Method == "delete" {
		args[0] = "DEL"
	}
	for _, p := range methods[i].Params {
		v, given := op.Args[p.Name]
		if !given {
			v = defaults[p.Name]
		}
		switch v := v.(type) {
		case string:
			args = append(args, v)
		case []byte:
			args = append(args, string(v))
		case int64, int:
			args = append(args, fmt.Sprint(v))
		default:
			return nil, fmt.Errorf("%s is missing", p.Name)
		}
	}
	if op.Method == "command" {
		return typed(args[1])
	}
	return args, nil
}

// typed splits a command that is written as a list or as a line.
func typed(text string) ([]string, error) {
	var args []string
	var list []json.RawMessage
	if json.Unmarshal([]byte(text), &list) != nil {
		args = words(text)
	}
	for _, item := range list {
		var s string
		if json.Unmarshal(item, &s) != nil {
			s = string(item)
		}
		args = append(args, s)
	}
	if len(args) == 0 {
		return nil, errors.New("args are empty")
	}
	return args, nil
}

// open makes a connection and logs in.
func (c *client) open(ctx context.Context) (*connection, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	made := &connection{conn, reader{Reader: bufio.NewReader(conn)}}
	password := protocol.Credential(c.target, "", "REDIS_PASSWORD", "REDISCLI_AUTH")
	if password == "" {
		return made, nil
	}
	login := []string{"AUTH", password}
	if user := protocol.Credential(c.target, "", "REDIS_USERNAME", "REDIS_USER"); user != "" {
		login = []string{"AUTH", user, password}
	}
	err = protocol.Within(ctx, conn, func() error {
		_, err := made.ask(login...)
		return err
	})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return made, nil
}

// ask sends a command and reads one reply.
func (c *connection) ask(args ...string) (any, error) {
	if _, err := c.Write(encode(args...)); err != nil {
		return nil, err
	}
	v, err := c.r.read()
	if e, failed := v.(replyError); failed {
		return nil, e
	}
	return v, err
}

func (c *client) command(ctx context.Context, op spec.Operation, args []string) (spec.Response, error) {
	conn := c.kept
	if conn == nil {
		var err error
		if conn, err = c.open(ctx); err != nil {
			return refused(op, err)
		}
		defer func() { _ = conn.Close() }()
	}
	var v any
	err := protocol.Within(ctx, conn, func() error {
		var err error
		v, err = conn.ask(args...)
		return err
	})
	if err != nil {
		if said := replyError(""); !errors.As(err, &said) {
			// What else comes on the connection would be taken for the answer to a later command.
			_ = c.Close()
		}
		return refused(op, err)
	}
	if list, ok := v.([]any); ok && op.Method == "keys" {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	r := spec.Response{OK: true, Fields: map[string]any{}}
	var cut bool
	if r.Body, cut = body(v); cut {
		r.Fields["truncated"] = true
	} else {
		r.Fields["value"] = v
	}
	return r, nil
}

// refused turns an error into a Response, with the server's code if it has one.
func refused(op spec.Operation, err error) (spec.Response, error) {
	var said replyError
	if !errors.As(err, &said) {
		return protocol.Failed(op, spec.Response{}, err)
	}
	return spec.Response{Error: said.Error(), Fields: map[string]any{"code": said.code()}}, nil
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
