package redis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// spoil is no command, so it fails, and with it the transaction that it is in.
const spoil = "SQUALL.ANSWERED.WITH.AN.ERROR"

// Answer returns an answer in the server's place.
func (c *conversation) Answer(m *protocol.Message, a protocol.Answer) ([]byte, error) {
	r, ok := m.Private.(*request)
	if !ok || !m.Ruled {
		return nil, fmt.Errorf("redis: only a command can be answered")
	}
	r.amend = nil
	out, err := c.encode(a)
	switch {
	case err != nil:
		return nil, err
	case r.mute && c.multi:
		return nil, fmt.Errorf("redis: in a transaction, with CLIENT REPLY OFF")
	case r.mute:
		// The client does not want even an error.
		return nil, nil
	case !c.multi:
	case r.command == "EXEC":
		r.amend, r.command = encode("DISCARD"), "DISCARD"
	case immediate(r.command):
	case !a.Failed:
		return nil, fmt.Errorf("redis: in a transaction, the value is a part of the answer to EXEC")
	default:
		r.amend, r.command = encode(spoil), spoil
	}
	return out, nil
}

// Amend brings the server into the state that an answer told of.
func (c *conversation) Amend(m *protocol.Message) []byte {
	r, ok := m.Private.(*request)
	if !ok {
		return nil
	}
	return r.amend
}

func (c *conversation) encode(a protocol.Answer) ([]byte, error) {
	if !a.Failed {
		return c.value(a.Code, string(a.Body))
	}
	code, text := a.Code, a.Text
	if code == "" {
		code = "ERR"
	}
	if !regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`).MatchString(code) {
		return nil, fmt.Errorf("redis: %q is no code of an error: a word in capital letters", code)
	}
	if text == "" {
		text = "injected fault"
	}
	return []byte("-" + code + " " + strings.NewReplacer("\r", " ", "\n", " ").Replace(text) + "\r\n"), nil
}

// value writes the value of a response in one of its forms.
func (c *conversation) value(form, body string) ([]byte, error) {
	switch form {
	case "", "bulk":
		return []byte(bulk(body)), nil
	case "simple":
		if strings.ContainsAny(body, "\r\n") {
			return nil, fmt.Errorf("redis: a simple string has one line")
		}
		return []byte("+" + body + "\r\n"), nil
	case "integer":
		if _, err := strconv.ParseInt(body, 10, 64); err != nil {
			return nil, fmt.Errorf("redis: %q is no integer", body)
		}
		return []byte(":" + body + "\r\n"), nil
	case "nil":
		return []byte(c.null()), nil
	case "json":
		var v any
		d := json.NewDecoder(bytes.NewReader([]byte(body)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("redis: the response's JSON: %w", err)
		}
		var b strings.Builder
		c.write(&b, v)
		return []byte(b.String()), nil
	}
	return nil, fmt.Errorf("redis: a response's form is bulk, simple, integer, nil or json, not %q", form)
}

func (c *conversation) null() string {
	if c.resp3 {
		return "_\r\n"
	}
	return "$-1\r\n"
}

// write writes a JSON value. RESP2 has neither maps nor truth values: they become arrays and numbers, as Redis does it.
func (c *conversation) write(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString(c.null())
	case bool:
		text := map[bool]string{true: ":1\r\n", false: ":0\r\n"}[v]
		if c.resp3 {
			text = map[bool]string{true: "#t\r\n", false: "#f\r\n"}[v]
		}
		b.WriteString(text)
	case json.Number:
		switch _, err := v.Int64(); {
		case err == nil:
			b.WriteString(":" + v.String() + "\r\n")
		case c.resp3:
			b.WriteString("," + v.String() + "\r\n")
		default:
			b.WriteString(bulk(v.String()))
		}
	case string:
		b.WriteString(bulk(v))
	case []any:
		fmt.Fprintf(b, "*%d\r\n", len(v))
		for _, item := range v {
			c.write(b, item)
		}
	case map[string]any:
		if c.resp3 {
			fmt.Fprintf(b, "%%%d\r\n", len(v))
		} else {
			fmt.Fprintf(b, "*%d\r\n", 2*len(v))
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			b.WriteString(bulk(key))
			c.write(b, v[key])
		}
	}
}
