package join

import (
	"errors"
	"fmt"
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
}

// firstMajor and firstMinor are the first kernel on which this has been tested; some older ones have defects in
// redirecting.
const firstMajor, firstMinor = 6, 18

// New loads the program. Where that is not to be, its error is ErrForbidden or ErrUnsupported.
func New() (*Kernel, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	k := &Kernel{maps: maps{-1, -1, -1, -1}, program: -1}
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
		{&k.lanes, mapAttr{unix.BPF_MAP_TYPE_HASH, 8, 4, maxLanes, 0}},
		{&k.sources, mapAttr{unix.BPF_MAP_TYPE_SOCKMAP, 4, 4, maxLanes, 0}},
		{&k.targets, mapAttr{unix.BPF_MAP_TYPE_SOCKMAP, 4, 4, maxLanes, 0}},
	} {
		fd, err := createMap(m.attr)
		if err != nil {
			return fmt.Errorf("map: %w", err)
		}
		*m.fd = fd
	}
	p, err := findPlaces()
	if err != nil {
		return err
	}
	if k.program, err = loadProgram(unix.BPF_PROG_TYPE_SK_MSG, verdict(&k.maps, p), "Apache-2.0"); err != nil {
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
	if k.closed {
		return unix.EBADF
	}
	if err := putElement(k.lanes, l.cookie, l.number); err != nil {
		return fmt.Errorf("lane: %w", err)
	}
	if err := putElement(k.targets, uint64(l.number), uint32(target)); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if err := putElement(k.sources, uint64(l.number), uint32(source)); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	return nil
}

// left takes a lane's source out; it is out already where it has been closed.
func (k *Kernel) left(l *Lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		_ = dropElement(k.sources, uint64(l.number))
		k.old = append(k.old, l)
	}
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
			_ = dropElement(k.targets, uint64(l.number))
			_ = dropElement(k.lanes, l.cookie)
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

func (k *Kernel) at(lane uint32, off int) *atomic.Uint64 { return word(k.memory, int(lane)*recordSize+off) }

// membarrierGlobal waits for a grace period of the kernel, from linux/membarrier.h.
const membarrierGlobal = 1

// gracePeriod returns once every run of the program that began before is over.
func gracePeriod() error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

