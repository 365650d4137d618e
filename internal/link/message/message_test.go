package message

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/protocol"
)

// toy is a protocol of words: a request is a word and a line feed, answered by one such. "?" begins a login, which
// rules do not match; "-" a request without an answer; "+" one whose sender waits; "!" one after which the server
// closes. A line of the server that begins with "*" is a notice. "\x00" is nothing that toy knows.
type toy struct {
	up, down []byte
	// asked are forwarded requests.
	asked []string
	// amends says that the server gets "~" in place of a request that is answered with an error.
	amends bool
}

func (t *toy) frames(buf *[]byte, p []byte, of func(line string) *protocol.Message) ([]protocol.Frame, error) {
	*buf = append(*buf, p...)
	if bytes.IndexByte(*buf, 0) >= 0 {
		return nil, errors.New("not a word")
	}
	var out []protocol.Frame
	for {
		i := bytes.IndexByte(*buf, '\n')
		if i < 0 {
			return out, nil
		}
		line := bytes.Clone((*buf)[:i+1])
		*buf = (*buf)[i+1:]
		m := of(string(line[:i]))
		// A word of several parts comes in several frames.
		for len(line) > 0 {
			n := len(line)
			if j := bytes.IndexByte(line, '/'); j >= 0 {
				n = j + 1
			}
			out = append(out, protocol.Frame{Bytes: line[:n], Message: m, Last: n == len(line)})
			line = line[n:]
		}
	}
}

func (t *toy) Requests(p []byte) ([]protocol.Frame, error) {
	return t.frames(&t.up, p, func(line string) *protocol.Message {
		return &protocol.Message{
			Fields: map[string]string{"word": line}, Ruled: !strings.HasPrefix(line, "?"),
			Silent: strings.HasPrefix(line, "-"), Waits: strings.HasPrefix(line, "+"), Closes: strings.HasPrefix(line, "!"),
			Refuses: map[protocol.Verb]string{protocol.Duplicate: refusal(line)},
		}
	})
}

func refusal(line string) string {
	if strings.HasPrefix(line, "once") {
		return "only once"
	}
	return ""
}

func (t *toy) Responses(p []byte) ([]protocol.Frame, error) {
	return t.frames(&t.down, p, func(line string) *protocol.Message {
		if strings.HasPrefix(line, "*") {
			return nil
		}
		return &protocol.Message{Fields: map[string]string{"word": line}}
	})
}

func (t *toy) Forwarded(m *protocol.Message) { t.asked = append(t.asked, m.Fields["word"]) }

func (t *toy) Answer(m *protocol.Message, a protocol.Answer) ([]byte, error) {
	switch {
	case a.Code == "impossible":
		return nil, errors.New("there is no such answer")
	case m.Silent:
		return nil, nil
	case a.Failed:
		return []byte("ERR " + m.Fields["word"] + "\n"), nil
	}
	return []byte("RULE " + m.Fields["word"] + "\n"), nil
}

func (t *toy) Amend(*protocol.Message) []byte {
	if t.amends {
		return []byte("~\n")
	}
	return nil
}

// rig is a Conn with a client and a server, within a bubble of virtual time.
type rig struct {
	*Conn
	t      *testing.T
	server *pipe
	toy    *toy

	mu     sync.Mutex
	events []string
	got    bytes.Buffer // what the server got
	read   bytes.Buffer // what the client got
	end    error        // of reading, for the client
}

// pipe is a socket of which both ends are in the test.
type pipe struct {
	net.Conn
	mu  sync.Mutex
	ops []string
}

func (p *pipe) CloseWrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops = append(p.ops, "fin")
	return nil
}

func (p *pipe) SetLinger(int) error { return nil }

