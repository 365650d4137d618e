package transfer

import (
	"encoding/binary"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/intercept"
)

// State is what Look found out.
type State struct {
	// Size is how many bytes the call would move now; 0 where it can't be cut short.
	Size int64
	// Waits is set where the call would wait first: nothing is there, or there is no room.
	Waits bool
}

// Look finds out what a call would do now.
func Look(s intercept.Session, c intercept.Call) State {
	r, ok := open(s, c)
	if !ok {
		return State{}
	}
	defer r.close()
	return r.look()
}

// Ready waits until a call that would wait can move something, or for the given time at most, and reports
// whether it can.
func Ready(s intercept.Session, c intercept.Call, limit time.Duration) bool {
	r, ok := open(s, c)
	if !ok {
		return true
	}
	defer r.close()
	return r.ready(limit)
}

// Move moves at most n bytes of a call, and returns how many that were. Where ok is false it moved nothing, and the call can
// be made by the kernel as if nothing had been.
func Move(s intercept.Session, c intercept.Call, n int64) (moved int64, ok bool) {
	r, ok := open(s, c)
	if !ok {
		return 0, false
	}
	defer r.close()
	if st := r.look(); st.Waits || st.Size <= n {
		return 0, false
	}
	if r.out {
		return r.give(n)
	}
	return r.take(n)
}

// request is a call that moves bytes, with a duplicate of its descriptor.
type request struct {
	session intercept.Session
	call    intercept.Call
	fd      int
	kind    fault.Descriptor
	out     bool
	pieces  []piece
	// size is how much the program asks to move.
	size int64
	// at is the offset in the file, -1 for where it stands.
	at int64
	// header is the address of a struct msghdr whose fields the call sets; 0 for none. length is that of an address's length.
	header, length uint64
}

// piece is a buffer of the program.
type piece struct{ addr, size uint64 }

func (r *request) close() { _ = unix.Close(r.fd) }

// open reads a call's arguments; false where it can't be cut short.
func open(s intercept.Session, c intercept.Call) (*request, bool) {
	r := &request{session: s, call: c, fd: -1, at: -1}
	if !r.arguments() {
		return nil, false
	}
	for _, p := range r.pieces {
		if p.size > math.MaxInt32 {
			return nil, false
		}
		r.size += int64(p.size)
	}
	fd, err := s.Descriptor(c, int(int32(c.Args[0])))
	if err != nil {
		return nil, false
	}
	r.fd = fd
	kind, _, _, err := intercept.DescribeOwn(fd)
	if err != nil || !r.fits(kind) {
		r.close()
		return nil, false
	}
	return r, true
}

// arguments finds the buffers of a call.
func (r *request) arguments() bool {
	a := r.call.Args
	switch r.call.Name {
	case "read", "write":
		r.pieces = []piece{{a[1], a[2]}}
	case "pread64", "pwrite64":
		r.pieces, r.at = []piece{{a[1], a[2]}}, int64(a[3])
	case "readv", "writev":
		return r.outline(r.vector(a[1], a[2]))
	case "preadv", "pwritev":
		r.at = int64(a[3])
		return r.outline(r.vector(a[1], a[2]))
	case "preadv2", "pwritev2":
		r.at = int64(a[3])
		return a[5] == 0 && r.outline(r.vector(a[1], a[2]))
	case "sendto", "recvfrom":
		r.pieces, r.length = []piece{{a[1], a[2]}}, a[5]
		if r.call.Name == "sendto" {
			r.length = 0
		}
		return r.outline(true) && plain(a[3])
	case "sendmsg", "recvmsg":
		return r.message(a[1]) && r.outline(true) && plain(a[2])
	}
	return r.outline(true) && (r.at >= -1)
}

// outline notes the way that the bytes go.
func (r *request) outline(ok bool) bool {
	switch r.call.Name {
	case "write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg":
		r.out = true
	}
	return ok
}

// plain reports whether flags of a call on a socket leave it an ordinary one.
func plain(flags uint64) bool {
	const known = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL | unix.MSG_MORE | unix.MSG_CMSG_CLOEXEC | unix.MSG_WAITALL
	return uint32(flags)&^known == 0
}

