package join

import "errors"

// ErrForbidden says that this process may not have the kernel forward bytes. That takes root's capabilities on
// the machine, CAP_BPF and CAP_NET_ADMIN.
var ErrForbidden = errors.New("join: not permitted")

// ErrUnsupported says that the kernel cannot forward bytes by itself, or not reliably.
var ErrUnsupported = errors.New("join: not in this kernel")

// ErrSocket says that a socket cannot take part, for what the program has made of it.
var ErrSocket = errors.New("join: not this socket")
