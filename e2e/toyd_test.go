package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// toyd is the program under test: a server that does what it is told, so that a scenario chooses
// what a fault gets to see. It listens on each port of its arguments and answers each line by one:
// "ok ..." or "err ERRNO". A path instead of a port is a Unix socket.
func toyd(args []string) int {
	d := &toy{conns: map[string]net.Conn{}}
	if text := os.Getenv("TOY_SAY"); text != "" {
		fmt.Println(text)
	}
	if code := os.Getenv("TOY_EXIT"); code != "" {
		n, _ := strconv.Atoi(code)
		return n
	}
	var wg sync.WaitGroup
	for _, port := range args {
		if port, ok := strings.CutSuffix(port, "/udp"); ok {
			wg.Go(func() { reflect(port) })
			continue
		}
		if port, ok := strings.CutSuffix(port, "/http"); ok {
			wg.Go(func() { fmt.Fprintln(os.Stderr, serveHTTP(port)) })
			continue
		}
		port, silent := strings.CutSuffix(port, "/silent")
		port, echo := strings.CutSuffix(port, "/echo")
		network, address := "tcp", ":"+port
		if strings.HasPrefix(port, "/") {
			network, address = "unix", port
			_ = os.Remove(port) // of a run before this one
		}
		l, err := net.Listen(network, address)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		handle := d.lines
		if silent {
			handle = func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
		}
		if echo {
			handle = func(c net.Conn) { _, _ = io.Copy(c, c) }
		}
		wg.Go(func() { d.accept(l, handle) })
	}
	wg.Wait()
	return 0
}

type toy struct {
	mu    sync.Mutex
	conns map[string]net.Conn
	browser
	// memory is a file that map has mapped.
	memory []byte
	// number is what get and set are about.
	number atomic.Int64
}

func (d *toy) accept(l net.Listener, handle func(net.Conn)) {
	for {
		c, err := l.Accept()
		if errors.Is(err, syscall.EMFILE) {
			continue // there will be descriptors again
		}
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			handle(c)
		}()
	}
}

func (d *toy) lines(c net.Conn) {
	in := bufio.NewScanner(c)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		fmt.Fprintln(c, d.do(strings.Fields(in.Text())))
	}
}

func (d *toy) do(f []string) string {
	commands := map[string]func([]string) (string, error){
		"ping":   func([]string) (string, error) { return "pong", nil },
		"print":  func(a []string) (string, error) { fmt.Println(strings.Join(a, " ")); return "", nil },
		"rename": func(a []string) (string, error) { return "", os.Rename(a[0], a[1]) },
		"sys":    rawCall, "move": move, "tell": d.tell, "alarmed": alarmed,
		"write": write, "copy": copyRange, "sendfile": sendFile, "splice": splice, "read": read, "fsync": fsync, "uring": uring, "aio": aio,
		"sleep": func(a []string) (string, error) {
			ms, err := strconv.Atoi(a[0])
			time.Sleep(time.Duration(ms) * time.Millisecond)
			return "", err
		},
		"get": func([]string) (string, error) { return strconv.FormatInt(d.number.Load(), 10), nil },
		"set": func(a []string) (string, error) {
			n, err := strconv.ParseInt(a[0], 10, 64)
			d.number.Store(n)
			return "", err
		},
		"exit":   func(a []string) (string, error) { n, _ := strconv.Atoi(a[0]); os.Exit(n); return "", nil },
		"flood":  flood,
		"open":   d.open,
		"say":    d.say,
		"both":   d.both,
		"volley": volley,
		"sh":     commandLine,
		"chance": takeChance,
		"map":    d.mapFile,
		"sync":   d.syncMap,
		"fetch":  d.fetch,
		"listener": func([]string) (string, error) {
			var allow [8]byte // one instruction: return ALLOW
			allow[0], allow[6], allow[7] = 6, 0xff, 0x7f
			return "", listen(allow)
		},
		"env":  func(a []string) (string, error) { return os.Getenv(a[0]), nil },
		"rtt":  func(a []string) (string, error) { n, err := roundTrips(a[0], a[1]); return n, err },
		"inq":  func(a []string) (string, error) { return waiting(a[0], a[1]) },
		"rest": func(a []string) (string, error) { return interrupted(a[0], a[1]) },
		"rtts": func(a []string) (string, error) { return pairedTrips(a[0], a[1], a[2]) },
		"blob": func(a []string) (string, error) { n, err := strconv.Atoi(a[0]); return strings.Repeat("x", n), err },
		"names": func([]string) (string, error) {
			h, err := os.ReadFile("/etc/hosts")
			return strings.Join(strings.Fields(string(h)), " "), err
		},
	}
	if len(f) > 0 && f[0] == "each" {
		return d.each(f[1:])
	}
	if len(f) == 0 || commands[f[0]] == nil {
		return "err unknown"
	}
	out, err := commands[f[0]](f[1:])
	if err != nil {
		return "err " + reason(err)
	}
	return strings.TrimSpace("ok " + out)
}

