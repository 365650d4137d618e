package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/squallhq/squall/spec"
)

func TestReason(t *testing.T) {
	at := func(err error) error {
		return &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 41234}, Addr: &net.TCPAddr{Port: 80}, Err: err}
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{at(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connection refused"},
		{at(os.NewSyscallError("read", syscall.ECONNRESET)), "connection reset"},
		{at(os.NewSyscallError("write", syscall.EPIPE)), "connection reset"},
		// An error number that calls itself a time-out is the network's word, not the step's time.
		{at(os.NewSyscallError("connect", syscall.ETIMEDOUT)), "connection timed out"},
		{at(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "no route to host"},
		{at(os.NewSyscallError("connect", syscall.ENETUNREACH)), "network unreachable"},
		{at(os.NewSyscallError("connect", syscall.ECONNABORTED)), "connection aborted"},
		{at(os.ErrDeadlineExceeded), "timeout after 10s"},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), "timeout after 10s"},
		{fmt.Errorf("x: %w", io.EOF), "connection closed"},
		{io.ErrUnexpectedEOF, "connection closed"},
		{at(errors.New("odd")), "odd"},
		{errors.New("lookup 127.0.0.1:41234 and [::1]:8: odd"), "lookup ADDRESS and ADDRESS: odd"},
	} {
		if got := Reason(spec.Operation{}, tc.err); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
	if got := Reason(spec.Operation{Timeout: time.Second}, context.DeadlineExceeded); got != "timeout after 1s" {
		t.Errorf("a step's own time: %q", got)
	}
}
