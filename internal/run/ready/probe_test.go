package ready

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squallhq/squall/internal/vtime"
)

// TestAwait says what was tried, how often, and what came of it last.
func TestAwait(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", unix.ECONNREFUSED)}
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, tc := range map[string]struct {
		tried string
		once  func(n int) func(ctx context.Context) error
		want  string
	}{
		"refused": {"a connection to localhost:1", func(int) func(context.Context) error {
			return func(context.Context) error { return refused }
		}, "not ready after 1s: a connection to localhost:1, tried 55 times; at last: connection refused"},
		"silent": {"PING", func(int) func(context.Context) error { return hangs }, "not ready after 1s: PING, tried once; at last: no answer"},
		"refused, then silent": {"PING", func(n int) func(context.Context) error {
			if n == 1 {
				return func(context.Context) error { return refused }
			}
			return hangs
		}, "not ready after 1s: PING, tried 2 times; at last: no answer"},
		// What the end of the time cut short is not what was answered last.
		"answers, then is cut short": {"GET /", func(n int) func(context.Context) error {
			return func(ctx context.Context) error {
				if n < 50 {
					return errors.New("it answered 503")
				}
				return hangs(ctx)
			}
		}, "not ready after 1s: GET /, tried 50 times; at last: it answered 503"},
		"hangs up": {"GET /", func(int) func(context.Context) error {
			return func(context.Context) error { return fmt.Errorf("read: %w", io.ErrUnexpectedEOF) }
		}, "not ready after 1s: GET /, tried 55 times; at last: the connection was closed without an answer"},
		"plain": {"", func(int) func(context.Context) error {
			return func(context.Context) error { return errors.New("nothing listens at port 80") }
		}, "not ready after 1s: nothing listens at port 80"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				p := probe{tc.tried, func(ctx context.Context) error { n++; return tc.once(n)(ctx) }}
				err := await(t.Context(), vtime.Wall(), p, time.Second, nil)
				if err == nil || err.Error() != tc.want {
					t.Errorf("%v\nwant %s", err, tc.want)
				}
			})
		})
	}
	ended := make(chan struct{})
	close(ended)
	if err := await(t.Context(), vtime.Wall(), probe{"", func(context.Context) error { return nil }}, time.Second, ended); !errors.Is(err, ErrEnded) {
		t.Errorf("a service that has ended: %v", err)
	}
}