func write(a []string) (string, error) {
	f, err := os.OpenFile(a[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.WriteString(strings.Join(a[1:], " ") + "\n")
	return "", err
}

// flood N prints so many lines on a copy of standard output, without end for 0. It answers once they are
// printed or, for 0, once some are.
func flood(a []string) (string, error) {
	n, err := strconv.Atoi(a[0])
	if err != nil {
		return "", err
	}
	fd, err := syscall.Dup(1)
	if err != nil {
		return "", err
	}
	block := []byte(strings.Repeat("flood\n", 1000))
	for range n / 1000 {
		if _, err := syscall.Write(fd, block); err != nil {
			return "", err
		}
	}
	if n == 0 {
		go func() {
			for {
				_, _ = syscall.Write(fd, block)
			}
		}()
		_, err = syscall.Write(fd, block)
	}
	return "", err
}

// into opens the file to write to and one with something in it.
func into(path string, then func(in, out *os.File) error) (string, error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer out.Close()
	in, err := os.Create(path + ".in")
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := in.Truncate(4096); err != nil {
		return "", err
	}
	return "", then(in, out)
}

// copyRange, sendFile and splice write to a file by other calls than write.
func copyRange(a []string) (string, error) {
	return into(a[0], func(in, out *os.File) error {
		_, err := unix.CopyFileRange(int(in.Fd()), nil, int(out.Fd()), nil, 100, 0)
		return err
	})
}

func sendFile(a []string) (string, error) {
	return into(a[0], func(in, out *os.File) error {
		_, err := unix.Sendfile(int(out.Fd()), int(in.Fd()), nil, 100)
		return err
	})
}

func splice(a []string) (string, error) {
	return into(a[0], func(in, out *os.File) error {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		defer w.Close()
		if _, err := unix.Splice(int(in.Fd()), nil, int(w.Fd()), nil, 100, 0); err != nil {
			return err
		}
		_, err = unix.Splice(int(r.Fd()), nil, int(out.Fd()), nil, 100, 0)
		return err
	})
}

func read(a []string) (string, error) {
	b, err := os.ReadFile(a[0])
	return strings.TrimSpace(string(b)), err
}

func fsync(a []string) (string, error) {
	f, err := os.Open(a[0])
	if err != nil {
		return "", err
	}
	defer f.Close()
	return "", f.Sync()
}

// uring asks for io_uring, by which a program gets past every call that a rule sees.
func uring([]string) (string, error) {
	var params [120]byte
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(bytesAt(params[:])), 0)
	if errno != 0 {
		return "", errno
	}
	unix.Close(int(fd))
	return "", nil
}

// aio asks for the elder way past a rule on files.
func aio([]string) (string, error) {
	var context [8]byte
	_, _, errno := syscall.Syscall(unix.SYS_IO_SETUP, 4, uintptr(bytesAt(context[:])), 0)
	if errno != 0 {
		return "", errno
	}
	return "", nil
}

// open NAME HOST:PORT makes a connection that later lines use.
// each carries out commands with ";" between them, and answers as the last one does.
func (d *toy) each(f []string) string {
	for {
		i := slices.Index(f, ";")
		if i < 0 {
			return d.do(f)
		}
		d.do(f[:i])
		f = f[i+1:]
	}
}

func (d *toy) open(a []string) (string, error) {
	start := time.Now()
	network := "tcp"
	if strings.Contains(a[1], "/") {
		network = "unix"
	}
	c, err := net.DialTimeout(network, a[1], 5*time.Second)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[a[0]] = c
	return fmt.Sprintf("after %d ms", time.Since(start).Milliseconds()), nil
}

// say NAME MS LINE sends a line on a connection and waits so long for the answer.
func (d *toy) say(a []string) (string, error) {
	d.mu.Lock()
	c := d.conns[a[0]]
	d.mu.Unlock()
	if c == nil {
		return "", errors.New("no connection")
	}
	ms, err := strconv.Atoi(a[1])
	if err != nil {
		return "", err
	}
	start := time.Now()
	c.SetDeadline(start.Add(time.Duration(ms) * time.Millisecond))
	if _, err := fmt.Fprintln(c, strings.Join(a[2:], " ")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes after %d ms", len(line), time.Since(start).Milliseconds()), nil
}

// both NAME COUNT lets the other end print "cause N" and, once it has said so, prints "effect N".
func (d *toy) both(a []string) (string, error) {
	n, err := strconv.Atoi(a[1])
	if err != nil {
		return "", err
	}
	for i := range n {
		if _, err := d.say([]string{a[0], "2000", "print", "cause", strconv.Itoa(i)}); err != nil {
			return "", err
		}
		fmt.Println("effect", i)
	}
	return "", nil
}

// reflect sends each datagram back.
func reflect(port string) {
	c, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	buf := make([]byte, 2048)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(buf[:n], from)
	}
}

// volley HOST:PORT COUNT sends numbered datagrams and returns how many came back, how many of them
// were copies, and how many came after a later one.
func volley(a []string) (string, error) {
	n, err := strconv.Atoi(a[1])
	if err != nil {
		return "", err
	}
	c, err := net.Dial("udp", a[0])
	if err != nil {
		return "", err
	}
	defer c.Close()
	for i := range n {
		if _, err := fmt.Fprint(c, i); err != nil {
			return "", err
		}
		time.Sleep(2 * time.Millisecond)
	}
	seen, came, copies, late, last := map[string]bool{}, 0, 0, 0, -1
	buf := make([]byte, 2048)
	for {
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		got, err := c.Read(buf)
		if err != nil {
			return fmt.Sprintf("%d %d %d", came, copies, late), nil
		}
		text := string(buf[:got])
		came++
		if seen[text] {
			copies++
		}
		seen[text] = true
		if i, _ := strconv.Atoi(text); i < last {
			late++
		} else {
			last = i
		}
	}
}

// commandLine runs a command line and returns what it printed, on one line.
func commandLine(a []string) (string, error) {
	out, err := exec.Command("/bin/sh", "-c", strings.Join(a, " ")).CombinedOutput()
	text := strings.Join(strings.Fields(string(out)), " ")
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return text, nil
}

// mapFile PATH TEXT maps a file, shared and writable, and changes it there.
func (d *toy) mapFile(a []string) (string, error) {
	f, err := os.OpenFile(a[0], os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		return "", err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return "", err
	}
	copy(m, a[1])
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory = m
	return "", nil
}

// syncMap TEXT changes the mapped file once more and forces it to disk.
func (d *toy) syncMap(a []string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.memory, a[0])
	return "", unix.Msync(d.memory, unix.MS_SYNC)
}

