package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain makes this test binary a world process where a test starts it as one: the second argument
// names the function of insiders to run, whose answer goes to the test as JSON.
func TestMain(m *testing.M) {
	if in, ok := Enter(); ok {
		f := insiders()[os.Args[1]]
		answer, err := f(in, os.Args[2:])
		reply := reply{Answer: answer}
		if err != nil {
			reply.Err = err.Error()
		}
		if err := json.NewEncoder(in.Events).Encode(reply); err != nil {
			os.Exit(2) // the caller was killed, as some tests do
		}
		os.Exit(0)
	}
	if spec, ok := os.LookupEnv(outerVariable); ok {
		_ = os.Unsetenv(outerVariable)
		if f, ok := outsiders()[spec]; ok {
			if err := f(); err != nil {
				fatal(err)
			}
			os.Exit(0)
		}
		mode, tag, _ := strings.Cut(spec, ",")
		fatal(outer(Mode(mode), tag))
	}
	os.Exit(m.Run())
}

// outsiders start worlds from a place that the test has prepared.
func outsiders() map[string]func() error {
	return map[string]func() error{"refused": tryRefused, "mounts": tryMounts}
}

// insider runs in a world process.
type insider func(in *Inside, args []string) (any, error)

type reply struct {
	Answer any
	Err    string
}

func launcher(t testing.TB) *Launcher {
	t.Helper()
	l, err := NewLauncher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func start(t testing.TB, l *Launcher, c WorldConfig, args ...string) *World {
	t.Helper()
	c.Args = append([]string{"world"}, args...)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	w, err := l.StartWorld(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// inside runs an insider to its end and decodes its answer.
func inside(t testing.TB, l *Launcher, c WorldConfig, answer any, args ...string) {
	t.Helper()
	if err := ask(l, c, answer, args...); err != nil {
		t.Fatalf("world %v: %v", args, err)
	}
}

func ask(l *Launcher, c WorldConfig, answer any, args ...string) error {
	c.Args = append([]string{"world"}, args...)
	c.Env, c.Stderr = os.Environ(), os.Stderr
	w, err := l.StartWorld(context.Background(), c)
	if err != nil {
		return err
	}
	defer w.Close()
	text, err := io.ReadAll(w.Events)
	if err != nil {
		return err
	}
	if e, err := w.Wait(); err != nil || e.Code != 0 {
		return fmt.Errorf("ended with %+v, %w: %s", e, err, text)
	}
	r := reply{Answer: answer}
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	if r.Err != "" {
		return errors.New(r.Err)
	}
	return nil
}

// run executes a program in a world, which may not use os/exec: its reaper takes the status.
func run(r *Reaper, n *Network, name string, args ...string) (string, Exit, error) {
	out, err := os.CreateTemp("/dev/shm", "out")
	if err != nil {
		return "", Exit{}, err
	}
	defer os.Remove(out.Name())
	path, err := exec.LookPath(name)
	if err != nil {
		return "", Exit{}, err
	}
	var exited <-chan Exit
	spawn := func() error {
		_, exited, err = r.Spawn(func() (int, error) {
			p, err := os.StartProcess(path, append([]string{name}, args...), &os.ProcAttr{Files: []*os.File{nil, out, out}, Env: os.Environ()})
			if err != nil {
				return 0, err
			}
			pid := p.Pid
			return pid, p.Release()
		})
		return err
	}
	if n == nil {
		n = &Network{shared: true}
		if n.thread, err = startThread(n.setup); err != nil {
			return "", Exit{}, err
		}
		defer n.Close()
	}
	if err := n.Do(spawn); err != nil {
		return "", Exit{}, err
	}
	e := <-exited
	text, err := os.ReadFile(out.Name())
	return strings.TrimSpace(string(text)), e, err
}

func modes() []Mode { return []Mode{ModeNamespaces, ModeShared} }

func TestWorldTalks(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) {
			extra, ours, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			w := start(t, launcher(t), WorldConfig{Mode: m, Extra: []*os.File{extra}}, "echo")
			defer w.Close()
			_ = extra.Close()
			fmt.Fprintf(ours, "by extra")
			_ = ours.Close()
			fmt.Fprintf(w.Control, "by control")
			_ = w.Control.Close()
			text, err := io.ReadAll(w.Events)
			if err != nil {
				t.Fatal(err)
			}
			if want := `by control by extra`; !bytes.Contains(text, []byte(want)) {
				t.Errorf("got %s, want %s", text, want)
			}
			if e, err := w.Wait(); err != nil || e != (Exit{}) {
				t.Errorf("ended with %+v, %v", e, err)
			}
		})
	}
}