// newRig runs a Conn over whose requests decide decides, by word. The server answers each word by "ok WORD", unless serve
// says otherwise.
func newRig(t *testing.T, decide func(word string) Action, serve func(r *rig, line string)) *rig {
	near, far := net.Pipe()
	r := &rig{t: t, server: &pipe{Conn: near}, toy: &toy{}}
	r.Conn = New(Config{
		Conversation: r.toy, Clock: vtime.Wall(),
		Decide: func(_ int64, m *protocol.Message) Action { return decide(m.Fields["word"]) },
		Tell: func(e Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			word := ""
			if e.Request != nil {
				word = " " + e.Request.Fields["word"]
			}
			if e.Answer != nil {
				word += " " + e.Answer.Fields["word"]
			}
			if e.Err != nil {
				word += " (" + e.Err.Error() + ")"
			}
			r.events = append(r.events, string(e.Op)+word)
		},
	}, r.server)
	go r.Run(nil)
	go func() {
		in := bufio.NewReader(far)
		for {
			line, err := in.ReadString('\n')
			r.mu.Lock()
			r.got.WriteString(line)
			r.mu.Unlock()
			if err != nil {
				return
			}
			if serve != nil {
				serve(r, strings.TrimSuffix(line, "\n"))
			} else if !strings.HasPrefix(line, "-") {
				fmt.Fprint(far, "ok "+line)
			}
		}
	}()
	go func() {
		buf := make([]byte, 64)
		for {
			n, err := r.Read(buf)
			r.mu.Lock()
			r.read.Write(buf[:n])
			r.end = err
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { r.Close(); far.Close() })
	return r
}

// ask writes text in pieces of a size.
func (r *rig) ask(text string, size int) {
	for i := 0; i < len(text); i += size {
		if _, err := r.Write([]byte(text[i:min(i+size, len(text))])); err != nil {
			r.t.Errorf("write: %v", err)
			return
		}
	}
}

// want compares what both ends got, and how reading ended.
func (r *rig) want(server, client string, end error) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got.String() != server || r.read.String() != client || !errors.Is(r.end, end) {
		r.t.Errorf("the server got %q, the client %q and %v;\nwant            %q,            %q and %v", r.got.String(), r.read.String(), r.end, server, client, end)
	}
}

func (r *rig) told(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Join(r.events, "\n") != strings.Join(want, "\n") {
		r.t.Errorf("told:\n%s\nwant:\n%s", strings.Join(r.events, "\n"), strings.Join(want, "\n"))
	}
}

// on decides on one word.
func on(word string, a Action) func(string) Action {
	return func(got string) Action {
		if got == word {
			return a
		}
		return Action{}
	}
}

// TestVerbs has one request hit among others that are sent with it, in pieces of every size.
func TestVerbs(t *testing.T) {
	answer := protocol.Answer{}
	for _, tc := range []struct {
		name           string
		action         Action
		text           string
		server, client string
		end            error
	}{
		{"nothing", Action{}, "a\nb/c/d\ne\n", "a\nb/c/d\ne\n", "ok a\nok b/c/d\nok e\n", nil},
		{"error", Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true}}, "a\nx\nb\n", "a\nb\n", "ok a\nERR x\nok b\n", nil},
		{"response", Action{Verb: protocol.Respond, Answer: answer}, "a\nx\nx\nb\n", "a\nb\n", "ok a\nRULE x\nRULE x\nok b\n", nil},
		{"response to the last", Action{Verb: protocol.Respond}, "a\nb\nx\n", "a\nb\n", "ok a\nok b\nRULE x\n", nil},
		{"error that can't be", Action{Verb: protocol.Error, Answer: protocol.Answer{Code: "impossible"}}, "a\nx\n", "a\nx\n", "ok a\nok x\n", nil},
		{"duplicate", Action{Verb: protocol.Duplicate}, "a\nx\nb\n", "a\nx\nx\nb\n", "ok a\nok x\nok b\n", nil},
		{"drop", Action{Verb: protocol.Drop, How: Close}, "a\nx\nb\n", "a\n", "ok a\n", io.EOF},
		{"drop by reset", Action{Verb: protocol.Drop, How: Reset}, "a\nx\nb\n", "a\n", "ok a\n", syscall.ECONNRESET},
		{"drop in silence", Action{Verb: protocol.Drop, How: Silence}, "a\nx\nb\n", "a\n", "ok a\n", nil},
	} {
		for size := 1; size <= len(tc.text); size++ {
			synctest.Test(t, func(t *testing.T) {
				t.Logf("%s, in pieces of %d", tc.name, size)
				r := newRig(t, on("x", tc.action), nil)
				r.ask(tc.text, size)
				time.Sleep(time.Second)
				r.want(tc.server, tc.client, tc.end)
			})
		}
	}
}

