package postgres_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/squallhq/squall/internal/inject"
	"github.com/squallhq/squall/internal/link/message"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/protocol/postgres"
)

// proxy stands before a server, as a link does, and does with each message that rules can match what decide says.
type proxy struct {
	port   int
	mu     sync.Mutex
	decide func(query string) message.Action
	events []message.Event
}

func newProxy(t *testing.T, port int) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{port: l.Addr().(*net.TCPAddr).Port}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.relay(client, port) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return p
}

func (p *proxy) relay(client net.Conn, port int) {
	defer func() { _ = client.Close() }()
	socket, err := to(port)(context.Background())
	if err != nil {
		return
	}
	conn := message.New(message.Config{
		Conversation: postgres.Protocol{}.Converse(), Clock: vtime.Wall(),
		Decide: func(_ int64, m *protocol.Message) message.Action { return p.do(m.Fields["query"]) },
		Tell:   p.tell,
	}, socket.(*net.TCPConn))
	defer func() { _ = conn.Close() }()
	var both sync.WaitGroup
	both.Go(func() { conn.Run(nil) })
	both.Go(func() {
		drain(client, conn)
		_ = client.Close()
	})
	drain(conn, client)
	_ = conn.CloseWrite()
	_ = conn.Close()
	both.Wait()
}

// rule has the next queries answered by decide, until the test is over.
func (p *proxy) rule(t *testing.T, pattern string, a message.Action) {
	t.Helper()
	field := postgres.Protocol{}.Messages().Match[0]
	pattern = field.Normal(pattern)
	a.Rule = pattern
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = func(query string) message.Action {
		if inject.MatchText(pattern, field.Normal(query)) {
			return a
		}
		return message.Action{}
	}
	p.events = nil
}

func (p *proxy) do(query string) message.Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decide == nil {
		return message.Action{}
	}
	return p.decide(query)
}

func (p *proxy) tell(e message.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// told returns the events of one kind since the last rule.
func (p *proxy) told(op message.Op) []message.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(func(yield func(message.Event) bool) {
		for _, e := range p.events {
			if e.Op == op && !yield(e) {
				return
			}
		}
	})
}

// acted wants the rule to have acted so often, and none to have failed or gone blind.
func (p *proxy) acted(t *testing.T, want int) {
	t.Helper()
	if n := len(p.told(message.Acted)); n != want || len(p.told(message.Failed)) > 0 || len(p.told(message.Blind)) > 0 {
		t.Errorf("%d acted, want %d; failed %v; blind %v", n, want, p.told(message.Failed), p.told(message.Blind))
	}
}
