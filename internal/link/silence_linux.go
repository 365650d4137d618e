package link

import (
	"errors"
	"fmt"
	"math"
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

// keepBack is silence for a connection, in a form that lets us see what it withholds. A segment
// with data loses the data and passes as a bare header, which TCP takes for an acknowledgement and
// does not answer, but counts among the segments that came in (tcpi_segs_in). All others are
// dropped. So the sender sees silence either way, and a late acknowledgement of our own data, which is
// no one's attempt to send, stays apart from data.
func keepBack(fd int) error { return attach(fd, sieve(1, 0)) }

// settle is how the silence of a connection begins: bare acknowledgements pass, all else is dropped.
// What we sent last may not be acknowledged yet, as kernels delay that. Without the acknowledgement ours
// would send it again and again, and each time the program's kernel would take that for a sign of life.
func settle(fd int) error { return attach(fd, sieve(0, math.MaxUint32)) }

// sieve is a filter that cuts segments with data to as many bytes as data says, though never into the header,
// and bare acknowledgements to as many as bare says; 0 drops them. What opens or ends a connection is dropped.
func sieve(data, bare uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: loadByte, K: offsetFlags},
		{Code: ifSet, K: finSynRst, Jt: 6},
		{Code: loadByte, K: 12}, // data offset, in words of four bytes, in the upper half
		{Code: and, K: 0xf0},
		{Code: shiftRight, K: 2},
		{Code: toX},
		{Code: loadLength},
		{Code: ifAboveX, Jt: 2, Jf: 1},
		{Code: giveBack, K: 0},
		{Code: giveBack, K: bare},
		{Code: giveBack, K: data},
	}
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

const (
	// settleLeast is how long a silence takes bare acknowledgements at least: a write that the relay had begun
	// may follow.
	settleLeast = 5 * time.Millisecond
	// settleMost bounds that. No kernel delays an acknowledgement for longer than 200 ms.
	settleMost = 250 * time.Millisecond
)

// socketSilencer silences a TCP socket.
type socketSilencer struct {
	raw   syscall.RawConn
	clock vtime.Clock
	// settling says that bare acknowledgements still pass, since began.
	settling bool
	began    time.Duration
	// before is the state when counting began; seen is set if something was withheld while settling.
	before counters
	seen   bool
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
		// What waits for the program to read is not on its way. Acknowledgements would let it go on.
		waiting, err := unix.IoctlGetInt(fd, unix.SIOCOUTQNSD)
		q.settling, q.began = err == nil && waiting == 0, q.clock.Now()
		filter := keepBack
		if q.settling {
			filter = settle
		}
		if err := filter(fd); err != nil {
			return err
		}
		// A segment between the two steps is withheld and not counted; its sender repeats it.
		return q.mark(fd)
	})
}

func (q *socketSilencer) anew() error { return q.control(q.mark) }

func (q *socketSilencer) mark(fd int) (err error) {
	q.seen = false
	q.before, err = count(fd)
	return err
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
		if now, err = count(fd); err == nil && q.settling {
			return q.settle(fd, now)
		}
		return err
	})
	if err != nil || q.seen || q.settling {
		return q.seen
	}
	forgiven := q.before.unanswered + now.repeated - q.before.repeated
	return now.arrived != q.before.arrived || now.dropped-q.before.dropped > forgiven
}

// settle ends the beginning of a silence once all that we sent is acknowledged. Until then nothing is
// dropped but what counts.
func (q *socketSilencer) settle(fd int, now counters) error {
	seen := q.seen || now.dropped != q.before.dropped
	q.seen = seen
	took := q.clock.Now() - q.began
	left, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if took < settleLeast || took < settleMost && err == nil && left > 0 {
		return err
	}
	if err := keepBack(fd); err != nil {
		return err
	}
	q.settling = false
	err = q.mark(fd)
	q.seen = seen
	return err
}
