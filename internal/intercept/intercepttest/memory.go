//go:build linux

package intercepttest

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
)

func memoryCases() []testCase {
	return []testCase{
		{"string at the edge", testEdge, nil},
		{"write memory", testWriteMemory, nil},
		{"describe", testDescribe, nil},
	}
}

// testEdge reads strings that end where memory does, with and without their final NUL.
func testEdge(t *testing.T, b intercept.Backend) {
	for _, length := range []int{10, 300, 4000} {
		path := "/nowhere/"
		for len(path) < length {
			path += "x"
		}
		p := begin(t, b, target("edge", path), mkdirs())
		c := p.next()
		if got, err := intercept.ReadString(p.s, c, c.Args[1], 8192); got != path || err != nil {
			t.Errorf("length %d: got %d bytes, %v", length, len(got), err)
		}
		if _, err := intercept.ReadString(p.s, c, c.Args[1], length-1); !errors.Is(err, intercept.ErrTooLong) {
			t.Errorf("length %d, limit one less: %v", length, err)
		}
		buf := make([]byte, 16384)
		if n, err := p.s.ReadMemory(c, c.Args[1], buf); n != length+1 || err != nil {
			t.Errorf("reading past the end: %d, %v, want %d", n, err, length+1)
		}
		p.reply(c, deny(unix.EIO))
		c = p.next()
		if _, err := intercept.ReadString(p.s, c, c.Args[1], 4096); !errors.Is(err, unix.EFAULT) {
			t.Errorf("unreadable: %v", err)
		}
		p.reply(c, intercept.Reply{})
		p.serve(allow)
		p.expect("EIO\nEFAULT")
	}
}

func testWriteMemory(t *testing.T, b intercept.Backend) {
	p := begin(t, b, target("read"), intercept.Subscription{Calls: []string{"read"}})
	text := "from the supervisor"
	p.serve(func(c intercept.Call) intercept.Reply {
		// The runtime reads files of its own at the start.
		if c.Args[0] != 0 {
			return intercept.Reply{}
		}
		if err := p.s.WriteMemory(c, c.Args[1], []byte(text)); err != nil {
			t.Error(err)
		}
		if err := p.s.WriteMemory(c, 8, []byte("x")); !errors.Is(err, unix.EFAULT) {
			t.Errorf("writing nowhere: %v", err)
		}
		return intercept.Reply{Answer: true, Value: int64(len(text))}
	})
	p.expect(text)
}

func testDescribe(t *testing.T, b intercept.Backend) {
	path := filepath.Join(t.TempDir(), "file")
	p := begin(t, b, target("kinds", path), intercept.Subscription{Calls: []string{"fsync"}})
	var socket uint64
	for i, want := range []struct {
		kind fault.Descriptor
		path string
	}{
		{fault.File, path}, {fault.Other, filepath.Dir(path)}, {fault.Socket, ""}, {fault.Pipe, ""}, {fault.Other, ""},
		{fault.File, path + ".gone"}, {fault.Socket, ""},
	} {
		c := p.next()
		kind, got, cookie, err := intercept.Describe(p.s, c, int(c.Args[0]))
		if err != nil || kind != want.kind || got != want.path {
			t.Errorf("descriptor %d: got %q %q %v, want %+v", i, kind, got, err, want)
		}
		if (cookie != 0) != (kind == fault.Socket) {
			t.Errorf("descriptor %d: a %s with cookie %d", i, kind, cookie)
		}
		if cookie != 0 && socket != 0 && cookie != socket {
			t.Errorf("one socket, two cookies: %d and %d", socket, cookie)
		}
		socket = max(socket, cookie)
		p.reply(c, intercept.Reply{})
	}
	c := p.next()
	if _, _, _, err := intercept.Describe(p.s, c, int(c.Args[0])); !errors.Is(err, unix.EBADF) {
		t.Errorf("a number that is not open: %v", err)
	}
	p.reply(c, intercept.Reply{})
	p.serve(allow)
	p.expect("")
}
