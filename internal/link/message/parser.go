package message

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squallhq/squall/protocol"
)

// maxPart bounds the bytes that a Conversation keeps until a frame is complete with them.
const maxPart = 4 << 20

// parser runs a Conversation and keeps its word for it: whatever it does, every byte comes out once and in
// order.
type parser struct {
	conversation protocol.Conversation
	// asked and answered are the bytes that went in and have not come out yet.
	asked, answered []byte
}

// errBroken is a Conversation's own fault.
var errBroken = errors.New("the parser lost bytes")

func (p *parser) requests(data []byte) ([]protocol.Frame, []byte, error) {
	return feed(&p.asked, data, p.conversation.Requests)
}

func (p *parser) responses(data []byte) ([]protocol.Frame, []byte, error) {
	return feed(&p.answered, data, p.conversation.Responses)
}

// feed returns the frames that are complete now. With an error it returns no frames but all bytes that
// are left, to be passed as they are.
func feed(kept *[]byte, data []byte, parse func([]byte) ([]protocol.Frame, error)) (frames []protocol.Frame, rest []byte, err error) {
	frames, err = parse(data)
	n := 0
	for _, f := range frames {
		n += len(f.Bytes)
	}
	have := len(*kept) + len(data)
	switch {
	case err != nil:
	case n > have:
		err = errBroken
	case have-n > maxPart:
		err = fmt.Errorf("a message is longer than %d MiB", maxPart>>20)
	}
	if err != nil {
		rest = append(*kept, data...)
		*kept = nil
		return nil, rest, err
	}
	if have == n {
		*kept = (*kept)[:0]
		return frames, nil, nil
	}
	*kept = append(*kept, data...)
	*kept = slices.Delete(*kept, 0, n)
	return frames, nil, nil
}

func (p *parser) endOfRequests() ([]protocol.Frame, []byte) {
	e, ok := p.conversation.(protocol.Ender)
	if !ok {
		return finish(&p.asked, nil)
	}
	return finish(&p.asked, e.EndOfRequests())
}

func (p *parser) endOfResponses() ([]protocol.Frame, []byte) {
	e, ok := p.conversation.(protocol.Ender)
	if !ok {
		return finish(&p.answered, nil)
	}
	return finish(&p.answered, e.EndOfResponses())
}

// finish returns the last frames, and what belongs to none.
func finish(kept *[]byte, frames []protocol.Frame) ([]protocol.Frame, []byte) {
	rest := *kept
	*kept = nil
	n := 0
	for _, f := range frames {
		n += len(f.Bytes)
	}
	if n > len(rest) {
		return nil, rest
	}
	return frames, rest[n:]
}
