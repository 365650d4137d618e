package dial

import (
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
)

// tableLimit bounds the entries of sockets whose end nobody reports: direct ones and refused ones.
const tableLimit = 1 << 14

// entry is what a program must be told about a socket where the kernel knows otherwise.
type entry struct {
	flow link.Flow
	// asked is where the program wanted to, actual where the socket was really connected.
	asked, actual netip.AddrPort
	// local replaces the socket's own address where it is valid.
	local netip.AddrPort
	// unreachable is what EHOSTUNREACH stands for, where it is not 0.
	unreachable unix.Errno
	// kept entries are taken out by whoever put them in.
	kept bool
	// datagram sockets may be connected again at any time.
	datagram bool
}

// translate returns the error that the program is to see for one of the kernel.
func (e entry) translate(errno unix.Errno) unix.Errno {
	if errno == unix.EHOSTUNREACH && e.unreachable != 0 {
		return e.unreachable
	}
	return errno
}

// table holds entries by socket cookie.
type table struct {
	mu      sync.Mutex
	entries map[uint64]entry
	// loose are the cookies of entries that are not kept, oldest first.
	loose []uint64
}

func (t *table) get(cookie uint64) (entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[cookie]
	return e, ok
}

func (t *table) put(cookie uint64, e entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries == nil {
		t.entries = make(map[uint64]entry)
	}
	t.entries[cookie] = e
	if e.kept {
		return
	}
	t.loose = append(t.loose, cookie)
	if len(t.loose) <= tableLimit {
		return
	}
	for _, old := range t.loose[:tableLimit/4] {
		if e := t.entries[old]; !e.kept {
			delete(t.entries, old)
		}
	}
	t.loose = append([]uint64(nil), t.loose[tableLimit/4:]...)
}

// change applies f to an entry that exists.
func (t *table) change(cookie uint64, f func(*entry)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[cookie]; ok {
		f(&e)
		t.entries[cookie] = e
	}
}

func (t *table) drop(cookie uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, cookie)
}

// dropFlow takes an entry out if it is still that flow's: a socket may be connected again.
func (t *table) dropFlow(cookie uint64, f link.Flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[cookie]; ok && e.flow == f {
		delete(t.entries, cookie)
	}
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}
