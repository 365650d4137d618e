package join

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A record is what the program and user space share of a lane. The program adds to the gate what it lets pass, and
// writes budget and carried; user space opens and shuts the gate, and sets budget while it is shut.
const (
	recordSize = 64 // a cache line
	offGate    = 0
	offBudget  = 8
	offCarried = 16

	gateOpen = uint64(1) << 63
	maxLanes = 2048

	// largestMessage is what one send may have; more is bulk, at which a relay is better.
	largestMessage = 16 << 10
	// messageCost is what a message takes of a send buffer beside its bytes, at the most.
	messageCost = 2 << 10
	// largestBudget bounds what is taken from one opening to the next, in bytes of the target's send buffer.
	largestBudget = 512 << 10
)

// maps are descriptors.
type maps struct{ lanes, records, sources, targets int }

// Kernel is the maps and the program of one set of connections. It is safe for concurrent use.
type Kernel struct {
	maps
	program int
	memory  []byte

	mu     sync.Mutex
	closed bool
	free   []uint32
	// old are lanes that were left. Their numbers are used again only once no run of the program can know them.
	old []*Lane
	// known has the lanes that the program finds, old ones too.
	known map[key]*Lane
	// touched are the cookies of sockets that Plain was called for since they were last to enter.
	touched map[uint64]bool
}

// firstMajor and firstMinor are the first kernel on which this has been tested; some older ones have defects in
// redirecting.
const firstMajor, firstMinor = 6, 18

// New loads the program. Where that is not to be, its error is ErrForbidden or ErrUnsupported.
func New() (*Kernel, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	k := &Kernel{maps: maps{-1, -1, -1, -1}, program: -1, known: map[key]*Lane{}, touched: map[uint64]bool{}}
	if err := k.build(); err != nil {
		k.release()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return nil, fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	for i := range uint32(maxLanes) {
		k.free = append(k.free, i)
	}
	return k, nil
}

// Permitted reports whether this process may make what New needs, on a kernel that has it.
func Permitted() bool {
	if supported() != nil {
		return false
	}
	fd, err := createMap(mapAttr{unix.BPF_MAP_TYPE_SOCKMAP, 4, 4, 1, 0})
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

func supported() error {
	switch runtime.GOARCH {
	case "amd64", "arm64":
	default:
		return fmt.Errorf("%w: on %s", ErrUnsupported, runtime.GOARCH)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil ||
		major < firstMajor || major == firstMajor && minor < firstMinor {
		return fmt.Errorf("%w: Linux %s is older than %d.%d", ErrUnsupported, release, firstMajor, firstMinor)
	}
	return nil
}

func (k *Kernel) build() error {
	// The first map tells who may not from who lacks something.
	for _, m := range []struct {
		fd   *int
		attr mapAttr
	}{
		{&k.records, mapAttr{unix.BPF_MAP_TYPE_ARRAY, 4, recordSize, maxLanes, unix.BPF_F_MMAPABLE}},
		{&k.lanes, mapAttr{unix.BPF_MAP_TYPE_HASH, keySize, 4, maxLanes, 0}},
		{&k.sources, mapAttr{unix.BPF_MAP_TYPE_SOCKMAP, 4, 4, maxLanes, 0}},
		{&k.targets, mapAttr{unix.BPF_MAP_TYPE_SOCKMAP, 4, 4, maxLanes, 0}},
	} {
		fd, err := createMap(m.attr)
		if err != nil {
			return fmt.Errorf("map: %w", err)
		}
		*m.fd = fd
	}
	var err error
	if k.program, err = loadProgram(unix.BPF_PROG_TYPE_SK_MSG, verdict(&k.maps)); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if err := attachProgram(k.sources, k.program, unix.BPF_SK_MSG_VERDICT); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	if k.memory, err = unix.Mmap(k.records, 0, maxLanes*recordSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	// Lanes look at the memory after Close too.
	runtime.AddCleanup(k, func(memory []byte) { _ = unix.Munmap(memory) }, k.memory)
	return nil
}

// Close takes all sockets out. No lane is used any more.
func (k *Kernel) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.closed = true
		k.release()
	}
}

func (k *Kernel) release() {
	for _, fd := range []int{k.sources, k.targets, k.lanes, k.records, k.program} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// put makes a lane known to the program, its source last.
func (k *Kernel) put(l *Lane, source, target int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closed:
		return unix.EBADF
	case k.touched[l.cookie]:
		delete(k.touched, l.cookie)
		return unix.EBUSY
	case k.known[l.key] != nil: // or its ports are those of a socket with another address
		return unix.EEXIST
	}
	if err := putElement(k.lanes, l.key, l.number); err != nil {
		return fmt.Errorf("lane: %w", err)
	}
	k.known[l.key] = l
	if err := putElement(k.targets, l.number, uint32(target)); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if err := putElement(k.sources, l.number, uint32(source)); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	return nil
}

// left takes a lane's source out; it is out already where it has been closed.
func (k *Kernel) left(l *Lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		_ = dropElement(k.sources, l.number)
		k.old = append(k.old, l)
	}
}

// Plain gives a program's socket back to plain TCP. It is to be called before a call of the program takes effect that a
// source does not answer as plain TCP does: FIONREAD, which finds no bytes there, and what makes the socket
// blocking, or gives it an upper layer or zero copy.
func (k *Kernel) Plain(socket int) {
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return
	}
	k.mu.Lock()
	if len(k.touched) >= maxTouched {
		clear(k.touched)
	}
	k.touched[cookie] = true
	at, err := keyOf(socket)
	l := k.known[at]
	k.mu.Unlock()
	if err == nil && l != nil && l.cookie == cookie {
		l.Leave()
	}
}

