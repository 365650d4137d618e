package redis

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// counts are the subscriptions of a connection.
type counts struct {
	channels, patterns, shards int
}

// all counts those that the server counts together, and after which RESP2 allows other commands again.
func (n counts) all() int { return n.channels + n.patterns }

// response takes a part of what the server sent.
func (c *conversation) response(out *frames, p part) error {
	if !p.first {
		out.add(p.bytes, c.answering, p.last && c.answered)
		return nil
	}
	m, last := c.classify(p)
	c.answering, c.answered = m, last
	out.add(p.bytes, m, p.last && last)
	return nil
}

// classify returns the answer that a value belongs to, and whether the answer ends with it; nil for what nobody has asked for.
func (c *conversation) classify(p part) (m *protocol.Message, last bool) {
	if m, last, pushed := c.pushed(p); pushed {
		return m, last
	}
	if len(c.pending) == 0 {
		return nil, false
	}
	e := c.pending[0]
	c.pending = c.pending[1:]
	failed := p.kind == '-' || p.kind == '!'
	switch {
	case failed:
	case e.command == "HELLO":
		c.resp3 = p.kind == '%'
	case e.command == "MONITOR":
		c.monitoring = true
	case e.command == "RESET":
		c.resp3, c.monitoring, c.subscribed = false, false, counts{}
	}
	m = &protocol.Message{Fields: map[string]string{}}
	if failed && len(p.items) > 0 {
		m.Fields["code"], m.Fields["text"], _ = strings.Cut(p.items[0], " ")
	}
	return m, true
}

// pushed says that the server sends a value by itself, or confirms a subscription, whose answer it then belongs to.
func (c *conversation) pushed(p part) (m *protocol.Message, last, pushed bool) {
	switch p.kind {
	case '>':
		m, last, _ = c.confirmed(p.items)
		return m, last, true
	case '+':
		return nil, false, c.monitoring && len(p.items) > 0 && regexp.MustCompile(`^\d+\.\d+ \[`).MatchString(p.items[0])
	case '*':
		waiting := len(c.pending) > 0 && c.pending[0].confirms
		if c.resp3 || p.count < 3 || len(p.items) == 0 || !waiting && c.subscribed.all()+c.subscribed.shards == 0 {
			return nil, false, false
		}
		switch p.items[0] {
		case "message", "pmessage", "smessage":
			return nil, false, true
		}
		return c.confirmed(p.items)
	}
	return nil, false, false
}

// confirmed takes a value that tells of a subscription's begin or end.
func (c *conversation) confirmed(items []string) (m *protocol.Message, last, found bool) {
	if len(items) < 3 {
		return nil, false, false
	}
	command := strings.ToUpper(items[0])
	total, err := strconv.Atoi(items[2])
	if err != nil || total < 0 || !known(command).subscribes {
		return nil, false, false
	}
	ended := c.subscribed.set(command, total)
	if len(c.pending) == 0 || c.pending[0].command != command {
		return nil, false, true
	}
	e := c.pending[0]
	if e.answer == nil {
		e.answer = &protocol.Message{Fields: map[string]string{}}
	}
	if e.left == 0 {
		// All channels: one confirmation for each, and one if there are none.
		e.left = max(1, int64(ended))
	}
	e.left--
	if last = e.left == 0; last {
		c.pending = c.pending[1:]
	}
	return e.answer, last, true
}

// set takes the total that a confirmation tells, and returns how many there were of the command's kind.
func (n *counts) set(command string, total int) (before int) {
	others := n.all()
	switch command {
	case "SUBSCRIBE", "UNSUBSCRIBE":
		before = n.channels
		n.channels += total - others
	case "PSUBSCRIBE", "PUNSUBSCRIBE":
		before = n.patterns
		n.patterns += total - others
	default:
		before, n.shards = n.shards, total
	}
	return before
}
