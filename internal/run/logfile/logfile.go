// Package logfile follows a file that another program writes.
package logfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// The limits of what is read: a line is cut at LineLimit, and after so many lines or bytes the rest is not read.
const (
	LineLimit  = 64 << 10
	LineCount  = 200_000
	ByteCount  = 64 << 20
	headLength = 256
)

// File is a file that is followed by its path. It is opened for each look: a file in an overlay becomes
// another one when it is first written to. It is safe for concurrent use.
type File struct {
	path string
	line func([]byte)
	full func()

	mu     sync.Mutex
	offset int64
	// head is how the file began: a file that begins otherwise is a new one.
	head []byte
	rest []byte
	// count and taken count what was read; stopped is set once that is too much.
	count   int
	taken   int64
	stopped bool
}

// Open follows a file from where it ends now; it need not exist. line gets each whole line, full is called
// once where there is more than is read. Neither may call back.
func Open(path string, line func([]byte), full func()) *File {
	t := &File{path: path, line: line, full: full}
	if f, size, err := t.open(); err == nil {
		defer f.Close()
		t.offset = size
		t.head, _ = readHead(f, size)
	}
	return t
}

// Drain reads what the file has beyond what was read. Everything that was written when it was called has been
// handed to line when it returns, up to the last whole line.
func (t *File) Drain() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drain()
}

// End drains and hands what follows the last whole line to line too.
func (t *File) End() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.drain()
	if len(t.rest) > 0 {
		t.put(t.rest)
		t.rest = nil
	}
	return err
}

func (t *File) drain() error {
	if t.stopped {
		return nil
	}
	f, size, err := t.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.look(f, size); err != nil || size == t.offset {
		return err
	}
	if _, err := f.Seek(t.offset, io.SeekStart); err != nil {
		return err
	}
	buf := make([]byte, min(size-t.offset, 256<<10))
	for t.offset < size && !t.stopped {
		n, err := f.Read(buf[:min(int64(len(buf)), size-t.offset)])
		t.offset += int64(n)
		t.taken += int64(n)
		t.split(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open opens the file if it is a regular one; it never waits.
func (t *File) open() (*os.File, int64, error) {
	f, err := os.OpenFile(t.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "observe", Path: t.path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// look finds out whether the file is still the one that was read: it is another where it is shorter than that,
// or begins otherwise. Another one is read from its beginning.
func (t *File) look(f *os.File, size int64) error {
	head, err := readHead(f, size)
	if err != nil {
		return err
	}
	if size < t.offset || !bytes.HasPrefix(head, t.head) {
		t.offset, t.rest = 0, nil
	}
	t.head = head
	return nil
}

func readHead(f *os.File, size int64) ([]byte, error) {
	head := make([]byte, min(size, headLength))
	n, err := f.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
}

// split hands over whole lines, and pieces of one that is too long.
func (t *File) split(b []byte) {
	b = append(t.rest, b...)
	for !t.stopped {
		i := bytes.IndexByte(b, '\n')
		switch {
		case i >= 0 && i <= LineLimit:
			t.put(bytes.TrimSuffix(b[:i], []byte{'\r'}))
			b = b[i+1:]
			continue
		case len(b) >= LineLimit:
			t.put(b[:LineLimit])
			b = b[LineLimit:]
			continue
		}
		break
	}
	t.rest = bytes.Clone(b)
}

func (t *File) put(line []byte) {
	if t.count++; t.count > LineCount || t.taken > ByteCount {
		if !t.stopped {
			t.full()
		}
		t.stopped, t.rest = true, nil
		return
	}
	t.line(line)
}
