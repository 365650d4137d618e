package message

import (
	"io"
	"time"

	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/protocol"
)

// Socket is the connection to the server; *net.TCPConn is one.
type Socket interface {
	io.ReadWriteCloser
	// CloseWrite sends FIN and leaves the other way open.
	CloseWrite() error
	// SetLinger(0) makes the next Close send RST and lose what was not sent.
	SetLinger(seconds int) error
}

// Config is what a Conn is made from.
type Config struct {
	Conversation protocol.Conversation
	Clock        vtime.Clock
	// Decide is asked about each request that rules may match, in their order. Index counts the
	// connection's requests from 1.
	Decide func(index int64, m *protocol.Message) Action
	// Waits reports whether a rule may act on the connection's requests now; nil says that one always may. Where
	// none may, bytes pass as they come and are followed beside.
	Waits func() bool
	// Tell is told what became of requests, in order. It is called with locks held: it must be quick and must
	// not call the Conn.
	Tell func(Event)
}

// Action is what becomes of a request.
type Action struct {
	// Verb is what is done; "" lets it pass.
	Verb protocol.Verb
	// Rule is who wants it.
	Rule string
	// Delay is how long Delay holds it.
	Delay time.Duration
	// Answer is what Error and Respond answer.
	Answer protocol.Answer
	// How says how Drop ends the connection.
	How Ending
	// Until is closed once the rule is lifted: Delay and Hold end then.
	Until <-chan struct{}
}

// Ending is how a connection ends whose request is lost.
type Ending string

// The endings. The server's side is closed in each case.
const (
	// Close sends the client FIN.
	Close Ending = "close"
	// Reset sends the client RST.
	Reset Ending = "reset"
	// Silence tells the client nothing, ever.
	Silence Ending = "silence"
)

// Op says what an Event is about.
type Op string

// The operations of events.
const (
	// Request is a request that came in, before anything is done with it.
	Request Op = "request"
	// Acted says that a rule's verb was carried out on it.
	Acted Op = "acted"
	// Failed says that a verb could not be carried out, and that the request passed.
	Failed Op = "failed"
	// Answered is the end of an answer on its way to the client.
	Answered Op = "answer"
	// Blind says that messages cannot be told apart any more.
	Blind Op = "blind"
)

// Event is something about a request, or about the connection as a whole (Blind).
type Event struct {
	Op    Op
	Index int64
	// Request is nil for Blind.
	Request *protocol.Message
	// Answer is the server's answer, or nil where the server did not give it.
	Answer *protocol.Message
	// Rule and Verb tell what acted on the request; "" where nothing did.
	Rule string
	Verb protocol.Verb
	// Duration is the time from the request's first frame to the end of the answer.
	Duration time.Duration
	// Err says why, for Failed and Blind.
	Err error
}
