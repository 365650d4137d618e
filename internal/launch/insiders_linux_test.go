package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/vtime"
)

func insiders() map[string]insider {
	return map[string]insider{
		"echo":     echo,
		"nothing":  func(*Inside, []string) (any, error) { return nil, nil },
		"costs":    costs,
		"files":    files,
		"extras":   extras,
		"caps":     caps,
		"copy":     copyTrees,
		"full":     fill,
		"networks": networks,
		"lookups":  lookups,
		"dials":    dials,
		"bind80":   bind80,
		"statuses": statuses,
		"orphans":  orphans,
		"killall":  killAll,
		"stops":    stops,
		"linger":   linger,
	}
}

func echo(in *Inside, _ []string) (any, error) {
	control, err := io.ReadAll(in.Control)
	if err != nil {
		return nil, err
	}
	extra, err := io.ReadAll(in.Extra(0))
	return string(control) + " " + string(extra), err
}

// costs measures what a leaf pays.
func costs(in *Inside, _ []string) (any, error) {
	out := map[string]float64{}
	last := time.Now()
	took := func(what string) {
		out[what] = float64(time.Since(last).Microseconds()) / 1000
		last = time.Now()
	}
	if _, err := in.Setup(Config{}); err != nil {
		return nil, err
	}
	took("setup")
	for i := range 3 {
		n, err := in.NewNetwork(strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		took("network-" + n.Name())
		if i < 2 {
			continue
		}
		for range 100 {
			n.Listening(80)
		}
		took("listening-x100")
	}
	return out, nil
}

// shell runs a script as a program of the world.
func shell(r *Reaper, n *Network, script string) (string, Exit, error) {
	return run(r, n, "sh", "-c", script)
}

// files runs each script and returns what it printed and its exit code.
func files(in *Inside, scripts []string) (any, error) {
	l, err := in.Setup(Config{
		Hostname: "world7",
		Hosts:    []HostEntry{{"db", netip.MustParseAddr("127.77.0.1")}, {"api", netip.MustParseAddr("127.77.0.2")}},
		Dirs:     []string{"/squall-test-dir"},
	})
	if err != nil {
		return nil, err
	}
	if len(l.ReadOnly) > 0 {
		return nil, fmt.Errorf("not overlaid: %v", l.ReadOnly)
	}
	return answers(in, scripts)
}

// extras is a world with volumes of a directory, its first argument, and places for sockets.
func extras(in *Inside, args []string) (any, error) {
	dir := args[0]
	_, err := in.Setup(Config{
		Volumes: []Volume{
			{Source: dir + "/sub", Target: "/squall-test-v/deep/sub", ReadOnly: true},
			{Source: dir, Target: "/squall-test-v"},
			{Source: dir + "/one", Target: "/squall-test-file/one"},
			{Source: dir, Target: dir + "/link/v"},
		},
		Sockets: []string{"/run/squall-test.sock", "/var/run/squall-test/a.sock", dir + "/old.sock"},
	})
	if err != nil {
		return nil, err
	}
	return answers(in, args[1:])
}

// answers runs scripts in the world, in order.
func answers(in *Inside, scripts []string) (map[string]string, error) {
	n, err := in.NewNetwork("a")
	if err != nil {
		return nil, err
	}
	r := NewReaper()
	out := map[string]string{}
	for _, s := range scripts {
		text, e, err := shell(r, n, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		out[s] = fmt.Sprintf("%d %s", e.Code, text)
	}
	return out, nil
}

// caps returns the capability lines of a program of the world.
func caps(in *Inside, _ []string) (any, error) {
	text, _, err := shell(NewReaper(), nil, "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status")
	return text, err
}

func copyTrees(in *Inside, args []string) (any, error) {
	tree, changes := in.Extra(0), in.Extra(1)
	l, err := in.Setup(Config{})
	if err != nil {
		return nil, err
	}
	script := "mkdir /data/sub && echo one >/data/sub/a && ln -s a /data/sub/l && ln -s /etc /data/out && echo two >" + args[0] + "/written"
	if text, e, err := shell(NewReaper(), nil, script); err != nil || e.Code != 0 {
		return nil, fmt.Errorf("%s: %+v: %w", text, e, err)
	}
	n, err := l.CopyOut("/data", tree)
	if err != nil {
		return nil, err
	}
	m, err := l.CopyChanges(changes)
	return []int{n, m}, err
}

// fill writes until the world is full.
func fill(in *Inside, _ []string) (any, error) {
	l, err := in.Setup(Config{Size: "8m"})
	if err != nil {
		return nil, err
	}
	total, free, err := l.Space()
	if err != nil {
		return nil, err
	}
	writeErr := os.WriteFile("/data/big", make([]byte, 9<<20), 0o600)
	return map[string]any{"total": total, "free": free, "full": errors.Is(writeErr, unix.ENOSPC)}, nil
}

// networks binds one port in two networks and says who answers where.
func networks(in *Inside, _ []string) (any, error) {
	var answers []string
	for _, name := range []string{"a", "b"} {
		n, err := in.NewNetwork(name)
		if err != nil {
			return nil, err
		}
		l, err := n.Listen("tcp", "[::]:8080")
		if err != nil {
			return nil, err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, name)
				_ = c.Close()
			}
		}()
		for _, addr := range []string{"127.0.0.1:8080", "[::1]:8080", "127.77.0.9:8080"} {
			c, err := n.Dial(context.Background(), "tcp", addr)
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(c)
			if err != nil {
				return nil, err
			}
			answers = append(answers, string(text))
			_ = c.Close()
		}
	}
	return strings.Join(answers, " "), nil
}

