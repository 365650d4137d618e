package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rawCall makes one system call, on a path that exists, and returns what came of it as it is: no library between
// repeats, completes or hides anything.
func rawCall(a []string) (string, error) {
	name, path := a[0], a[1]
	calls := rawCalls()
	if name == "names" {
		return strings.Join(rawNames(), " "), nil
	}
	if calls[name] == nil {
		return "", fmt.Errorf("no call %s", name)
	}
	return "", calls[name](path)
}

func rawNames() []string {
	var names []string
	for name := range rawCalls() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// rawCalls has one call of each family.
func rawCalls() map[string]func(path string) error {
	const cwd = unix.AT_FDCWD
	opened := func(flags int, do func(fd int) error) func(path string) error {
		return func(path string) error {
			fd, err := unix.Open(path, flags, 0o600)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return do(fd)
		}
	}
	socketed := func(do func(fd int) error) func(string) error {
		return func(string) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return do(fd)
		}
	}
	plain := func(do func() error) func(string) error { return func(string) error { return do() } }
	failed := func(_ int, err error) error { return err }
	fresh := func(path string) string { return path + "." + strconv.FormatInt(time.Now().UnixNano(), 36) }
	return map[string]func(path string) error{
		"open":     opened(unix.O_RDONLY, func(int) error { return nil }),
		"read":     opened(unix.O_RDONLY, func(fd int) error { return failed(unix.Read(fd, make([]byte, 4))) }),
		"write":    opened(unix.O_WRONLY|unix.O_APPEND, func(fd int) error { return failed(unix.Write(fd, []byte("x"))) }),
		"fsync":    opened(unix.O_RDONLY, unix.Fsync),
		"truncate": opened(unix.O_RDWR, func(fd int) error { return unix.Ftruncate(fd, 4) }),
		"rename":   func(p string) error { return unix.Renameat(cwd, p, cwd, p) },
		"unlink":   func(p string) error { return unix.Unlinkat(cwd, p, 0) },
		"mkdir":    func(p string) error { return unix.Mkdirat(cwd, fresh(p), 0o700) },
		"stat":     func(p string) error { return unix.Fstatat(cwd, p, &unix.Stat_t{}, 0) },
		"access":   func(p string) error { return unix.Faccessat(cwd, p, unix.R_OK, 0) },
		"readlink": func(p string) error {
			if _, err := unix.Readlinkat(cwd, p, make([]byte, 64)); err != unix.EINVAL { // it is none
				return err
			}
			return nil
		},
		"link":    func(p string) error { return unix.Linkat(cwd, p, cwd, fresh(p), 0) },
		"symlink": func(p string) error { return unix.Symlinkat(p, cwd, fresh(p)) },
		"chmod":   func(p string) error { return unix.Fchmodat(cwd, p, 0o600, 0) },
		"chown":   func(p string) error { return unix.Fchownat(cwd, p, -1, -1, 0) },
		"utime":   func(p string) error { return unix.UtimesNanoAt(cwd, p, make([]unix.Timespec, 2), 0) },
		"readdir": func(p string) error {
			return opened(unix.O_RDONLY, func(fd int) error { return failed(unix.Getdents(fd, make([]byte, 4096))) })(filepath.Dir(p))
		},
		"close": func(p string) error {
			fd, err := unix.Open(p, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		},
		"seek":       opened(unix.O_RDONLY, func(fd int) error { _, err := unix.Seek(fd, 0, 1); return err }),
		"lock":       opened(unix.O_RDONLY, func(fd int) error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) }),
		"fcntl":      opened(unix.O_RDONLY, func(fd int) error { return failed(unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)) }),
		"ioctl":      opened(unix.O_RDONLY, func(fd int) error { return failed(unix.IoctlGetInt(fd, unix.TIOCINQ)) }),
		"bind":       socketed(func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{}) }),
		"listen":     socketed(func(fd int) error { return unix.Listen(fd, 1) }),
		"setsockopt": socketed(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1) }),
		"socket":     socketed(func(int) error { return nil }),
		"shutdown": plain(func() error {
			return paired(func(a, _ int) error { return unix.Shutdown(a, unix.SHUT_WR) })
		}),
		"send": plain(func() error {
			return paired(func(a, _ int) error { return unix.Sendto(a, []byte("x"), 0, nil) })
		}),
		"recv": plain(func() error {
			return paired(func(a, b int) error {
				if _, err := unix.Write(b, []byte("x")); err != nil {
					return err
				}
				_, _, err := unix.Recvfrom(a, make([]byte, 4), 0)
				return err
			})
		}),
		"poll":   plain(func() error { return failed(unix.Ppoll(nil, &unix.Timespec{}, nil)) }),
		"sleep":  plain(func() error { return unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &unix.Timespec{Nsec: 1}, nil) }),
		"random": plain(func() error { return callErrno(unix.SYS_GETRANDOM, uintptr(bytesAt(make([]byte, 8))), 8, 0) }),
		"wait": plain(func() error {
			if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
				return err
			}
			return nil
		}),
		"kill": plain(func() error { return unix.Kill(os.Getpid(), 0) }),
		"descriptor": plain(func() error {
			fd, err := unix.Dup(0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}),
		"mmap": opened(unix.O_RDONLY, func(fd int) error {
			b, err := unix.Mmap(fd, 0, 1, unix.PROT_READ, unix.MAP_PRIVATE)
			if err == nil {
				err = unix.Munmap(b)
			}
			return err
		}),
	}
}