func TestMoreFramesAndKinds(t *testing.T) {
	fail := Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true}}
	for _, tc := range []struct {
		name           string
		word           string
		action         Action
		text           string
		server, client string
		end            error
	}{
		{"an error for a request of several frames", "x/y/z", fail, "a\nx/y/z\nb\n", "a\nb\n", "ok a\nERR x/y/z\nok b\n", nil},
		{"a copy of a request of several frames", "x/y/z", Action{Verb: protocol.Duplicate}, "x/y/z\nb\n", "x/y/z\nx/y/z\nb\n", "ok x/y/z\nok b\n", nil},
		{"a login is for no rule", "?x", fail, "?x\nb\n", "?x\nb\n", "ok ?x\nok b\n", nil},
		{"an error for a request without an answer", "-x", fail, "-x\nb\n", "b\n", "ok b\n", nil},
		{"a copy of a request without an answer", "-x", Action{Verb: protocol.Duplicate}, "-x\nb\n", "-x\n-x\nb\n", "ok b\n", nil},
		{"an error after which the server would close", "!x", fail, "a\n!x\n", "a\n", "ok a\nERR !x\n", io.EOF},
		{"what a request refuses passes", "once", Action{Verb: protocol.Duplicate}, "once\nb\n", "once\nb\n", "ok once\nok b\n", nil},
	} {
		for size := 1; size <= len(tc.text); size++ {
			synctest.Test(t, func(t *testing.T) {
				t.Logf("%s, in pieces of %d", tc.name, size)
				r := newRig(t, on(tc.word, tc.action), nil)
				r.ask(tc.text, size)
				time.Sleep(time.Second)
				r.want(tc.server, tc.client, tc.end)
			})
		}
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(word string) Action {
			return map[string]Action{
				"x": {Verb: protocol.Error, Rule: "r", Answer: protocol.Answer{Failed: true}},
				"y": {Verb: protocol.Error, Rule: "r", Answer: protocol.Answer{Code: "impossible"}},
				"z": {Verb: protocol.Duplicate, Rule: "r"}, "once": {Verb: protocol.Duplicate, Rule: "r"},
			}[word]
		}, nil)
		for _, word := range []string{"a", "x", "y", "z", "once"} {
			r.ask(word+"\n", 10)
			synctest.Wait()
		}
		r.told("request a", "answer a ok a", "request x", "acted x", "answer x", "request y", "failed y (there is no such answer)", "answer y ok y",
			"request z", "acted z", "answer z ok z", "request once", "failed once (only once)", "answer once ok once")
	})
}

// TestDelay: in the meantime answers pass, and time is what was asked for.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, on("x", Action{Verb: protocol.Delay, Delay: time.Second}), nil)
		go r.ask("a\nx\nb\n", 100)
		time.Sleep(999 * time.Millisecond)
		r.want("a\n", "ok a\n", nil)
		time.Sleep(2 * time.Millisecond)
		r.want("a\nx\nb\n", "ok a\nok x\nok b\n", nil)
	})
}

func TestHold(t *testing.T) {
	for _, verb := range []protocol.Verb{protocol.Hold, protocol.Delay} {
		synctest.Test(t, func(t *testing.T) {
			lifted := make(chan struct{})
			r := newRig(t, on("x", Action{Verb: verb, Delay: 1000 * time.Hour, Until: lifted}), nil)
			go r.ask("a\nx\nb\n", 100)
			time.Sleep(time.Hour)
			r.want("a\n", "ok a\n", nil)
			close(lifted)
			r.want("a\nx\nb\n", "ok a\nok x\nok b\n", nil)
		})
	}
}

// TestCloseWhileHeld: the relay's end of the connection does not wait for a rule.
func TestCloseWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, on("x", Action{Verb: protocol.Hold}), nil)
		failed := make(chan error)
		go func() {
			_, err := r.Write([]byte("x\n"))
			failed <- err
		}()
		synctest.Wait()
		r.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the write that is held: %v", err)
		}
	})
}

