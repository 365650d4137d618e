package message

import (
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/protocol"
)

// TestNothingIsKeptInVain has unfinished requests and answers pass while no rule waits for them, and a rule that
// comes into force between two pieces act on the next whole request only.
func TestNothingIsKeptInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := false
		near, far := net.Pipe()
		c := New(Config{
			Conversation: &toy{}, Clock: vtime.Wall(), Waits: func() bool { return rule }, Tell: func(Event) {},
			Decide: func(_ int64, m *protocol.Message) Action {
				if rule && m.Fields["word"] == "x" {
					return Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true}}
				}
				return Action{}
			},
		}, &pipe{Conn: near})
		go c.Run(nil)
		server, client := reading(far), reading(c)
		send := func(w io.Writer, text string) {
			t.Helper()
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
		}
		want := func(toServer, toClient string) {
			t.Helper()
			synctest.Wait()
			if string(*server) != toServer || string(*client) != toClient {
				t.Errorf("the server got %q, the client %q;\nwant            %q,            %q", *server, *client, toServer, toClient)
			}
		}
		send(c, "a")
		want("a", "")
		send(c, "b\nx")
		want("ab\nx", "")
		send(far, "ok ")
		want("ab\nx", "ok ")
		// The first x is on its way, so the rule comes too late for it.
		rule = true
		send(c, "\nx\ny")
		want("ab\nx\n", "ok ")
		send(far, "ab\nok x\n")
		want("ab\nx\n", "ok ab\nok x\nERR x\n")
		rule = false
		send(c, "z\n")
		want("ab\nx\nyz\n", "ok ab\nok x\nERR x\n")
		c.Close()
		far.Close()
	})
}

// reading collects what can be read.
func reading(r io.Reader) *[]byte {
	var got []byte
	go func() {
		buf := make([]byte, 64)
		for {
			n, err := r.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				return
			}
		}
	}()
	return &got
}
