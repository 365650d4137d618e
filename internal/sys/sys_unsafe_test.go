//go:build linux

package sys

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestLayouts holds the structures to the kernel's sizes, which are part of the ioctl numbers.
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  uintptr
		ioctl uintptr
	}{
		{"notif", unsafe.Sizeof(Notif{}), unix.SECCOMP_IOCTL_NOTIF_RECV},
		{"response", unsafe.Sizeof(NotifResp{}), unix.SECCOMP_IOCTL_NOTIF_SEND},
		{"addfd", unsafe.Sizeof(addFD{}), ioctlAddFD},
		{"id", 8, ioctlIDValid},
		{"flags", 8, ioctlSetFlags},
	} {
		if in := c.ioctl >> 16 & 0x3fff; in != c.size {
			t.Errorf("%s: %d bytes, the ioctl says %d", c.name, c.size, in)
		}
	}
}

// TestStdio gives every arrangement of sources, with 0, 1 and 2 among them.
func TestStdio(t *testing.T) {
	var saved [3]int
	for i := range saved {
		fd, err := unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, 10)
		if err != nil {
			t.Fatal(err)
		}
		saved[i] = fd
		defer func() { unix.Dup3(fd, i, 0); unix.Close(fd) }()
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := t.TempDir()
	names := map[int]string{}
	for i := range 3 {
		path := dir + "/" + string(rune('a'+i))
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		unix.Dup3(fd, i, 0)
		unix.Close(fd)
		names[i] = path
	}
	names[-1] = os.DevNull
	script := "x=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2); echo $x >" + dir + "/out"
	for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {0, 0, 0}, {1, 1, -1}, {-1, -1, -1}} {
		c, err := Spawn{Path: "/bin/sh", Args: []string{"sh", "-c", script},
			Env: os.Environ(), Stdio: order, NetNS: -1}.Start(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Wait4(c.Pid, nil, 0, nil); err != nil {
			t.Error(err)
		}
		c.Close()
		out, err := os.ReadFile(dir + "/out")
		if err != nil {
			t.Fatal(err)
		}
		want := names[order[0]] + " " + names[order[1]] + " " + names[order[2]]
		if got := strings.Join(strings.Fields(string(out)), " "); got != want {
			t.Errorf("%v: got %s, want %s", order, got, want)
		}
	}
	w.Close()
	if b, err := io.ReadAll(r); len(b) != 0 || err != nil {
		t.Errorf("a pipe that no child has: %q, %v", b, err)
	}
}

func TestVM(t *testing.T) {
	const size = 100_000
	m, err := unix.Mmap(-1, 0, size+4096-size%4096+4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	readable := len(m) - 4096
	for i := range m {
		m[i] = byte(i * 7)
	}
	if err := unix.Mprotect(m[readable:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	base := uint64(uintptr(unsafe.Pointer(&m[0])))
	for _, start := range []int{0, 1, 4095, 4096, 5000} {
		p := make([]byte, len(m)-start)
		n, err := ReadVM(os.Getpid(), base+uint64(start), p)
		if err != nil || n != readable-start || !bytes.Equal(p[:n], m[start:readable]) {
			t.Errorf("from %d: %d bytes, %v, want %d", start, n, err, readable-start)
		}
	}
	if n, err := ReadVM(os.Getpid(), base+uint64(readable), make([]byte, 10)); n != 0 || !errors.Is(err, unix.EFAULT) {
		t.Errorf("unreadable: %d, %v", n, err)
	}
	if n, err := WriteVM(os.Getpid(), base+4090, []byte("across pages")); n != 12 || err != nil || string(m[4090:4102]) != "across pages" {
		t.Errorf("writing: %d, %v", n, err)
	}
	if _, err := ReadVM(1<<22+1, base, make([]byte, 1)); !errors.Is(err, unix.ESRCH) {
		t.Errorf("no such task: %v", err)
	}
}

func TestSameFile(t *testing.T) {
	a, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dup, err := unix.FcntlInt(a.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dup)
	me := os.Getpid()
	if same, err := SameFile(me, int(a.Fd()), me, dup); !same || err != nil {
		t.Errorf("a duplicate: %v, %v", same, err)
	}
	if same, err := SameFile(me, int(a.Fd()), me, int(b.Fd())); same || err != nil {
		t.Errorf("opened twice: %v, %v", same, err)
	}
}

func BenchmarkSpawnTrue(b *testing.B) {
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	for b.Loop() {
		c, err := Spawn{Path: "/bin/true", Args: []string{"true"}, Stdio: [3]int{-1, -1, -1}, NetNS: -1, Filter: allow}.Start(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		unix.Wait4(c.Pid, nil, 0, nil)
		c.Close()
	}
}

func BenchmarkForkExecTrue(b *testing.B) {
	for b.Loop() {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err != nil {
			b.Fatal(err)
		}
		p.Wait()
	}
}