// TestPlace: the server is slow with the first request.
func TestPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		r := newRig(t, on("x", Action{Verb: protocol.Respond}), func(r *rig, line string) {
			if line == "slow" {
				go func() {
					<-goOn
					r.received([]byte("*notice\nok slow\n"))
				}()
				return
			}
			r.received([]byte("ok " + line + "\n"))
		})
		r.ask("slow\nx\n", 100)
		r.want("slow\n", "", nil)
		close(goOn)
		r.want("slow\n", "*notice\nok slow\nRULE x\n", nil)
	})
}

// TestWaits: one who waits before sending the rest gets the answer at once.
func TestWaits(t *testing.T) {
	for word, want := range map[string]string{"+x": "ERR +x/y\n", "x": ""} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, on(word+"/y", Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true}}), nil)
			m := &protocol.Message{Fields: map[string]string{"word": word + "/y"}, Ruled: true, Waits: word == "+x"}
			if err := r.up.frame(protocol.Frame{Bytes: []byte(word + "/"), Message: m}); err != nil {
				t.Fatal(err)
			}
			r.want("", want, nil)
			if err := r.up.frame(protocol.Frame{Bytes: []byte("y\n"), Message: m, Last: true}); err != nil {
				t.Fatal(err)
			}
			r.want("", "ERR "+word+"/y\n", nil)
		})
	}
}

// TestAmend: the server gets something in place of the request, and its answer to that reaches nobody.
func TestAmend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, on("x", Action{Verb: protocol.Error, Answer: protocol.Answer{Failed: true}}), nil)
		r.toy.amends = true
		r.ask("a\nx\nb\n", 100)
		r.want("a\n~\nb\n", "ok a\nERR x\nok b\n", nil)
		if got := strings.Join(r.toy.asked, " "); got != "a x b" {
			t.Errorf("the conversation was told of %q", got)
		}
	})
}

func TestBlind(t *testing.T) {
	for _, tc := range []struct {
		name           string
		ask            []string
		say            string
		server, client string
		end            error
		told           string
	}{
		{"in the middle of the client's", []string{"a\n", "x\x00y\nx\n"}, "", "a\nx\x00y\nx\n", "ok a\nok x\x00y\nok x\n", nil, "blind (not a word)"},
		{"with bytes kept", []string{"xy", "z\x00\n"}, "", "xyz\x00\n", "ok xyz\x00\n", nil, "blind (not a word)"},
		{"in the server's", []string{"a\n"}, "\x00\n", "a\n", "ok a\n\x00\n", nil, "blind (not a word)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(tc.name)
			r := newRig(t, on("x", Action{Verb: protocol.Drop}), nil)
			for _, text := range tc.ask {
				r.ask(text, 100)
				synctest.Wait()
			}
			if tc.say != "" {
				r.received([]byte(tc.say))
			}
			r.want(tc.server, tc.client, tc.end)
			if last := r.events[len(r.events)-1]; last != tc.told {
				t.Errorf("told %q", last)
			}
		})
	}
}

// TestBlindWithAnAnswerOwed: the client must not wait for an answer that can't be put in its place any more.
func TestBlindWithAnAnswerOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, on("x", Action{Verb: protocol.Respond}), func(*rig, string) {})
		r.ask("slow\nx\n", 100)
		r.ask("\x00\n", 100)
		r.want("slow\n", "", syscall.ECONNRESET)
	})
}

