package protocoltest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/squallhq/squall/protocol"
)

// Dialogue is what both sides of a connection say, and what a Conversation is to make of it. Every request is
// forwarded.
type Dialogue struct {
	Name string
	// Turns are what the client and the server say, by turns; the client begins.
	Turns []string
	// Want are the messages of the client, and then the server's, each as a Line. What stands between messages and belongs to none
	// is "-" and its length.
	Want []string
	// Err is a part of the error with which the Conversation gives up; "" wants it not to.
	Err string
}

// Line is a message in a Dialogue: its fields, by name, and what is special about it.
func Line(m *protocol.Message) string {
	var b strings.Builder
	names := make([]string, 0, len(m.Fields))
	for name := range m.Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if v := m.Fields[name]; v != "" {
			fmt.Fprintf(&b, "%s=%.60s ", name, v)
		}
	}
	if m.Ruled {
		b.WriteString("ruled ")
	}
	if m.Silent {
		b.WriteString("silent ")
	}
	refused := make([]string, 0, len(m.Refuses))
	for v := range m.Refuses {
		refused = append(refused, "!"+string(v))
	}
	slices.Sort(refused)
	return strings.TrimSpace(b.String() + strings.Join(refused, " "))
}

// Converse has a protocol's Conversation hear dialogues: as a whole, in small pieces, and with each turn cut in two at every place.
// What comes of it must always be the same.
func Converse(t *testing.T, s protocol.Speaker, dialogues []Dialogue) {
	for _, d := range dialogues {
		t.Run(d.Name, func(t *testing.T) {
			whole := func(turn string) []string { return []string{turn} }
			if !d.hear(t, s, "whole", whole) {
				return
			}
			size, cuts := d.pieces()
			d.hear(t, s, fmt.Sprintf("pieces of %d", size), func(turn string) []string {
				var out []string
				for piece := range slices.Chunk([]byte(turn), size) {
					out = append(out, string(piece))
				}
				return out
			})
			for n := 1; n < cuts; n++ {
				if !d.hear(t, s, fmt.Sprintf("cut at %d", n), func(turn string) []string { return []string{turn[:min(n, len(turn))], turn[min(n, len(turn)):]} }) {
					return
				}
			}
		})
	}
}

// pieces says how the turns are cut: into pieces of a size, and in two at each of a number of places. Where a turn is long, the first
// places are enough: the rest of it is content.
func (d Dialogue) pieces() (size, cuts int) {
	for _, turn := range d.Turns {
		cuts = max(cuts, len(turn))
	}
	if cuts > 10000 {
		return 997, 50
	}
	return 1, cuts
}

// hear returns whether all went well.
func (d Dialogue) hear(t *testing.T, s protocol.Speaker, how string, cut func(string) []string) bool {
	t.Helper()
	c := s.Converse()
	up, down := &ear{}, &ear{}
	var gaveUp error
	for i, turn := range d.Turns {
		for _, piece := range cut(turn) {
			frames, err := []protocol.Frame(nil), error(nil)
			if i%2 == 0 {
				frames, err = c.Requests([]byte(piece))
				up.hear(frames, c.Forwarded)
			} else {
				frames, err = c.Responses([]byte(piece))
				down.hear(frames, nil)
			}
			if err != nil {
				gaveUp = err
			}
		}
	}
	good := true
	if (gaveUp == nil) != (d.Err == "") || (gaveUp != nil && !strings.Contains(gaveUp.Error(), d.Err)) {
		t.Errorf("%s: gave up with %v, want %q", how, gaveUp, d.Err)
		good = false
	}
	got := append(up.lines(), down.lines()...)
	// Where it gives up, what was kept until then depends on the pieces.
	if !slices.Equal(got, d.Want) && d.Err == "" {
		t.Errorf("%s:\n%s\nwant\n%s", how, strings.Join(got, "\n"), strings.Join(d.Want, "\n"))
		good = false
	}
	var want [2]string
	for i, turn := range d.Turns {
		want[i%2] += turn
	}
	if up.text.String() != want[0] || down.text.String() != want[1] {
		t.Errorf("%s: the bytes of the frames are not those that were said", how)
		good = false
	}
	return good
}

// ear collects frames of one way.
type ear struct {
	text bytes.Buffer
	// heard are messages in the order in which they began; nil stands for what is none.
	heard []*protocol.Message
	sizes []int
	place map[*protocol.Message]int
	ended map[*protocol.Message]bool
}

func (e *ear) hear(frames []protocol.Frame, forwarded func(*protocol.Message)) {
	if e.ended == nil {
		e.ended, e.place = map[*protocol.Message]bool{}, map[*protocol.Message]int{}
	}
	for _, f := range frames {
		e.text.Write(f.Bytes)
		at, known := e.place[f.Message]
		if f.Message == nil {
			// Neighbours are one.
			at = len(e.heard) - 1
			known = at >= 0 && e.heard[at] == nil
		}
		if !known {
			e.heard, e.sizes = append(e.heard, f.Message), append(e.sizes, 0)
			at = len(e.heard) - 1
			e.place[f.Message] = at
			if f.Message != nil && forwarded != nil {
				forwarded(f.Message)
			}
		}
		e.sizes[at] += len(f.Bytes)
		if f.Message != nil && f.Last {
			e.ended[f.Message] = true
		}
	}
}

func (e *ear) lines() []string {
	var out []string
	for i, m := range e.heard {
		switch {
		case m == nil:
			out = append(out, fmt.Sprintf("- %d", e.sizes[i]))
		case !e.ended[m]:
			out = append(out, Line(m)+" …")
		default:
			out = append(out, Line(m))
		}
	}
	return out
}

// Hostile has a Conversation hear what nobody has thought of, for a fuzz target: up and down in pieces of a size, by turns, with
// some requests answered. It wants no byte lost and no part kept that is longer than limit.
func Hostile(t *testing.T, s protocol.Speaker, up, down []byte, size, limit int) {
	c := s.Converse()
	size = max(1, size)
	var heard [2]ear
	given := [2]int{}
	left := [2][]byte{up, down}
	for n := 0; len(left[0])+len(left[1]) > 0; n++ {
		way := n % 2
		k := min(size, len(left[way]))
		frames, err := []protocol.Frame(nil), error(nil)
		if way == 0 {
			frames, err = c.Requests(left[way][:k:k])
		} else {
			frames, err = c.Responses(left[way][:k:k])
		}
		heard[way].hear(frames, func(m *protocol.Message) { forward(c, m, n) })
		left[way] = left[way][k:]
		given[way] += k
		if kept := given[way] - heard[way].text.Len(); kept < 0 || kept > limit || (err != nil && kept > 0) {
			t.Fatalf("%d bytes are kept, after the error %v", kept, err)
		}
	}
	for i, want := range [][]byte{up, down} {
		if !bytes.HasPrefix(want, heard[i].text.Bytes()) {
			t.Fatal("bytes have changed")
		}
	}
}

// forward answers one in three requests, and forwards the others.
func forward(c protocol.Conversation, m *protocol.Message, n int) {
	if m.Ruled && n%3 == 0 {
		if _, err := c.Answer(m, protocol.Answer{Failed: n%2 == 0, Text: "text", Body: []byte("body")}); err == nil {
			if a, ok := c.(protocol.Amender); !ok || len(a.Amend(m)) == 0 {
				return
			}
		}
	}
	c.Forwarded(m)
}
