//go:build linux

package intercepttest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/intercept"
	"github.com/squallhq/squall/internal/sys"
)

// runTarget is the other side of the cases: what runs under supervision. Targets print what they saw, by the
// names of errnos, and leave the judging to the case.
func runTarget(name string, args []string, b intercept.Backend) {
	runtime.LockOSThread()
	run, ok := targets(b)[name]
	if !ok {
		fmt.Println("no target", name)
		os.Exit(3)
	}
	run(args)
}

func targets(b intercept.Backend) map[string]func([]string) {
	return map[string]func([]string){
		"mkdir": func(args []string) { fmt.Println(mkdir(args[0])) },
		"eintr": func(args []string) {
			check(sys.PrepareNudge())
			fmt.Println(mkdir(args[0]))
		},
		"ppid":     func(args []string) { ppids(number(args[0])) },
		"parallel": func(args []string) { parallel(args[0]) },
		"pair":     pair,
		"writers":  func(args []string) { writers(args[0], number(args[1]), number(args[2])) },
		"read": func([]string) {
			buf := make([]byte, 64)
			n, err := unix.Read(0, buf)
			check(err)
			fmt.Printf("%s\n", buf[:n])
		},
		"edge": func(args []string) { edge(args[0]) },
		"over": func([]string) { over() },
		"lowest": func([]string) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			check(err)
			fmt.Println(content(fd))
		},
		"kinds":  func(args []string) { kinds(args[0]) },
		"status": statusLines,
		"link": func(args []string) {
			to, err := os.Readlink(args[0])
			check(err)
			fmt.Println(to)
		},
		"uring": func([]string) {
			_, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 0, 0, 0)
			fmt.Println(errname(e))
		},
		"pause":      func([]string) { unix.Pause() },
		"supervisor": func([]string) { supervisor(b) },
	}
}

func check(err error) {
	if err != nil {
		fmt.Println("target:", err)
		os.Exit(2)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

func errname(e unix.Errno) string {
	if e == 0 {
		return "ok"
	}
	return unix.ErrnoName(e)
}

func mkdir(path string) string {
	p, err := unix.BytePtrFromString(path)
	check(err)
	at := unix.AT_FDCWD
	_, _, e := unix.Syscall(unix.SYS_MKDIRAT, uintptr(at), uintptr(unsafe.Pointer(p)), 0o755)
	return errname(e)
}

// ppids adds up what so many getppid calls return. Each carries its number as an argument, which that call
// ignores: so the other side knows a call that comes again.
func ppids(n int) {
	var sum uint64
	for i := range n {
		v, _, _ := unix.RawSyscall(unix.SYS_GETPPID, uintptr(i), 0, 0)
		sum += uint64(v)
	}
	fmt.Println(sum)
}

// parallel makes one call on one thread while another thread answers a byte from outside.
func parallel(path string) {
	result := make(chan string)
	go func() {
		runtime.LockOSThread()
		result <- mkdir(path)
	}()
	_, err := os.Stdin.Read(make([]byte, 1))
	check(err)
	fmt.Println("alive")
	fmt.Println(<-result)
}

// pair makes two calls at once.
func pair(paths []string) {
	results := make([]string, len(paths))
	var wg sync.WaitGroup
	for i, p := range paths {
		wg.Go(func() {
			runtime.LockOSThread()
			results[i] = mkdir(p)
		})
	}
	wg.Wait()
	fmt.Println(strings.Join(results, " "))
}

// writers lets many goroutines write while every thread of the process is showered with the signal by which Go
// preempts, and the collector runs.
func writers(path string, routines, each int) {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	check(err)
	var done atomic.Bool
	showered := make(chan struct{})
	go func() {
		defer close(showered)
		for !done.Load() {
			tasks, err := os.ReadDir("/proc/self/task")
			check(err)
			for _, task := range tasks {
				unix.Tgkill(os.Getpid(), number(task.Name()), unix.SIGURG)
			}
			runtime.GC()
		}
	}()
	var failed atomic.Int64
	var wg sync.WaitGroup
	for r := range routines {
		wg.Go(func() {
			for i := range each {
				at := r*each + i
				n, err := unix.Pwrite(fd, fmt.Appendf(nil, "%08d", at), int64(8*at))
				if n != 8 || err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	done.Store(true)
	<-showered
	fmt.Println("failed", failed.Load())
}

// edge gives a path whose last byte is the last one that can be read.
func edge(path string) {
	size := unix.Getpagesize()
	m, err := unix.Mmap(-1, 0, 3*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(err)
	check(unix.Mprotect(m[2*size:], unix.PROT_NONE))
	start := 2*size - len(path) - 1
	copy(m[start:], path)
	at := unix.AT_FDCWD
	_, _, e := unix.Syscall(unix.SYS_MKDIRAT, uintptr(at), uintptr(unsafe.Pointer(&m[start])), 0o755)
	fmt.Println(errname(e))
	check(unix.Mprotect(m[size:], unix.PROT_NONE))
	_, _, e = unix.Syscall(unix.SYS_MKDIRAT, uintptr(at), uintptr(unsafe.Pointer(&m[size])), 0o755)
	fmt.Println(errname(e))
}

// over connects a descriptor, then reads what is there in its place.
func over() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	check(err)
	v, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), 0, 0)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	check(err)
	fmt.Println(errname(e), v, flags, content(fd))
}

func content(fd int) string {
	b, err := io.ReadAll(os.NewFile(uintptr(fd), "given"))
	check(err)
	return strings.TrimSpace(string(b))
}

// kinds forces a descriptor of each kind to disk.
func kinds(path string) {
	file, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR, 0o644)
	check(err)
	dir, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	check(err)
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	check(err)
	null, err := unix.Open(os.DevNull, unix.O_RDWR, 0)
	check(err)
	gone, err := unix.Open(path+".gone", unix.O_CREAT|unix.O_RDWR, 0o644)
	check(err)
	check(unix.Unlink(path + ".gone"))
	for _, fd := range []int{file, dir, socket, 1, null, gone, socket, 999} {
		unix.Fsync(fd)
	}
}

func statusLines(names []string) {
	b, err := os.ReadFile("/proc/thread-self/status")
	check(err)
	for line := range strings.Lines(string(b)) {
		for _, n := range names {
			if v, ok := strings.CutPrefix(line, n+":"); ok {
				fmt.Println(n, strings.TrimSpace(v))
			}
		}
	}
}

// supervisor starts a program that would live for ever and is then killed itself.
func supervisor(b intercept.Backend) {
	p := target("pause")
	p.Stdin, p.Stdout, p.Stderr, p.NetNS = -1, -1, -1, -1
	s, err := b.Start(context.Background(), p, intercept.Subscription{Calls: []string{"mkdirat"}})
	check(err)
	fmt.Println(s.Pid())
	unix.Pause()
}
