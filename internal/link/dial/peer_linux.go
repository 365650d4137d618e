package dial

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/link"
)

// relayed is one of the relay's ends, in a namespace where the program at its other end is too.
type relayed struct {
	*net.TCPConn
	space *space

	mu sync.Mutex
	// found is where the other end was found before.
	found place
}

// place is a descriptor of a process.
type place struct{ pid, fd int }

var _ link.Peered = (*relayed)(nil)

// Peer returns a duplicate of the program's socket.
func (r *relayed) Peer() (int, error) {
	local, okL := r.RemoteAddr().(*net.TCPAddr)
	remote, okR := r.LocalAddr().(*net.TCPAddr)
	if !okL || !okR {
		return -1, fmt.Errorf("dial: peer: %w", unix.EAFNOSUPPORT)
	}
	inode, cookie, err := r.space.socketOf(local.AddrPort(), remote.AddrPort())
	if err != nil {
		return -1, fmt.Errorf("dial: peer: %w", err)
	}
	name := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found.pid == 0 || !r.found.is(name) {
		if r.found = findSocket(name); r.found.pid == 0 {
			return -1, fmt.Errorf("dial: peer: %s: %w", name, unix.ENOENT)
		}
	}
	fd, err := r.found.duplicate()
	if err != nil {
		return -1, fmt.Errorf("dial: peer: %w", err)
	}
	if cookieOf(fd) != cookie {
		closeAll(fd)
		return -1, fmt.Errorf("dial: peer: %w", unix.ESTALE)
	}
	return fd, nil
}

func (p place) is(name string) bool {
	got, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, p.fd))
	return err == nil && got == name
}

func (p place) duplicate() (int, error) {
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return -1, err
	}
	defer closeAll(pidfd)
	return unix.PidfdGetfd(pidfd, p.fd, 0)
}

// findSocket looks for a socket among the descriptors of all processes.
func findSocket(name string) place {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return place{}
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if fd, ok := findIn(pid, name); ok {
			return place{pid, fd}
		}
	}
	return place{}
}

func findIn(pid int, name string) (int, bool) {
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/fd", pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer closeAll(dir)
	buf, target := make([]byte, 8192), make([]byte, len(name)+1)
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil || n <= 0 {
			return 0, false
		}
		_, _, entries := unix.ParseDirent(buf[:n], -1, nil)
		for _, e := range entries {
			if n, err := unix.Readlinkat(dir, e, target); err == nil && string(target[:n]) == name {
				fd, err := strconv.Atoi(e)
				return fd, err == nil
			}
		}
	}
}

// The layout of a request for one socket and of its answer, from linux/inet_diag.h: a header, and then the
// socket's identity after four bytes, or eight in the request.
const (
	diagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	diagRequest   = unix.SizeofNlMsghdr + 56
	diagIdentity  = 4
	diagCookie    = diagIdentity + 40
	diagInode     = diagIdentity + 48 + 16
	diagAnswerMin = unix.SizeofNlMsghdr + diagInode + 4
)

// socketOf asks the kernel for the namespace's TCP socket between two addresses.
func (sp *space) socketOf(local, remote netip.AddrPort) (inode uint32, cookie uint64, err error) {
	fd, err := sp.ns.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll(fd)
	if err := unix.Sendto(fd, diagQuestion(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, 0, err
	}
	var buf [4096]byte
	n, _, err := unix.Recvfrom(fd, buf[:], 0)
	if err != nil {
		return 0, 0, err
	}
	if n < diagAnswerMin || binary.NativeEndian.Uint16(buf[4:]) != diagByFamily {
		return 0, 0, unix.ENOENT
	}
	body := buf[unix.SizeofNlMsghdr:]
	low, high := binary.NativeEndian.Uint32(body[diagCookie:]), binary.NativeEndian.Uint32(body[diagCookie+4:])
	inode = binary.NativeEndian.Uint32(body[diagInode:])
	if inode == 0 { // nobody has accepted it yet
		return 0, 0, unix.ENOENT
	}
	return inode, uint64(high)<<32 | uint64(low), nil
}

func diagQuestion(local, remote netip.AddrPort) []byte {
	q := make([]byte, diagRequest)
	binary.NativeEndian.PutUint32(q, diagRequest)
	binary.NativeEndian.PutUint16(q[4:], diagByFamily)
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST)
	body := q[unix.SizeofNlMsghdr:]
	from, to := local.Addr().Unmap(), remote.Addr().Unmap()
	body[0], body[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if from.Is4() {
		body[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(body[4:], ^uint32(0)) // in all states
	id := body[8:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:20], from.AsSlice())
	copy(id[20:36], to.AsSlice())
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // whatever its cookie
	return q
}
