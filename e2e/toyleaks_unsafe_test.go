package e2e

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// takeChance does so many times what one seed does not repeat: each kind is a source of chance that a level of determinism has a name for.
func takeChance(a []string) (string, error) {
	kind, times := a[0], 1
	if len(a) > 1 {
		n, err := strconv.Atoi(a[1])
		if err != nil {
			return "", err
		}
		times = n
	}
	do := chances()[kind]
	if do == nil {
		return "", errors.New("no such source")
	}
	for range times {
		if err := do(); err != nil {
			return "", err
		}
	}
	return "", nil
}

func chances() map[string]func() error {
	raw := func(nr, a, b, c uintptr) error {
		if _, _, e := syscall.RawSyscall(nr, a, b, c); e != 0 {
			return e
		}
		return nil
	}
	return map[string]func() error{
		// The library's would be answered by the vDSO.
		"rand": func() error { return raw(unix.SYS_GETRANDOM, uintptr(unsafe.Pointer(&[16]byte{})), 16, 0) },
		"vdso": func() error { _, err := unix.Getrandom(make([]byte, 16), 0); return err },
		// The guard that glibc draws for malloc.
		"guard": func() error {
			return raw(unix.SYS_GETRANDOM, uintptr(unsafe.Pointer(&[8]byte{})), 8, unix.GRND_NONBLOCK)
		},
		"urandom": func() error { f, err := os.Open("/dev/urandom"); _ = f.Close(); return err },
		"clock": func() error {
			var t unix.Timespec
			return raw(unix.SYS_CLOCK_GETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&t)), 0)
		},
		"cputime": func() error {
			var t unix.Timespec
			return raw(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0)
		},
		"dns":      func() error { return ask("192.0.2.1:53") },
		"datagram": func() error { return sendTo([4]byte{192, 0, 2, 1}, 8125) },
		"outside": func() error {
			c, err := net.Dial("tcp", "192.0.2.1:80")
			if err == nil {
				c.Close()
				return errors.New("connected to nowhere")
			}
			return nil
		},
		"child":   func() error { return exec.Command("/bin/true").Run() },
		"missing": func() error { _ = exec.Command("/no/such/program").Run(); return nil },
		"self":    func() error { return again("/proc/self/exe") },
	}
}

// again runs this program, which then ends at once.
func again(path string) error {
	c := exec.Command(path)
	c.Args[0] = "toyd"
	c.Env = append(os.Environ(), "TOY_EXIT=0", "TOY_SAY=")
	return c.Run()
}

// ask sends a name server a question that nobody answers.
func ask(server string) error {
	c, err := net.Dial("udp", server)
	if err != nil {
		return nil // the network is not there: it was asked for all the same
	}
	defer c.Close()
	_, _ = c.Write([]byte(strings.Repeat("\x00", 12)))
	return nil
}

// sendTo sends a datagram to somewhere on a socket that is not connected. Whether the kernel takes it does not matter.
func sendTo(to [4]byte, port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Addr: to, Port: port})
	return nil
}
