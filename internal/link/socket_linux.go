package link

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/vtime"
)

// control runs do with the descriptor of a connection that has one.
func control(c Conn, do func(fd int)) {
	sc, ok := underneath(c).(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}

// tune prepares a relay's socket: no delay of small writes; no keepalive of our own, which would
// show in the programs' connections; and urgent data where it stands among the rest, as it would be lost else.
func tune(c Conn) {
	control(c, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
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
