package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// request takes a piece of what the client sent.
func (c *conversation) request(out *frames, p piece) error {
	if !p.first {
		return c.more(out, p)
	}
	switch p.kind {
	case 0:
		return c.startup(out, p)
	case 'P', 'B', 'D', 'E', 'C', 'H', 'S':
		return c.extended(out, p)
	case 'Q':
		query, _ := text(p.body())
		m := queried(&request{synced: true, query: query, long: !p.last})
		delete(c.names.statements, "")
		delete(c.names.portals, "")
		return c.alone(out, p, m)
	case 'F':
		return c.alone(out, p, queried(&request{synced: true, long: !p.last}))
	case 'X', 'd', 'c', 'f', 'p':
		// The end, the data of a COPY, and passwords.
		return c.alone(out, p, &protocol.Message{Silent: true, Private: &request{}})
	}
	c.release(out)
	out.add(p.bytes, nil, false)
	return fmt.Errorf("postgres: a request of the unknown type %q", p.kind)
}

// alone adds a request that is one message of the protocol.
func (c *conversation) alone(out *frames, p piece, m *protocol.Message) error {
	err := c.finish(out, false)
	out.add(p.bytes, m, p.last)
	if !p.last {
		c.ongoing, c.ends = m, true
	}
	return err
}

// more adds a part of a long message.
func (c *conversation) more(out *frames, p piece) error {
	out.add(p.bytes, c.ongoing, p.last && c.ends)
	return nil
}

// startup takes a packet that stands before all messages.
func (c *conversation) startup(out *frames, p piece) error {
	r := &request{start: binary.BigEndian.Uint32(p.body())}
	m := &protocol.Message{Private: r, Fields: map[string]string{}}
	switch {
	case r.start == sslCode, r.start == gssCode:
	case r.start == cancelCode:
		m.Silent = true
	case r.start>>16 == 3:
		r.synced, c.starting = true, false
		for rest := p.body()[4:]; len(rest) > 1; {
			var key, value string
			key, rest = text(rest)
			value, rest = text(rest)
			if key == "user" || key == "database" {
				m.Fields[key] = value
			}
		}
	default:
		out.add(p.bytes, nil, false)
		return fmt.Errorf("postgres: version %d.%d of the protocol is not known", r.start>>16, r.start&0xffff)
	}
	out.add(p.bytes, m, true)
	return nil
}

// queried makes the message of a request that runs SQL.
func queried(r *request) *protocol.Message {
	m := &protocol.Message{Fields: map[string]string{"query": r.query}, Ruled: true, Private: r}
	refuse := func(why string) { m.Refuses = map[protocol.Verb]string{protocol.Duplicate: why} }
	switch {
	case r.long:
		refuse("it is longer than 1 MiB")
	case !r.synced:
		refuse("it is sent in parts, without a Sync")
	case copies(r.query):
		refuse("the server would wait for the data of a second COPY")
	}
	for _, o := range r.ops {
		switch {
		case o.name == "":
		case o.kind == 'P':
			refuse("it names a prepared statement, which can be made once only")
		case o.kind == 'B':
			refuse("it names a portal, which can be made once only")
		}
	}
	return m
}

func copies(query string) bool {
	for _, words := range statements(query) {
		if words[0] == "copy" {
			return true
		}
	}
	return false
}

// op is a message of the extended protocol. For D and C, of says whether its name is a statement's (S) or a portal's (P).
type op struct {
	kind, of byte
	name     string
	query    string
}

// batch are messages of the extended protocol that are answered together.
type batch struct {
	ops []op
	// queries are those that it runs, and size their length; bound are the portals that it makes.
	queries []string
	size    int
	bound   map[string]bool
	buf     []byte
	// m is set once frames of it are out.
	m *protocol.Message
}

// extended takes a message of the extended protocol.
func (c *conversation) extended(out *frames, p piece) error {
	if c.batch == nil {
		c.batch = &batch{bound: map[string]bool{}}
	}
	b := c.batch
	b.buf = append(b.buf, p.bytes...)
	switch p.kind {
	case 'H', 'S':
		return c.finish(out, p.kind == 'S')
	}
	o := c.names.read(p)
	b.note(o)
	if err := c.names.full(); err != nil {
		return err
	}
	if b.m == nil && (!p.last || len(b.buf) > kept || b.size > kept) {
		b.m = queried(&request{synced: true, ops: b.ops, query: strings.Join(b.queries, "; "), long: true})
		b.ops = nil
	}
	if b.m != nil {
		out.add(b.buf, b.m, false)
		b.buf = nil
		c.ongoing, c.ends = b.m, false
	}
	return nil
}

// note remembers a message as far as the batch's answer and its query depend on it.
func (b *batch) note(o op) {
	if b.m != nil {
		return
	}
	b.ops = append(b.ops, o)
	// What was bound in an earlier batch goes on when it is executed here.
	runs := o.kind == 'B' || (o.kind == 'E' && !b.bound[o.name])
	if runs && b.size <= kept {
		b.queries = append(b.queries, o.query)
		b.size += len(o.query)
	}
	if o.kind == 'B' {
		b.bound[o.name] = true
	}
}

// finish ends the batch, if there is one: by a Sync, by a Flush, or because another kind of message follows.
func (c *conversation) finish(out *frames, synced bool) error {
	b := c.batch
	if c.batch = nil; b == nil {
		return nil
	}
	if b.m != nil {
		out.add(b.buf, b.m, true)
		if !synced {
			return fmt.Errorf("postgres: more than 1 MiB of the extended protocol without a Sync")
		}
		return nil
	}
	r := &request{synced: synced, ops: b.ops, query: strings.Join(b.queries, "; ")}
	m := &protocol.Message{Private: r, Silent: !synced && len(b.ops) == 0}
	for _, o := range b.ops {
		if o.kind == 'E' {
			m = queried(r)
			break
		}
	}
	if synced && len(b.ops) == 0 && c.lost > 0 {
		c.lost--
		m.Silent = true
	}
	out.add(b.buf, m, true)
	return nil
}

// names are the statements and portals that a client has made, with their SQL.
type names struct {
	statements, portals map[string]string
	size                int
}

// maxNames bounds what is remembered.
const maxNames = 16 << 20

func (n *names) full() error {
	if n.size > maxNames {
		return fmt.Errorf("postgres: the prepared statements are more than %d MiB of SQL", maxNames>>20)
	}
	return nil
}

// read takes apart a message of the extended protocol, and remembers what it makes.
func (n *names) read(p piece) op {
	o := op{kind: p.kind}
	body := p.body()
	if (p.kind == 'D' || p.kind == 'C') && len(body) > 0 {
		o.of, body = body[0], body[1:]
	}
	var rest []byte
	o.name, rest = text(body)
	switch p.kind {
	case 'P':
		o.query, _ = text(rest)
		n.set(n.statements, o.name, o.query)
	case 'B':
		statement, _ := text(rest)
		o.query = n.statements[statement]
		n.set(n.portals, o.name, o.query)
	case 'E':
		o.query = n.portals[o.name]
	case 'D', 'C':
		of := n.portals
		if o.of == 'S' {
			of = n.statements
		}
		o.query = of[o.name]
		if p.kind == 'C' {
			n.drop(of, o.name)
		}
	}
	return o
}

func (n *names) set(in map[string]string, name, query string) {
	n.drop(in, name)
	// What a portal shares with its statement is counted with it too, as that may go first.
	in[name] = query
	n.size += len(name) + len(query)
}

func (n *names) drop(in map[string]string, name string) {
	if old, ok := in[name]; ok {
		n.size -= len(name) + len(old)
		delete(in, name)
	}
}