// reason names an error by its errno, so that scenarios can compare it.
func reason(err error) string {
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "TIMEOUT"
	}
	return err.Error()
}

// roundTrips HOST:PORT COUNT measures round trips of 64 bytes on one connection and returns their
// median in nanoseconds.
func roundTrips(address, count string) (string, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return "", err
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var times []time.Duration
	buf := make([]byte, 64)
	for range n {
		start := time.Now()
		if _, err := c.Write(buf); err != nil {
			return "", err
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return "", err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return strconv.FormatInt(int64(times[len(times)/2]), 10), nil
}

// talk makes a connection and so many round trips on it.
func talk(address, count string) (*net.TCPConn, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 64)
	for range n {
		_, err := c.Write(buf)
		if err == nil {
			_, err = io.ReadFull(c, buf)
		}
		if err != nil {
			c.Close()
			return nil, err
		}
	}
	return c.(*net.TCPConn), nil
}

// waiting talks, and answers how many bytes FIONREAD finds once one more answer of 64 is there.
func waiting(address, count string) (string, error) {
	c, err := talk(address, count)
	if err != nil {
		return "", err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return "", err
	}
	if _, err := c.Write(make([]byte, 64)); err != nil {
		return "", err
	}
	n := 0
	if e := raw.Control(func(fd uintptr) {
		if _, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
	}); e != nil {
		return "", e
	}
	return strconv.Itoa(n), err
}

// interrupted talks, makes the socket blocking, and reads from it while signals come. It answers how much it read.
func interrupted(address, count string) (string, error) {
	c, err := talk(address, count)
	if err != nil {
		return "", err
	}
	defer c.Close()
	f, err := c.File()
	if err != nil {
		return "", err
	}
	defer f.Close()
	fd := int(f.Fd()) // which makes it blocking
	if err := unix.SetNonblock(fd, false); err != nil {
		return "", err
	}
	type read struct {
		n   int
		err error
	}
	thread, done := make(chan int), make(chan read)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		n, err := unix.Read(fd, make([]byte, 64))
		done <- read{n, err}
	}()
	tid := <-thread
	for range 50 {
		time.Sleep(time.Millisecond)
		_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // the Go runtime's own, which it restarts after
	}
	if _, err := unix.Write(fd, make([]byte, 64)); err != nil {
		return "", err
	}
	r := <-done
	return strconv.Itoa(r.n), r.err
}
