package http_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/http"
)

// feed gives text to a parser in pieces of a size and returns what came out: a line for each message, with its
// fields and the length of its bytes, and all bytes.
func feed(t *testing.T, parse func([]byte) ([]protocol.Frame, error), text string, size int, begun func(*protocol.Message)) (lines []string, all string, failed error) {
	t.Helper()
	var current *protocol.Message
	n := 0
	for i := 0; i < len(text); i += size {
		frames, err := parse([]byte(text[i:min(i+size, len(text))]))
		for _, f := range frames {
			all += string(f.Bytes)
			if f.Message == nil {
				continue
			}
			if f.Message != current {
				if n > 0 {
					t.Fatalf("a message began within another: %v", f.Message.Fields)
				}
				current = f.Message
				if begun != nil {
					begun(current)
				}
			}
			n += len(f.Bytes)
			if f.Last {
				lines = append(lines, fmt.Sprintf("%v %d", current.Fields, n))
				current, n = nil, 0
			}
		}
		if err != nil {
			return lines, all, err
		}
	}
	return lines, all, nil
}

const requests = "GET /a?x=1 HTTP/1.1\r\nHost: Shop:80\r\n\r\n" +
	"HEAD /h HTTP/1.1\r\nHost: shop\r\n\r\n" +
	"POST /b HTTP/1.1\r\nContent-Length: 11\r\n\r\nGET / HTTP/" +
	"\r\nPUT http://other:8080/c HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\n" +
	"DELETE * HTTP/1.0\nConnection: keep-alive\n\n"

const answers = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" +
	"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" +
	"HTTP/1.1 204 No Content\r\n\r\n" +
	"HTTP/1.1 503 \r\nTransfer-Encoding: gzip, chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n" +
	"HTTP/1.1 200 OK\r\n\r\nto the end"

func TestMessages(t *testing.T) {
	for size := 1; size <= len(requests); size++ {
		c := http.Protocol{}.Converse()
		asked, all, err := feed(t, c.Requests, requests, size, c.Forwarded)
		if err != nil || all != requests {
			t.Fatalf("in pieces of %d: %v, %q", size, err, all)
		}
		want := []string{
			"map[host:shop method:GET path:/a query:x=1] 38",
			"map[host:shop method:HEAD path:/h query:] 32",
			"map[host: method:POST path:/b query:] 51",
			"map[host:other method:PUT path:/c query:] 91",
			"map[host: method:DELETE path:* query:] 42",
		}
		if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
			t.Fatalf("in pieces of %d:\n%s", size, got)
		}
		said, all, err := feed(t, c.Responses, answers, size, nil)
		if err != nil || all != answers {
			t.Fatalf("answers in pieces of %d: %v, %q", size, err, all)
		}
		want = []string{"map[status:200] 41", "map[status:200] 40", "map[status:204] 27", "map[status:503] 71"}
		if got := strings.Join(said, "\n"); got != strings.Join(want, "\n") {
			t.Fatalf("answers in pieces of %d:\n%s", size, got)
		}
		last := c.(protocol.Ender).EndOfResponses()
		if len(last) != 1 || !last[0].Last || last[0].Message.Fields["status"] != "200" {
			t.Fatalf("the end of the stream: %+v", last)
		}
	}
}

func TestNotHTTP(t *testing.T) {
	for _, tc := range []struct{ requests, answers, want string }{
		{"\x16\x03\x01\x02\x00\x01", "", "the connection is encrypted"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", "the connection is HTTP/2"},
		{"\x00\x00\x00\x08\x04\xd2\x16\x2f", "", "the connection is not HTTP"},
		{"hello\r\n\r\n", "", `not a request: "hello"`},
		{"GET / HTTP/1.1\r\nbad header\r\n\r\n", "", `not a header: "bad header"`},
		{"GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "", `not a content length: "3, 4"`},
		{"GET / HTTP/1.1\r\nContent-Length: -3\r\n\r\n", "", `not a content length: "-3"`},
		{"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "", "a request without an end"},
		{"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "", `not the size of a chunk: "zz"`},
		{"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "", "a chunk is longer than it says"},
		{"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n\r\n", `not an answer: "SSH-2.0-x"`},
		{"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05hello", "the connection was switched to another protocol"},
		{"CONNECT x:1 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nanything", "the connection was switched to another protocol"},
	} {
		for _, size := range []int{1, 1000} {
			c := http.Protocol{}.Converse()
			_, _, err := feed(t, c.Requests, tc.requests, size, c.Forwarded)
			if err == nil {
				_, _, err = feed(t, c.Responses, tc.answers, size, nil)
			}
			if err == nil || err.Error() != tc.want {
				t.Errorf("%q, %q in pieces of %d: %v", tc.requests, tc.answers, size, err)
			}
		}
	}
}

func TestAnswer(t *testing.T) {
	c := http.Protocol{}.Converse()
	asked := map[string]*protocol.Message{}
	for name, text := range map[string]string{
		"get": "GET / HTTP/1.1\r\n\r\n", "head": "HEAD / HTTP/1.1\r\n\r\n", "close": "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
	} {
		frames, err := c.Requests([]byte(text))
		if err != nil || len(frames) != 1 {
			t.Fatal(frames, err)
		}
		asked[name] = frames[0].Message
	}
	for _, tc := range []struct {
		to   string
		a    protocol.Answer
		want string
	}{
		{"get", protocol.Answer{Failed: true}, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"},
		{"get", protocol.Answer{}, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		{"get", protocol.Answer{Status: 204, Body: []byte("x")}, "HTTP/1.1 204 No Content\r\n\r\n"},
		{"get", protocol.Answer{Status: 503, Body: []byte(`{"a":1}`), Headers: map[string]string{"Retry-After": "1", "content-length": "9"}},
			"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}"},
		{"head", protocol.Answer{Body: []byte("abc")}, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\n"},
		{"close", protocol.Answer{Status: 599}, "HTTP/1.1 599 Status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		{"get", protocol.Answer{Status: 100}, ""},
		{"get", protocol.Answer{Headers: map[string]string{"X": "a\r\nb"}}, ""},
	} {
		got, err := c.Answer(asked[tc.to], tc.a)
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s %+v: %q, %v", tc.to, tc.a, got, err)
		}
	}
}

func FuzzConversation(f *testing.F) {
	f.Add(requests, answers, 3)
	f.Add("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\xff", "HTTP/1.1 101 x\r\n\r\n\x00", 1)
	f.Fuzz(func(t *testing.T, asked, said string, size int) {
		size = max(size, 1)
		c := http.Protocol{}.Converse()
		for _, way := range []struct {
			text  string
			parse func([]byte) ([]protocol.Frame, error)
			begun func(*protocol.Message)
		}{{asked, c.Requests, c.Forwarded}, {said, c.Responses, nil}} {
			_, all, err := feed(t, way.parse, way.text, size, way.begun)
			if !strings.HasPrefix(way.text, all) {
				t.Fatalf("%q came out of %q (%v)", all, way.text, err)
			}
			if err != nil {
				return
			}
		}
	})
}