// maxPieces is the kernel's bound, IOV_MAX.
const maxPieces = 1024

// vector reads an array of struct iovec.
func (r *request) vector(addr, count uint64) bool {
	if count > maxPieces {
		return false
	}
	raw := make([]byte, 16*count)
	if n, err := r.session.ReadMemory(r.call, addr, raw); err != nil || n < len(raw) {
		return false
	}
	for ; len(raw) > 0; raw = raw[16:] {
		r.pieces = append(r.pieces, piece{binary.NativeEndian.Uint64(raw), binary.NativeEndian.Uint64(raw[8:])})
	}
	return true
}

// The layout of struct msghdr: name, its length, vector, its length, control, its length, flags.
const (
	headerNameLength    = 8
	headerVector        = 16
	headerVectorLength  = 24
	headerControl       = 32
	headerControlLength = 40
	headerFlags         = 48
	headerSize          = 56
)

// message reads a struct msghdr. Control data is left to the kernel when it is sent; what is received has none if the
// program has no room for it.
func (r *request) message(addr uint64) bool {
	var h [headerSize]byte
	if n, err := r.session.ReadMemory(r.call, addr, h[:]); err != nil || n < len(h) {
		return false
	}
	if binary.NativeEndian.Uint64(h[headerControl:]) != 0 && binary.NativeEndian.Uint64(h[headerControlLength:]) != 0 {
		return false
	}
	if r.call.Name == "recvmsg" {
		r.header = addr
	}
	return r.vector(binary.NativeEndian.Uint64(h[headerVector:]), binary.NativeEndian.Uint64(h[headerVectorLength:]))
}

// fits reports whether the call can be cut short on what its descriptor leads to.
func (r *request) fits(kind fault.Descriptor) bool {
	r.kind = kind
	switch kind {
	case fault.File:
		// A program that may not write beyond a size gets a signal from its own call only.
		var limit unix.Rlimit
		err := unix.Prlimit(r.call.Thread, unix.RLIMIT_FSIZE, nil, &limit)
		return !r.out || err == nil && limit.Cur == math.MaxUint64
	case fault.Pipe:
		return true
	case fault.Socket:
		sort, err := unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_TYPE)
		return err == nil && sort == unix.SOCK_STREAM
	}
	return false
}

// look finds out how much could be moved.
func (r *request) look() State {
	if r.kind == fault.File {
		return State{Size: min(r.size, r.left())}
	}
	if r.size == 0 {
		return State{}
	}
	if !r.ready(0) {
		return State{Size: r.size, Waits: r.patient()}.orNothing()
	}
	if r.out {
		return State{Size: r.size}
	}
	n, err := unix.IoctlGetInt(r.fd, unix.TIOCINQ)
	if err != nil {
		return State{}
	}
	return State{Size: min(r.size, int64(n))}
}

// orNothing is for a call that fails at once instead of waiting.
func (s State) orNothing() State {
	if !s.Waits {
		return State{}
	}
	return s
}

// left is how much of a file there is to read. Files of the kernel's own say no size; then nobody knows.
func (r *request) left() int64 {
	var st unix.Stat_t
	if r.out || unix.Fstat(r.fd, &st) != nil {
		return math.MaxInt64
	}
	at := r.at
	if at < 0 {
		var err error
		if at, err = unix.Seek(r.fd, 0, unix.SEEK_CUR); err != nil {
			return math.MaxInt64
		}
	}
	if st.Size > 0 {
		return max(st.Size-at, 0)
	}
	if n, err := unix.Pread(r.fd, make([]byte, 1), at); err != nil || n == 0 {
		return 0
	}
	return math.MaxInt64
}

