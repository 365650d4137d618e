package http

import (
	"errors"
	"fmt"
	"maps"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// Messages says what rules can do to requests.
func (Protocol) Messages() protocol.Messages {
	return protocol.Messages{
		Match: []protocol.Field{
			{Name: "method", Doc: "such as GET", Normal: strings.ToUpper},
			{Name: "path", Doc: "the path, without the query"},
			{Name: "query", Doc: "what follows the ?, as it stands"},
			{Name: "host", Doc: "the host that is asked for, without the port", Normal: strings.ToLower},
		},
		Verbs: []protocol.Verb{protocol.Error, protocol.Respond, protocol.Delay, protocol.Drop, protocol.Duplicate, protocol.Hold},
		Answer: []protocol.Field{
			{Name: "status", Doc: "the status: 500 for an error, 200 for a response, where nothing is said"},
			{Name: "body", Doc: "the body; its content type is guessed where the headers do not say"},
			{Name: "headers", Doc: "headers"},
		},
	}
}

// Converse follows one connection.
func (Protocol) Converse() protocol.Conversation { return &conversation{} }

// conversation is HTTP/1.1 on one connection. A message's head is one frame, its body passes in frames as it comes.
type conversation struct {
	requests, responses stream
	// request and response are those under way.
	request, response *protocol.Message
	// asked are requests whose answers are to come.
	asked []*protocol.Message
}

// private is what is kept with a request.
type private struct{ method string }

// errSwitched is returned once a connection has become something else, such as a WebSocket.
var errSwitched = errors.New("the connection was switched to another protocol")

// Requests takes what the client sent.
func (c *conversation) Requests(p []byte) ([]protocol.Frame, error) {
	if c.responses.over {
		return []protocol.Frame{{Bytes: c.requests.rest(p)}}, errSwitched
	}
	return c.requests.frames(p, c.requestHead, &c.request)
}

// Responses takes what the server sent.
func (c *conversation) Responses(p []byte) ([]protocol.Frame, error) {
	frames, err := c.responses.frames(p, c.responseHead, &c.response)
	if err == nil && c.responses.over && len(c.responses.buf) > 0 {
		frames, err = append(frames, protocol.Frame{Bytes: c.responses.rest(nil)}), errSwitched
	}
	return frames, err
}

// EndOfRequests returns nothing: a request that is cut short is none.
func (c *conversation) EndOfRequests() []protocol.Frame { return nil }

// EndOfResponses ends an answer whose length the server did not say.
func (c *conversation) EndOfResponses() []protocol.Frame {
	if c.response == nil || c.responses.body != untilEnd {
		return nil
	}
	m := c.response
	c.response = nil
	return []protocol.Frame{{Message: m, Last: true}}
}

// Forwarded keeps a request until its answer has come.
func (c *conversation) Forwarded(m *protocol.Message) { c.asked = append(c.asked, m) }

// requestHead reads the head of a request.
func (c *conversation) requestHead(head []byte) (*protocol.Message, body, int64, error) {
	first, fields, err := parseHead(head)
	if err != nil {
		return nil, 0, 0, err
	}
	method, target, version, ok := split(first)
	if !ok || !token(method) || !strings.HasPrefix(version, "HTTP/1.") {
		return nil, 0, 0, fmt.Errorf("not a request: %q", short(first))
	}
	kind, length, err := bodyOf(fields)
	if err == nil && kind == untilEnd {
		err = errors.New("a request without an end")
	}
	if err != nil {
		return nil, 0, 0, err
	}
	path, query, _ := strings.Cut(target, "?")
	host := fields.get("host")
	if rest, absolute := strings.CutPrefix(path, "http://"); absolute {
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			slash = len(rest)
		}
		host, path = rest[:slash], rest[slash:]
	}
	old := version == "HTTP/1.0"
	m := &protocol.Message{
		Ruled: true,
		Fields: map[string]string{
			"method": method, "path": path, "query": query, "host": strings.ToLower(withoutPort(host)),
		},
		Waits:   kind != none && strings.EqualFold(fields.get("expect"), "100-continue"),
		Closes:  fields.has("connection", "close") || old && !fields.has("connection", "keep-alive"),
		Private: private{method},
	}
	return m, kind, length, nil
}

// responseHead reads the head of a response.
func (c *conversation) responseHead(head []byte) (*protocol.Message, body, int64, error) {
	first, fields, err := parseHead(head)
	if err != nil {
		return nil, 0, 0, err
	}
	status, err := statusOf(first)
	if err != nil {
		return nil, 0, 0, err
	}
	if status < 200 && status != nethttp.StatusSwitchingProtocols {
		return nil, none, 0, nil // it announces the answer, and is none
	}
	var asked private
	if len(c.asked) > 0 {
		asked, _ = c.asked[0].Private.(private)
		c.asked = slices.Delete(c.asked, 0, 1)
	}
	m := &protocol.Message{Fields: map[string]string{"status": strconv.Itoa(status)}}
	if status == nethttp.StatusSwitchingProtocols || asked.method == "CONNECT" && status < 300 {
		c.responses.over = true
		return m, none, 0, nil
	}
	if asked.method == "HEAD" || status == nethttp.StatusNoContent || status == nethttp.StatusNotModified {
		return m, none, 0, nil
	}
	kind, length, err := bodyOf(fields)
	if kind == none && err == nil && fields.get("content-length") == "" {
		kind = untilEnd
	}
	return m, kind, length, err
}

// statusOf reads the first line of an answer.
func statusOf(line string) (int, error) {
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || status < 100 || status > 999 || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, fmt.Errorf("not an answer: %q", short(line))
	}
	return status, nil
}

// Answer writes a response.
func (c *conversation) Answer(m *protocol.Message, a protocol.Answer) ([]byte, error) {
	status := a.Status
	if status == 0 {
		status = nethttp.StatusOK
		if a.Failed {
			status = nethttp.StatusInternalServerError
		}
	}
	if status < 200 || status > 999 {
		return nil, fmt.Errorf("%d is not the status of an answer", status)
	}
	asked, _ := m.Private.(private)
	content := a.Body
	bare := status == nethttp.StatusNoContent || status == nethttp.StatusNotModified
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", status, orElse(nethttp.StatusText(status), "Status"))
	given, err := writeHeaders(&b, a.Headers)
	if err != nil {
		return nil, err
	}
	if !given["content-type"] && len(content) > 0 && !bare {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", contentType(content))
	}
	if !bare {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(content))
	}
	if m.Closes && !given["connection"] {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if asked.method != "HEAD" && !bare {
		b.Write(content)
	}
	return []byte(b.String()), nil
}

// writeHeaders writes headers, and returns which there are, in lower case.
func writeHeaders(b *strings.Builder, headers map[string]string) (map[string]bool, error) {
	given := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if !token(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header %q can't be sent", name)
		}
		lower := strings.ToLower(name)
		if lower == "content-length" || lower == "transfer-encoding" {
			continue // the body decides
		}
		given[lower] = true
		fmt.Fprintf(b, "%s: %s\r\n", name, value)
	}
	return given, nil
}

func contentType(content []byte) string {
	if s := strings.TrimSpace(string(content)); strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") {
		return "application/json"
	}
	return nethttp.DetectContentType(content)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
