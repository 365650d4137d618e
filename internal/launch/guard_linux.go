package launch

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// guard starts a shared world and, when that ends or the lifeline breaks, kills all descendants. It
// does what a pid namespace does elsewhere. files is the number of descriptors to hand on; the exit
// code is the world's.
func guard(files int) int {
	runtime.LockOSThread() // the world dies with the thread that forks it
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fatal(fmt.Errorf("launch: guard: subreaper: %w", err))
	}
	broken := make(chan struct{})
	lifeline, ours, err := os.Pipe()
	if err != nil {
		fatal(fmt.Errorf("launch: guard: %w", err))
	}
	r := NewReaper()
	_, exited, err := r.Spawn(func() (int, error) { return startGuarded(files, lifeline) })
	if err != nil {
		fatal(fmt.Errorf("launch: guard: start world: %w", err))
	}
	_ = lifeline.Close()
	// Nobody but the world may hold the ends of its pipes, or the caller would wait for their end.
	for fd := range files {
		if fd != lifelineFD && fd > 2 {
			_ = unix.Close(fd)
		}
	}
	watchLifeline(func() { close(broken) })
	code := 128 + int(unix.SIGKILL)
	select {
	case e := <-exited:
		code = e.Code
	case <-broken:
	}
	if err := r.KillAll(context.Background()); err != nil {
		fatal(err)
	}
	runtime.KeepAlive(ours)
	return code
}

func startGuarded(files int, lifeline *os.File) (int, error) {
	attr := &syscall.ProcAttr{
		Env: append(os.Environ(), modeVariable+"="+string(ModeShared)),
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true},
	}
	for fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	attr.Files[lifelineFD] = lifeline.Fd()
	pid, err := syscall.ForkExec("/proc/self/exe", os.Args, attr)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", strconv.Quote(os.Args[0]), err)
	}
	return pid, nil
}