// patient reports whether the call waits, and without a time limit of its own.
func (r *request) patient() bool {
	if flags, err := unix.FcntlInt(uintptr(r.fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		return false
	}
	if r.kind != fault.Socket {
		return true
	}
	flags, option := r.call.Args[3], unix.SO_RCVTIMEO
	if r.out {
		option = unix.SO_SNDTIMEO
	}
	switch r.call.Name {
	case "sendmsg", "recvmsg":
		flags = r.call.Args[2]
	case "read", "write", "readv", "writev":
		flags = 0
	}
	limit, err := unix.GetsockoptTimeval(r.fd, unix.SOL_SOCKET, option)
	return flags&unix.MSG_DONTWAIT == 0 && err == nil && limit.Sec == 0 && limit.Usec == 0
}

func (r *request) ready(limit time.Duration) bool {
	p := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	if r.out {
		p[0].Events = unix.POLLOUT
	}
	n, err := unix.Poll(p, int(limit/time.Millisecond))
	return err == nil && n > 0
}

// give moves bytes out of the program.
func (r *request) give(n int64) (int64, bool) {
	b := make([]byte, 0, n)
	for _, p := range r.pieces {
		part := make([]byte, min(p.size, uint64(n)-uint64(len(b))))
		if got, err := r.session.ReadMemory(r.call, p.addr, part); err != nil || got < len(part) {
			return 0, false
		}
		b = append(b, part...)
	}
	if !r.session.Alive(r.call.ID) {
		return 0, false
	}
	var moved int
	var err error
	switch {
	case r.kind == fault.Socket:
		// A broken connection is left to the kernel, which has a signal for it.
		moved, err = unix.SendmsgN(r.fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	case r.kind == fault.Pipe:
		moved, err = unix.Pwritev2(r.fd, [][]byte{b}, -1, unix.RWF_NOWAIT)
	case r.at >= 0:
		moved, err = unix.Pwrite(r.fd, b, r.at)
	default:
		moved, err = unix.Write(r.fd, b)
	}
	return int64(moved), err == nil && moved > 0
}

// take moves bytes into the program. Its memory is written before they are taken off a connection, so that none are lost if it
// can't be.
func (r *request) take(n int64) (int64, bool) {
	b := make([]byte, n)
	peek := func() (int, error) {
		switch {
		case r.kind == fault.Socket:
			got, _, err := unix.Recvfrom(r.fd, b, unix.MSG_DONTWAIT|unix.MSG_PEEK)
			return got, err
		case r.kind == fault.Pipe:
			// Nothing can be put back into a pipe: the program's buffer is tried first.
			if !r.session.Alive(r.call.ID) || !r.put(b) {
				return 0, unix.EFAULT
			}
			return unix.Preadv2(r.fd, [][]byte{b}, -1, unix.RWF_NOWAIT)
		case r.at >= 0:
			return unix.Pread(r.fd, b, r.at)
		}
		at, err := unix.Seek(r.fd, 0, unix.SEEK_CUR)
		if err != nil {
			return 0, err
		}
		return unix.Pread(r.fd, b, at)
	}
	got, err := peek()
	if err != nil || got <= 0 {
		return 0, false
	}
	if r.kind == fault.Pipe {
		return int64(got), r.put(b[:got])
	}
	if !r.session.Alive(r.call.ID) || !r.put(b[:got]) {
		return 0, false
	}
	switch {
	case r.kind == fault.Socket:
		got, _, err = unix.Recvfrom(r.fd, b[:got], unix.MSG_DONTWAIT)
	case r.kind == fault.File && r.at < 0:
		_, err = unix.Seek(r.fd, int64(got), unix.SEEK_CUR)
	}
	return int64(got), err == nil && got > 0
}

// put writes what was read into the program's buffers, and what a call on a socket says beside that.
func (r *request) put(b []byte) bool {
	for _, p := range r.pieces {
		part := b[:min(p.size, uint64(len(b)))]
		b = b[len(part):]
		if len(part) > 0 && r.session.WriteMemory(r.call, p.addr, part) != nil {
			return false
		}
	}
	if r.length != 0 && r.session.WriteMemory(r.call, r.length, make([]byte, 4)) != nil {
		return false
	}
	if r.header == 0 {
		return true
	}
	return r.session.WriteMemory(r.call, r.header+headerNameLength, make([]byte, 4)) == nil &&
		r.session.WriteMemory(r.call, r.header+headerControlLength, make([]byte, 8)) == nil &&
		r.session.WriteMemory(r.call, r.header+headerFlags, make([]byte, 4)) == nil
}
