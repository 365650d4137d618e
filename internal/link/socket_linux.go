package link

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/vtime"
)

// Classic BPF, from linux/filter.h. A filter on a TCP socket sees a segment from its TCP header on.
const (
	loadByte    = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	loadLength  = unix.BPF_LD | unix.BPF_W | unix.BPF_LEN
	and         = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	shiftRight  = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
	toX         = unix.BPF_MISC | unix.BPF_TAX
	ifSet       = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	ifAboveX    = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_X
	giveBack    = unix.BPF_RET | unix.BPF_K
	offsetFlags = 13
	finSynRst   = 0x07
)

// Silence keeps every segment from a socket: its kernel acknowledges nothing, and a listener answers
// no SYN. It returns ErrNeedsOwnedNetwork where the kernel forbids that.
func Silence(fd int) error {
	return attach(fd, []unix.SockFilter{{Code: giveBack, K: 0}})
}

// silenceStream is Silence for a connection, in a form that lets us see what it withholds. A segment
// with data loses the data and passes as a bare header, which TCP takes for an acknowledgement and
// does not answer, but counts among the segments that came in (tcpi_segs_in). All others are
// dropped. So the sender sees silence either way, and a late acknowledgement of our own data, which is
// no one's attempt to send, stays apart from data.
func silenceStream(fd int) error {
	return attach(fd, []unix.SockFilter{
		{Code: loadByte, K: offsetFlags},
		{Code: ifSet, K: finSynRst, Jt: 6},
		{Code: loadByte, K: 12}, // data offset, in words of four bytes, in the upper half
		{Code: and, K: 0xf0},
		{Code: shiftRight, K: 2},
		{Code: toX},
		{Code: loadLength},
		{Code: ifAboveX, Jt: 1},
		{Code: giveBack, K: 0},
		{Code: giveBack, K: 1}, // cut to the least that TCP admits, its header
	})
}

func attach(fd int, program []unix.SockFilter) error {
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{
		Len: uint16(len(program)), Filter: &program[0],
	})
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: %w", ErrNeedsOwnedNetwork, err)
	}
	if err != nil {
		return fmt.Errorf("link: attach filter: %w", err)
	}
	return nil
}

// Unsilence undoes Silence.
func Unsilence(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil {
		return fmt.Errorf("link: detach filter: %w", err)
	}
	return nil
}

// Withheld returns how many segments a socket has dropped so far, by Silence or for want of room.
func Withheld(fd int) (int, error) {
	n, err := drops(fd)
	return int(n), err
}

// socketSilencer silences a TCP socket.
type socketSilencer struct {
	raw syscall.RawConn
	// before is the state when silence began.
	before counters
}

// counters are what the kernel tells of a silenced socket.
type counters struct {
	arrived, dropped     uint32 // segments that passed the filter as bare headers, and dropped ones
	unanswered, repeated uint32 // our own segments not acknowledged, and sent again
}

func (q *socketSilencer) control(do func(fd int) error) error {
	var err error
	if e := q.raw.Control(func(fd uintptr) { err = do(int(fd)) }); e != nil {
		return e
	}
	return err
}

func (q *socketSilencer) silence(on bool) error {
	return q.control(func(fd int) error {
		if !on {
			return Unsilence(fd)
		}
		if err := silenceStream(fd); err != nil {
			return err
		}
		// A segment between the two steps is withheld and not counted; its sender repeats it.
		var err error
		q.before, err = count(fd)
		return err
	})
}

func count(fd int) (counters, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return counters{}, err
	}
	n, err := drops(fd)
	return counters{info.Segs_in, n, info.Unacked, info.Total_retrans}, err
}

// withheld looks for data first. Beyond that a dropped segment may be a keepalive probe or a FIN, which count,
// or the acknowledgement of something of ours, which does not: as many as those are forgiven.
func (q *socketSilencer) withheld() bool {
	var now counters
	err := q.control(func(fd int) (err error) {
		now, err = count(fd)
		return err
	})
	if err != nil {
		return false
	}
	forgiven := q.before.unanswered + now.repeated - q.before.repeated
	return now.arrived != q.before.arrived || now.dropped-q.before.dropped > forgiven
}

// control runs do with the descriptor of a connection that has one.
func control(c Conn, do func(fd int)) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}

// tune prepares a relay's socket: no delay of small writes, and no keepalive of our own, which would
// show in the programs' connections.
func tune(c Conn) {
	control(c, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
	})
}

// SmallBuffers makes a socket hold little, so that who sends through it feels a rate. Before
// connecting or listening it is of more effect than later. The buffers stay small after the rule.
func SmallBuffers(fd int, bytesPerSecond int64) {
	size := int(min(max(bytesPerSecond/10, 4<<10), 128<<10))
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, size)
}

// narrow makes the buffers between a sender and a receiver small.
func narrow(src, dst Conn, bytesPerSecond int64) {
	control(src, func(fd int) { SmallBuffers(fd, bytesPerSecond) })
	control(dst, func(fd int) { SmallBuffers(fd, bytesPerSecond) })
}

// flush waits a little until the other end has acknowledged what was written, since RST would
// overtake it.
func flush(c Conn, clock vtime.Clock) {
	for range 40 {
		left := 0
		control(c, func(fd int) { left, _ = unix.IoctlGetInt(fd, unix.TIOCOUTQ) })
		if left == 0 {
			return
		}
		tick, _ := clock.After(5 * time.Millisecond)
		<-tick
	}
}