func callErrno(nr, a, b, c uintptr) error {
	if _, _, errno := syscall.Syscall(nr, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

func paired(do func(a, b int) error) error {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	return do(p[0], p[1])
}

// move CALL PATH TEXT... makes one call that moves bytes and says how many it moved and, for one that reads, which. What
// it reads has been put there before.
func move(a []string) (string, error) {
	text := []byte(strings.Join(a[2:], " "))
	buffer := make([]byte, len(text))
	first, second := text[:len(text)/2], text[len(text)/2:]
	halves := [][]byte{buffer[:len(text)/2], buffer[len(text)/2:]}
	var flags = unix.O_RDWR | unix.O_CREAT
	if a[0] == "append" {
		flags |= unix.O_APPEND
	}
	file := func(do func(fd int) (int, error)) (int, error) {
		fd, err := unix.Open(a[1], flags, 0o600)
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
		return do(fd)
	}
	pair := func(do func(out, in int) (int, error)) (n int, err error) {
		return n, paired(func(out, in int) error { n, err = do(out, in); return err })
	}
	pipe := func(do func(out, in int) (int, error)) (int, error) {
		var p [2]int
		if err := unix.Pipe(p[:]); err != nil {
			return 0, err
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
		return do(p[1], p[0])
	}
	// arrives reads what comes only once a reader waits for it.
	arrives := func(read func(in int) (int, error)) func(out, in int) (int, error) {
		return func(out, in int) (int, error) {
			go func() {
				time.Sleep(100 * time.Millisecond)
				_, _ = unix.Pwritev2(out, [][]byte{text}, -1, 0)
			}()
			return read(in)
		}
	}
	calls := map[string]func() (int, error){
		"write":  func() (int, error) { return file(func(fd int) (int, error) { return unix.Write(fd, text) }) },
		"append": func() (int, error) { return file(func(fd int) (int, error) { return unix.Write(fd, text) }) },
		"pwrite": func() (int, error) { return file(func(fd int) (int, error) { return unix.Pwrite(fd, text, 3) }) },
		"writev": func() (int, error) {
			return file(func(fd int) (int, error) { return unix.Writev(fd, [][]byte{first, second}) })
		},
		"pwritev": func() (int, error) {
			return file(func(fd int) (int, error) { return unix.Pwritev(fd, [][]byte{first, second}, 3) })
		},
		"read":   func() (int, error) { return file(func(fd int) (int, error) { return unix.Read(fd, buffer) }) },
		"pread":  func() (int, error) { return file(func(fd int) (int, error) { return unix.Pread(fd, buffer, 3) }) },
		"readv":  func() (int, error) { return file(func(fd int) (int, error) { return unix.Readv(fd, halves) }) },
		"preadv": func() (int, error) { return file(func(fd int) (int, error) { return unix.Preadv(fd, halves, 3) }) },
		"twice":  func() (int, error) { return file(func(fd int) (int, error) { return readTwice(fd, buffer) }) },
		"sendto": func() (int, error) { return pair(func(out, _ int) (int, error) { return sendto(out, text) }) },
		"sendmsg": func() (int, error) {
			return pair(func(out, _ int) (int, error) { return unix.SendmsgN(out, text, nil, nil, 0) })
		},
		"recvfrom": func() (int, error) {
			return pair(arrives(func(in int) (int, error) { n, _, err := unix.Recvfrom(in, buffer, 0); return n, err }))
		},
		"recvmsg": func() (int, error) {
			return pair(arrives(func(in int) (int, error) { n, _, _, _, err := unix.Recvmsg(in, buffer, nil, 0); return n, err }))
		},
		"pipe":     func() (int, error) { return pipe(func(out, _ int) (int, error) { return unix.Write(out, text) }) },
		"pipeline": func() (int, error) { return pipe(arrives(func(in int) (int, error) { return unix.Read(in, buffer) })) },
		"broken": func() (int, error) {
			return pair(func(out, in int) (int, error) {
				_ = unix.Shutdown(in, unix.SHUT_RD)
				return sendto(out, text)
			})
		},
	}
	if calls[a[0]] == nil {
		return "", fmt.Errorf("no call %s", a[0])
	}
	n, err := calls[a[0]]()
	return strings.TrimSpace(fmt.Sprintf("%d %s", n, strings.TrimRight(string(buffer), "\x00"))), err
}

func sendto(fd int, b []byte) (int, error) {
	n, _, errno := syscall.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(bytesAt(b)), uintptr(len(b)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// readTwice reads what the first read left.
func readTwice(fd int, b []byte) (int, error) {
	n, err := unix.Read(fd, b)
	if err != nil {
		return 0, err
	}
	m, err := unix.Read(fd, b[n:])
	return n + m, err
}

// tell NAME LINE sends a line on a connection and returns the answer.
func (d *toy) tell(a []string) (string, error) {
	d.mu.Lock()
	c := d.conns[a[0]]
	d.mu.Unlock()
	if _, err := fmt.Fprintln(c, strings.Join(a[1:], " ")); err != nil {
		return "", err
	}
	text, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(text), err
}

// alarmed PATH N writes so often to a file while a timer's signals interrupt the writing thread, and returns what the
// calls said they moved, and how long the file is.
func alarmed(a []string) (string, error) {
	n, err := strconv.Atoi(a[1])
	if err != nil {
		return "", err
	}
	fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, alarms := unix.Gettid(), make(chan os.Signal, 1)
	signal.Notify(alarms, unix.SIGUSR2)
	defer signal.Stop(alarms)
	done := make(chan struct{})
	var sent sync.WaitGroup
	sent.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Microsecond):
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGUSR2)
			}
		}
	})
	moved := 0
	for range n {
		m, err := unix.Write(fd, []byte("0123456789"))
		if err != nil {
			return "", err
		}
		moved += m
	}
	close(done)
	sent.Wait()
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return fmt.Sprintf("%d %d", moved, st.Size), err
}