// TestBackpressure: what nobody reads stops the server, and is complete in the end.
func TestBackpressure(t *testing.T) {
	near, far := net.Pipe()
	c := New(Config{Conversation: &toy{}, Clock: vtime.Wall(), Tell: func(Event) {}}, &pipe{Conn: near})
	go c.Run(nil)
	sent := make(chan int)
	block := []byte("*" + strings.Repeat("n", 9998) + "\n")
	go func() {
		n := 0
		for range 1000 {
			m, err := far.Write(block)
			if n += m; err != nil {
				t.Error(err)
			}
		}
		sent <- n
		far.Close()
	}()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		kept := c.out.Len()
		c.mu.Unlock()
		if kept >= maxAnswers {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("only %d bytes are kept", kept)
		}
	}
	select {
	case <-sent:
		t.Error("the server was not stopped")
	case <-time.After(20 * time.Millisecond):
	}
	c.mu.Lock()
	if kept := c.out.Len(); kept > maxAnswers+readSize {
		t.Errorf("%d bytes are kept", kept)
	}
	c.mu.Unlock()
	done := make(chan int)
	go func() {
		n, err := io.Copy(io.Discard, struct{ io.Reader }{c})
		if err != nil {
			t.Error(err)
		}
		done <- int(n)
	}()
	if a, b := <-sent, <-done; a != b || a != 1000*len(block) {
		t.Errorf("%d bytes sent, %d came", a, b)
	}
	c.Close()
}

// TestHalfClose: bytes that make no message go out before the FIN.
func TestHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, on("x", Action{}), nil)
		r.ask("a\nunfinished", 100)
		r.want("a\n", "ok a\n", nil)
		if err := r.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.server.mu.Lock()
		defer r.server.mu.Unlock()
		if len(r.server.ops) != 1 {
			t.Errorf("%v", r.server.ops)
		}
		r.server.Conn.Close()
		r.want("a\nunfinished", "ok a\n", io.ErrClosedPipe)
	})
}

// TestReset: a relay that cannot deliver is told of the server's reset.
func TestReset(t *testing.T) {
	c := New(Config{Conversation: &toy{}, Clock: vtime.Wall(), Tell: func(Event) {}}, &pipe{})
	told := 0
	stop := c.Watch(func() { told++ })
	c.serverEnded(syscall.ECONNRESET)
	stop()
	c.Watch(func() { told++ })()
	if told != 2 {
		t.Errorf("told %d times", told)
	}
	if _, err := c.Read(nil); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v", err)
	}
}

// TestLongCopy: a request that is too long to be kept passes once, and the rule has not acted.
func TestLongCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		word := strings.Repeat("long/", maxCopy/5+1)
		r := newRig(t, on(word, Action{Verb: protocol.Duplicate}), nil)
		r.ask(word+"\n", 1<<21)
		r.want(word+"\n", "ok "+word+"\n", nil)
		for _, e := range r.events {
			if strings.HasPrefix(e, "acted") {
				t.Error(e[:20])
			}
		}
	})
}

// guesser is toy for which a word may lack its end.
type guesser struct{ *toy }

func (g guesser) Patience() time.Duration { return 50 * time.Millisecond }

func (g guesser) EndOfRequests() []protocol.Frame {
	if len(g.up) == 0 {
		return nil
	}
	f := protocol.Frame{Bytes: g.up, Last: true, Message: &protocol.Message{Ruled: true, Fields: map[string]string{"word": string(g.up)}}}
	g.up = nil
	return []protocol.Frame{f}
}

func (g guesser) EndOfResponses() []protocol.Frame { return nil }

// TestPatience: what is no whole message for the parser may be one for the server.
func TestPatience(t *testing.T) {
	for _, verb := range []protocol.Verb{"", protocol.Respond} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			var mu sync.Mutex
			var asked []string
			got := make(chan string, 10)
			c := New(Config{
				Conversation: guesser{&toy{}}, Clock: vtime.Wall(), Tell: func(Event) {},
				Decide: func(_ int64, m *protocol.Message) Action {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, m.Fields["word"])
					return Action{Verb: verb}
				},
			}, &pipe{Conn: near})
			go c.Run(nil)
			defer c.Close()
			go func() {
				buf := make([]byte, 100)
				for {
					n, err := far.Read(buf)
					if err != nil {
						return
					}
					got <- string(buf[:n])
				}
			}()
			for _, part := range []string{"un", "fin", "ished"} {
				if _, err := c.Write([]byte(part)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Millisecond)
			}
			synctest.Wait()
			if len(got) > 0 {
				t.Error("a message was sent while it was coming in")
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(asked) != 1 || asked[0] != "unfinished" || len(got) == 1 == (verb != "") {
				t.Errorf("decided on %q, %d pieces sent", asked, len(got))
			}
		})
	}
}