// lookups listens at each place and returns what Listening and Bound say, by diagnosis and by table.
func lookups(in *Inside, _ []string) (any, error) {
	out := map[string]string{}
	for _, place := range []string{"tcp4 127.0.0.1", "tcp4 0.0.0.0", "tcp6 ::1", "tcp6 ::", "tcp ::", "tcp4 127.0.0.5", "udp4 127.0.0.1", "udp4 0.0.0.0", "udp6 ::1", "udp ::"} {
		n, err := in.NewNetwork(place)
		if err != nil {
			return nil, err
		}
		network, host, _ := strings.Cut(place, " ")
		addr := netip.AddrPortFrom(netip.MustParseAddr(host), 7000).String()
		var c io.Closer
		ask := n.Listening
		proto := byte(unix.IPPROTO_TCP)
		if strings.HasPrefix(network, "udp") {
			ask, proto = n.Bound, unix.IPPROTO_UDP
			c, err = n.ListenPacket(network, addr)
		} else {
			c, err = n.Listen(network, addr)
		}
		if err != nil {
			return nil, err
		}
		v4, v6 := ask(7000)
		t4, t6, err := n.readTables(proto, 7000)
		if err != nil {
			return nil, err
		}
		o4, o6 := ask(7001)
		_ = c.Close()
		c4, c6 := ask(7000)
		out[place] = fmt.Sprintf("%v %v, table %v %v, other port %v, closed %v", v4, v6, t4, t6, o4 || o6, c4 || c6)
		if err := n.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func dials(in *Inside, _ []string) (any, error) {
	n, err := in.NewNetwork("a")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	_, err = n.Dial(context.Background(), "tcp", "127.0.0.1:9")
	out["refused"] = fmt.Sprint(errors.Is(err, unix.ECONNREFUSED))
	_, err = n.Dial(context.Background(), "tcp", "192.0.2.1:9")
	out["outside"] = fmt.Sprint(errors.Is(err, unix.ENETUNREACH))
	_, err = n.Dial(context.Background(), "unix", "/x")
	out["unix"] = fmt.Sprint(err != nil)
	_, err = n.Dial(context.Background(), "tcp", "localhost:9")
	out["name"] = fmt.Sprint(err != nil)
	out["held"], err = dialHeld(n)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// dialHeld dials a listener whose queue is full, so that the SYN is dropped, and gives up.
func dialHeld(n *Network) (string, error) {
	s, err := n.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	if err := unix.Bind(s, &unix.SockaddrInet4{Port: 7000, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", err
	}
	if err := unix.Listen(s, 0); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for range 10 {
		if _, err := n.Dial(ctx, "tcp", "127.0.0.1:7000"); err != nil {
			return fmt.Sprint(errors.Is(err, context.DeadlineExceeded)), nil
		}
	}
	return "never full", nil
}

// bind80 binds a privileged port in a program without capabilities.
func bind80(in *Inside, _ []string) (any, error) {
	n, err := in.NewNetwork("a")
	if err != nil {
		return nil, err
	}
	script := `import socket; s = socket.socket(); s.bind(("127.0.0.1", 80)); print("bound")`
	text, _, err := run(NewReaper(), n, "setpriv", "--bounding-set=-all", "--inh-caps=-all", "python3", "-c", script)
	return text, err
}

func statuses(*Inside, []string) (any, error) {
	r := NewReaper()
	var out []Exit
	for _, script := range []string{"exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$"} {
		_, e, err := shell(r, nil, script)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	// A child that ended before anybody asked.
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 9"}, &os.ProcAttr{})
	if err != nil {
		return nil, err
	}
	for {
		r.mu.Lock()
		_, kept := r.kept[p.Pid]
		changed := r.changed
		r.mu.Unlock()
		if kept {
			break
		}
		<-changed
	}
	out = append(out, <-r.Wait(p.Pid))
	if err := r.Signal(p.Pid, unix.SIGTERM); !errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("signal to a reaped child: %v", err)
	}
	return out, nil
}

// family starts a shell with children that leave its session and ignore SIGTERM, and returns when all run.
func family(r *Reaper, n *Network, dir, trap, rest string) (pid int, exited <-chan Exit, err error) {
	fifo := filepath.Join(dir, "ready")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		return 0, nil, err
	}
	defer os.Remove(fifo)
	child := `trap "" TERM; echo x >` + fifo + `; while :; do sleep 1000; done`
	script := trap + "; for i in 1 2 3; do setsid sh -c '" + child + "' & done; setsid -f sh -c '" + child + "'; " + rest
	spawn := func() error {
		pid, exited, err = r.Spawn(func() (int, error) {
			p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
				Env: os.Environ(), Sys: &unix.SysProcAttr{Setsid: true},
			})
			if err != nil {
				return 0, err
			}
			pid := p.Pid
			return pid, p.Release()
		})
		return err
	}
	if n != nil {
		err = n.Do(spawn)
	} else {
		err = spawn()
	}
	if err != nil {
		return 0, nil, err
	}
	// Open for both, so that it has no end of file while a child has not yet opened it.
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, 4*len("x\n"))); err != nil {
		return 0, nil, err
	}
	return pid, exited, nil
}

