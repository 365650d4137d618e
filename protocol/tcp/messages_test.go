package tcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/tcp"
)

func TestMessages(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"ping\nset a\r\n\nlast", []string{"ping/5", "set a/7", "/1", "last/4"}},
		{"a\n", []string{"a/2"}},
		{long + "\nb\n", []string{long[:64<<10] + fmt.Sprint("/", 100<<10+1), "b/2"}},
		{"", nil},
	} {
		for _, size := range []int{1, 3, 64 << 10, 1 << 20} {
			if size == 1 && len(tc.text) > 1000 {
				continue
			}
			c := tcp.Protocol{}.Converse()
			var all string
			var got []string
			n := 0
			take := func(frames []protocol.Frame, err error) {
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range frames {
					all += string(f.Bytes)
					n += len(f.Bytes)
					if f.Last {
						got = append(got, fmt.Sprintf("%s/%d", f.Message.Fields["data"], n))
						n = 0
					}
				}
			}
			for i := 0; i < len(tc.text); i += size {
				take(c.Requests([]byte(tc.text[i:min(i+size, len(tc.text))])))
			}
			take(c.(protocol.Ender).EndOfRequests(), nil)
			if all != tc.text || n != 0 {
				t.Errorf("in pieces of %d: %d bytes of %d came out", size, len(all), len(tc.text))
			}
			// In small pieces a long line is told apart by what had come when it was long enough.
			if strings.Join(got, "|") != strings.Join(tc.want, "|") {
				t.Errorf("in pieces of %d: %.100q, want %.100q", size, got, tc.want)
			}
		}
	}
}

func TestEncrypted(t *testing.T) {
	c := tcp.Protocol{}.Converse()
	if frames, err := c.Requests([]byte{0x16, 3, 1}); len(frames) != 1 || err != protocol.ErrEncrypted {
		t.Fatal(frames, err)
	}
}

// TestAnswersAreNotKept: a client may wait for less than a line.
func TestAnswersAreNotKept(t *testing.T) {
	c := tcp.Protocol{}.Converse()
	var m *protocol.Message
	for _, tc := range []struct {
		text, field string
		last        bool
	}{{"log", "", false}, {"in: \n", "login: ", true}, {"more", "", false}} {
		frames, err := c.Responses([]byte(tc.text))
		if err != nil || len(frames) != 1 || string(frames[0].Bytes) != tc.text || frames[0].Last != tc.last || frames[0].Message.Fields["answer"] != tc.field {
			t.Errorf("%q: %+v, %v", tc.text, frames, err)
			continue
		}
		m = frames[0].Message
	}
	if end := c.(protocol.Ender).EndOfResponses(); len(end) != 1 || !end[0].Last || end[0].Message != m || m.Fields["answer"] != "more" {
		t.Errorf("%+v", end)
	}
}

func TestNoText(t *testing.T) {
	c := tcp.Protocol{}.Converse()
	if frames, err := c.Requests([]byte("text")); len(frames) > 0 || err != nil {
		t.Fatal(frames, err)
	}
	frames, err := c.Requests([]byte{0, '\n'})
	if err == nil || err.Error() != "the connection does not carry lines of text" || len(frames) != 1 || len(frames[0].Bytes) != 6 {
		t.Errorf("%v, %v", frames, err)
	}
}

func TestAnswer(t *testing.T) {
	c := tcp.Protocol{}.Converse()
	for _, tc := range []struct {
		a    protocol.Answer
		want string
	}{
		{protocol.Answer{Failed: true}, "error\n"},
		{protocol.Answer{Failed: true, Text: "ERR busy"}, "ERR busy\n"},
		{protocol.Answer{Body: []byte("pong\n")}, "pong\n"},
		{protocol.Answer{}, "\n"},
		{protocol.Answer{Text: "a\nb"}, ""},
	} {
		got, err := c.Answer(nil, tc.a)
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%+v: %q, %v", tc.a, got, err)
		}
	}
}
