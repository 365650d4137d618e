package link

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain finds goroutines and descriptors that the tests leave behind.
func TestMain(m *testing.M) {
	goroutines, fds := runtime.NumGoroutine(), descriptors()
	code := m.Run()
	if code == 0 && os.Getenv("SQUALL_TEST_NETNS") == "" {
		code = leaks(goroutines, fds)
	}
	os.Exit(code)
}

// pollerDescriptors are what the runtime opens for itself with the first socket: epoll and its wake-up.
const pollerDescriptors = 2

func leaks(goroutines, fds int) int {
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		g, f := runtime.NumGoroutine()-goroutines, descriptors()-fds-pollerDescriptors
		if g <= 0 && f <= 0 {
			return 0
		}
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			fmt.Printf("left behind: %d goroutines, %d descriptors\n%s\n", g, f, buf[:runtime.Stack(buf, true)])
			return 1
		}
	}
}

func descriptors() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}