func others() (int, error) {
	all, err := readProcesses()
	n := 0
	for _, p := range descendants(all, os.Getpid()) {
		if p.alive() {
			n++
		}
	}
	return n, err
}

// orphans: the first process ends at once, its children come to the reaper.
func orphans(in *Inside, args []string) (any, error) {
	r := NewReaper()
	if in.Mode == ModeNamespaces {
		if _, err := in.Setup(Config{}); err != nil {
			return nil, err
		}
	}
	_, exited, err := family(r, nil, args[0], ":", "exit 3")
	if err != nil {
		return nil, err
	}
	e := <-exited
	before, err := others()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := r.KillAll(context.Background()); err != nil {
		return nil, err
	}
	took := time.Since(start)
	after, err := others()
	return map[string]any{"exit": e.Code, "before": before > 0, "after": after, "ms": took.Milliseconds()}, err
}

func killAll(*Inside, []string) (any, error) {
	r := NewReaper()
	return nil, r.KillAll(context.Background())
}

// stops stops services of three tempers; each has children outside its session.
func stops(in *Inside, args []string) (any, error) {
	if in.Mode == ModeNamespaces {
		if _, err := in.Setup(Config{}); err != nil {
			return nil, err
		}
	}
	r := NewReaper()
	out := map[string]string{}
	bystander, _, err := r.Spawn(func() (int, error) {
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
		return p.Pid, err
	})
	if err != nil {
		return nil, err
	}
	for name, trap := range map[string]string{"obeys": "trap 'exit 5' TERM", "ignores": "trap '' TERM", "dies": ":"} {
		n, err := in.NewNetwork(name)
		if err != nil {
			return nil, err
		}
		pid, exited, err := family(r, n, args[0], trap, "while :; do sleep 1000 & wait; done")
		if err != nil {
			return nil, err
		}
		e, forced, err := r.Stop(context.Background(), vtime.Wall(), pid, n, exited, 100*time.Millisecond)
		if err != nil {
			return nil, err
		}
		left, err := serviceProcesses(pid, n)
		if err != nil {
			return nil, err
		}
		out[name] = fmt.Sprintf("%d %s forced=%v left=%d", e.Code, e.Signal, forced, len(left))
	}
	out["bystander"] = fmt.Sprint(r.Signal(bystander, 0))
	return out, r.KillAll(context.Background())
}

// linger makes a whole world with programs, says so and waits to be killed.
func linger(in *Inside, args []string) (any, error) {
	if _, err := in.Setup(Config{}); err != nil {
		return nil, err
	}
	n, err := in.NewNetwork("a")
	if err != nil {
		return nil, err
	}
	ready, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	script := "for i in 1 2 3; do setsid sh -c 'echo x; while :; do sleep 1000; done' " + args[0] + " & done; wait"
	err = n.Do(func() error {
		_, _, err := NewReaper().Spawn(func() (int, error) {
			p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script, args[0]}, &os.ProcAttr{
				Env: os.Environ(), Files: []*os.File{nil, write},
			})
			if err != nil {
				return 0, err
			}
			return p.Pid, nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(ready, make([]byte, 3*len("x\n"))); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(in.Events, "up\n"); err != nil {
		return nil, err
	}
	select {}
}
