package wire

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squallhq/squall/internal/vtime"
)

// heard is a watched reader with the end that feeds it.
func heard(t *testing.T, limit time.Duration) (w *watch, from *io.PipeWriter, killed *atomic.Bool, end func()) {
	r, from := io.Pipe()
	w, killed = &watch{from: r}, new(atomic.Bool)
	done := make(chan struct{})
	go w.guard(vtime.Wall(), limit, done, func() {
		killed.Store(true)
		from.Close()
	})
	return w, from, killed, func() { close(done) }
}

func TestSilentWorldIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, from, killed, _ := heard(t, 30*time.Second)
		go func() { _, _ = io.Copy(io.Discard, w) }()
		begin := time.Now()
		for range 100 {
			if _, err := from.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(29 * time.Second)
		}
		if synctest.Wait(); killed.Load() {
			t.Fatal("a world was killed that was never silent for 30 s")
		}
		_, _ = from.Write([]byte("x"))
		last := time.Now()
		for !killed.Load() && time.Since(begin) < time.Hour {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if after := time.Since(last); after < 30*time.Second || after > 32*time.Second || !w.silent.Load() {
			t.Errorf("killed %v after %s of silence, silent is %v; want about 30 s", killed.Load(), after, w.silent.Load())
		}
	})
}

// A reader that is busy with what it has read, and does not ask for more, cannot blame the world.
func TestBusyReaderKillsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, from, killed, end := heard(t, 30*time.Second)
		go func() { _, _ = from.Write([]byte("xy")) }()
		if _, err := w.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if killed.Load() {
			t.Error("a world was killed whose words waited to be read")
		}
		_, _ = w.Read(make([]byte, 1))
		end()
	})
}

// What lives but is beyond its time gives up by itself; what was given more time in between does not.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := &Pulse{}, &strings.Builder{}
		done := make(chan struct{})
		late := make(chan string, 1)
		begin := time.Now()
		go p.Run(vtime.Wall(), NewFrames(b), done, func(what string) { late <- fmt.Sprint(what, " after ", time.Since(begin)) })
		p.Expect(10*time.Second, "first")
		time.Sleep(5500 * time.Millisecond)
		p.Expect(20*time.Second, "second")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(late) > 0 {
			t.Fatalf("gave up at %s", <-late)
		}
		if got := <-late; got != "second after 25s" {
			t.Errorf("gave up at %s; want second after 25s", got)
		}
		if beats := strings.Count(b.String(), `{"beat":true}`); beats != 24 {
			t.Errorf("%d beats; want 24", beats)
		}
	})
}

// A lock that is never given up keeps the beats from coming.
func TestNoBeatWithoutLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := &Pulse{}, &strings.Builder{}
		held := make(chan struct{})
		done := make(chan struct{})
		p.With(func() { <-held })
		go p.Run(vtime.Wall(), NewFrames(b), done, func(string) {})
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.Len() > 0 {
			t.Errorf("beats came: %s", b)
		}
		close(held)
		close(done)
	})
}
