package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/squallhq/squall/spec"
)

// StepTimeout bounds a step that names no time: short of a scenario's, so that a system that does not
// answer is a result and not a scenario that ran out of time.
const StepTimeout = 10 * time.Second

// BodyLimit is how much of an answer a Response keeps.
const BodyLimit = 1 << 20

// Bound returns the context of a step.
func Bound(ctx context.Context, op spec.Operation) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit(op))
}

func limit(op spec.Operation) time.Duration {
	if op.Timeout > 0 {
		return op.Timeout
	}
	return StepTimeout
}

// Within runs I/O on a connection that ends when ctx does. It returns ctx's error for I/O that ctx
// ended. The connection must be closed after an error.
func Within(ctx context.Context, conn net.Conn, do func() error) error {
	// A deadline in the past ends reads and writes that are under way.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := do()
	if !stop() {
		return ctx.Err()
	}
	return err
}

// Failed turns an error of a step into its Response. A step that the scenario gave up (a cancelled
// context) is no result, so that is returned as an error.
func Failed(op spec.Operation, r spec.Response, err error) (spec.Response, error) {
	if errors.Is(err, context.Canceled) {
		return spec.Response{}, err
	}
	r.OK = false
	r.Error = Reason(op, err)
	r.TimedOut = r.Error == timedOut(op)
	return r, nil
}

// timedOut says that a step's own time ran out.
func timedOut(op spec.Operation) string { return fmt.Sprintf("timeout after %s", limit(op)) }

// Reason says why a step failed, in words that are the same in every run: without addresses, ports
// or the moment at which a peer's end was noticed.
func Reason(op spec.Operation, err error) string {
	for _, known := range []struct {
		is   error
		says string
	}{
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		// The peer is gone in the same way; only the call that noticed differs.
		{syscall.EPIPE, "connection reset"},
		{syscall.ECONNABORTED, "connection aborted"},
		{syscall.ETIMEDOUT, "connection timed out"},
		{syscall.EHOSTUNREACH, "no route to host"},
		{syscall.ENETUNREACH, "network unreachable"},
		{io.ErrUnexpectedEOF, "connection closed"},
		{io.EOF, "connection closed"},
	} {
		if errors.Is(err, known.is) {
			return known.says
		}
	}
	var timed interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || (errors.As(err, &timed) && timed.Timeout()) {
		return timedOut(op)
	}
	var at *net.OpError
	if errors.As(err, &at) && at.Err != nil {
		err = at.Err
	}
	return addresses().ReplaceAllString(err.Error(), "ADDRESS")
}

func addresses() *regexp.Regexp {
	return regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.]*\]):\d+`)
}

// Text returns an argument that is text; ok is false where it is missing or of another type.
func Text(op spec.Operation, name string) (text string, ok bool) {
	switch v := op.Args[name].(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// Unknown is the error for a method that a protocol does not have.
func Unknown(p string, op spec.Operation) error {
	return fmt.Errorf("%s: no method %q", p, op.Method)
}