// maxTouched bounds what Plain remembers.
const maxTouched = 1 << 14

// keyOf returns how the program finds a socket.
func keyOf(fd int) (k key, err error) {
	if k.netns, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
		return k, err
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return k, err
	}
	remote, err := unix.Getpeername(fd)
	if err != nil {
		return k, err
	}
	l, r := portOf(local), portOf(remote)
	if l == 0 || r == 0 {
		return k, unix.EAFNOSUPPORT
	}
	k.local = uint32(l)
	k.remote = uint32(bits.ReverseBytes16(r)) << 16
	return k, nil
}

func portOf(a unix.Sockaddr) uint16 {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port)
	case *unix.SockaddrInet6:
		return uint16(a.Port)
	}
	return 0
}

// take returns a lane's number, its record empty and its gate shut.
func (k *Kernel) take() (uint32, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.free) == 0 && len(k.old) >= maxLanes/4 {
		if err := gracePeriod(); err != nil {
			return 0, err
		}
		for _, l := range k.old {
			// The socket may have been closed, which took it out.
			_ = dropElement(k.targets, l.number)
			if k.known[l.key] == l {
				_ = dropElement(k.lanes, l.key)
				delete(k.known, l.key)
			}
			l.last, l.reused = int64(k.at(l.number, offCarried).Load()), true
			k.free = append(k.free, l.number)
		}
		k.old = nil
	}
	if k.closed || len(k.free) == 0 {
		return 0, unix.ENOSPC
	}
	n := k.free[len(k.free)-1]
	k.free = k.free[:len(k.free)-1]
	for _, off := range []int{offGate, offBudget, offCarried} {
		k.at(n, off).Store(0)
	}
	return n, nil
}

func (k *Kernel) at(lane uint32, off int) *atomic.Uint64 {
	return word(k.memory, int(lane)*recordSize+off)
}

// membarrierGlobal waits for a grace period of the kernel, from linux/membarrier.h.
const membarrierGlobal = 1

// gracePeriod returns once every run of the program that began before is over.
func gracePeriod() error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
