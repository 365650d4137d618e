package postgres

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// spoil is no SQL, so it fails, and with it the transaction that it is in.
const spoil = "squall answered this statement with an error"

// Answer returns an answer in the server's place.
func (c *conversation) Answer(m *protocol.Message, a protocol.Answer) ([]byte, error) {
	r, ok := m.Private.(*request)
	if !ok || !m.Ruled {
		return nil, fmt.Errorf("postgres: only a query can be answered")
	}
	r.amend = nil
	if a.Failed {
		return c.fail(r, a)
	}
	return c.succeed(r, a)
}

// Amend brings the server into the state that an answer told of.
func (c *conversation) Amend(m *protocol.Message) []byte {
	r, ok := m.Private.(*request)
	if !ok {
		return nil
	}
	return r.amend
}

// now is the state that the session is in once all that the server has is done.
func (c *conversation) now() byte {
	state := c.state
	for _, e := range c.pending {
		state = after(state, e.r.query)
	}
	return state
}

// fail answers with an error. Where a transaction is open, the server is made to fail too.
func (c *conversation) fail(r *request, a protocol.Answer) ([]byte, error) {
	code, says := a.Code, a.Text
	if code == "" {
		code = "XX000"
	}
	if !regexp.MustCompile(`^[0-9A-Z]{5}$`).MatchString(code) {
		return nil, fmt.Errorf("postgres: %q is no SQLSTATE: five digits and capital letters", code)
	}
	if says == "" {
		says = "injected fault"
	}
	out := errorResponse(code, strings.ReplaceAll(says, "\x00", ""))
	state := c.now()
	switch {
	case !r.synced:
		// As after an error of its own, the server passes over everything up to the next Sync.
		r.amend = append(message('P', "\x00", spoil, "\x00\x00\x00"), message('H')...)
		r.ops, r.query = []op{{kind: 'P'}}, spoil
		return out, nil
	case state != idle && commits(r.query):
		r.amend = message('Q', "ROLLBACK\x00")
		r.query, state = "ROLLBACK", idle
	case state == inside:
		r.amend = message('Q', spoil, "\x00")
		r.query, state = spoil, failed
	case state == idle && c.open:
		// What is done of the implicit transaction is undone.
		r.amend = append(message('P', "\x00", spoil, "\x00\x00\x00"), message('S')...)
		r.query = spoil
	}
	return append(out, ready(state)...), nil
}

// succeed answers a statement that returns no rows.
func (c *conversation) succeed(r *request, a protocol.Answer) ([]byte, error) {
	tag := a.Text
	if tag == "" {
		tag = string(a.Body)
	}
	all := statements(r.query)
	switch {
	case tag == "" || strings.Contains(tag, "\x00"):
		return nil, fmt.Errorf("postgres: a response needs its command tag as text, such as UPDATE 0")
	case len(all) != 1 || !rowless(all[0][0], r.query):
		return nil, fmt.Errorf("postgres: only one statement that returns no rows can be answered with a response")
	case !r.synced || r.long:
		return nil, fmt.Errorf("postgres: a request in parts cannot be answered with a response")
	}
	state := c.now()
	if state == failed {
		return errorAborted(), nil
	}
	out, err := replies(r.ops, tag)
	if err != nil {
		return nil, err
	}
	if c.open {
		r.amend = message('S')
	}
	r.query = ""
	return append(out, ready(state)...), nil
}

// replies are what the server says to the messages of a statement that returns no rows.
func replies(ops []op, tag string) ([]byte, error) {
	done := message('C', tag, "\x00")
	if ops == nil {
		return done, nil
	}
	var out []byte
	for _, o := range ops {
		switch {
		case o.kind == 'P' && o.name != "":
			return nil, fmt.Errorf("postgres: the server has to see the statement that is prepared here")
		case o.kind == 'D' && o.of == 'S':
			return nil, fmt.Errorf("postgres: the types of the statement's parameters are not known")
		case o.kind == 'P':
			out = append(out, message('1')...)
		case o.kind == 'B':
			out = append(out, message('2')...)
		case o.kind == 'D':
			out = append(out, message('n')...)
		case o.kind == 'C':
			out = append(out, message('3')...)
		case o.kind == 'E':
			out = append(out, done...)
		}
	}
	return out, nil
}

// errorAborted is what the server says in a transaction that has failed.
func errorAborted() []byte {
	return append(errorResponse("25P02", "current transaction is aborted, commands ignored until end of transaction block"), ready(failed)...)
}

// rowless says whether a statement changes data only, so that its answer has no rows and leaves the session as it is.
func rowless(command, query string) bool {
	switch command {
	case "insert", "update", "delete", "merge":
		return !strings.Contains(" "+canonical(query)+" ", " returning ")
	case "truncate", "create", "drop", "alter", "grant", "revoke", "comment", "notify", "vacuum", "analyze", "lock", "refresh", "reindex":
		return true
	}
	return false
}
