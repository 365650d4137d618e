package protocol

import (
	"errors"
	"time"
)

// Speaker is a Protocol whose messages can be told apart on a connection, so that rules can match
// them and events can tell them.
type Speaker interface {
	Protocol
	// Messages says what rules can match and do.
	Messages() Messages
	// Converse follows one connection from its first byte.
	Converse() Conversation
}

// Messages describes the messages of a protocol.
type Messages struct {
	// Match are the fields of a request that a rule can match, each by a glob in which * stands for anything.
	Match []Field
	// Verbs are what a rule can do to a request.
	Verbs []Verb
	// Answer are the fields of an Answer that this protocol knows, for error and response.
	Answer []Field
}

// Field is a part of a message, by name.
type Field struct {
	Name, Doc string
	// Normal brings a value and a pattern into the form in which they are compared; nil leaves them as they are.
	Normal func(string) string
}

// Verb is what a rule does to a request.
type Verb string

// The verbs. Stream protocols keep the order of answers whatever is done.
const (
	// Error answers in the server's place with the protocol's own error; the server never sees the request.
	Error Verb = "error"
	// Respond answers in the server's place with a result.
	Respond Verb = "response"
	// Delay lets the request, and what comes after it, reach the server later.
	Delay Verb = "delay"
	// Drop loses the request, and with it the connection.
	Drop Verb = "drop"
	// Duplicate has the server see the request twice; the client gets the first answer.
	Duplicate Verb = "duplicate"
	// Hold keeps the request until it is released.
	Hold Verb = "hold"
)

// Conversation is what passes on one connection. Its methods are never called at the same time.
//
// An error says that the bytes are no longer understood (TLS, another protocol, damage): from then on both ways
// pass untouched. The bytes given with the failing call, and those kept from earlier ones, are in the
// frames returned beside the error.
type Conversation interface {
	// Requests takes bytes that the client sent and returns the frames that are complete with them, in order.
	// Every byte comes out in exactly one frame. It does not keep p.
	Requests(p []byte) ([]Frame, error)
	// Responses does the same for bytes that the server sent.
	Responses(p []byte) ([]Frame, error)
	// Forwarded says that a request went to the server, whose answer comes after those of all forwarded before.
	Forwarded(m *Message)
	// Answer returns the bytes by which the server would have given this answer to a request.
	Answer(m *Message, a Answer) ([]byte, error)
}

// Amender is a Conversation with a server whose state depends on what it answered: in a transaction, an error. An answer
// in the server's place is none of its own, so it is brought into the state that the client believes it to be in.
type Amender interface {
	Conversation
	// Amend is asked after each Answer that went well: what the server gets in place of the request, such as a statement that
	// fails, which spoils its transaction as well. Nothing, where empty. Otherwise Forwarded is called with
	// the request, and the one answer that comes reaches nobody.
	Amend(m *Message) []byte
}

// Frame is a piece of the stream: a message, or a part of one that is too long to be kept.
type Frame struct {
	Bytes []byte
	// Message is what the frame belongs to: the same pointer for all frames of one message. It is nil for
	// bytes that are no message of their own (a server's notice); such bytes pass where they stand.
	Message *Message
	// Last says that the message ends with this frame.
	Last bool
}

// Message is a request or an answer.
type Message struct {
	// Fields are those of Messages.Match for a request; for an answer what an event tells, such as status.
	Fields map[string]string
	// Ruled is false for what belongs to the connection itself (a login): rules never match it.
	Ruled bool
	// Silent requests get no answer of their own (PostgreSQL's Parse before Sync, a Redis subscription's end).
	Silent bool
	// Waits says, with a request's first frame, that its sender waits for an answer before it sends the rest.
	Waits bool
	// Closes says of a request that the server ends the connection after its answer.
	Closes bool
	// Refuses says why a verb cannot be done to this very request: the server's state or the client's would
	// not survive it. A rule that wants it has not fired.
	Refuses map[Verb]string
	// Private is the Conversation's own.
	Private any
}

// Ender is a Conversation for which the end of the stream may complete a message, as with a last line
// without its line feed. What it does not return passes without belonging to a message.
type Ender interface {
	// EndOfRequests is called once, after the last bytes of the client.
	EndOfRequests() []Frame
	// EndOfResponses is called once, after the last bytes of the server.
	EndOfResponses() []Frame
}

// Guesser is a Conversation that cannot know whether a message is complete, as with text that may lack its line feed. What it
// kept of the client's bytes for Patience without getting more is asked for by EndOfRequests, which may so be called
// more than once: a server that waits for nothing more must not wait for ever.
type Guesser interface {
	Ender
	Patience() time.Duration
}

// ErrEncrypted is the error of a Conversation that meets TLS.
var ErrEncrypted = errors.New("the connection is encrypted")

// Encrypted reports whether a stream that begins with these bytes, three at least, is TLS.
func Encrypted(p []byte) bool {
	return len(p) >= 3 && p[0] == 0x16 && p[1] == 3 && p[2] <= 4
}

// Answer is what a rule answers in the server's place. Which fields count depends on the protocol.
type Answer struct {
	// Failed chooses the protocol's form for errors.
	Failed bool
	// Status is a number such as HTTP's.
	Status int
	// Code is a symbol such as SQLSTATE or the first word of a Redis error.
	Code string
	// Text is a message for people.
	Text string
	// Body is the content, and Headers what goes with it.
	Body    []byte
	Headers map[string]string
}
