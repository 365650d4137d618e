// Package notify stops system calls by seccomp user notification.
//
// It needs no privilege, works for static programs as for dynamic ones, and costs nothing for calls that nobody
// subscribed. A call that is let go on runs in the kernel as if nothing had been, reading its arguments from memory
// once more: what a rule saw through a pointer may have been changed by another thread since. That is no
// matter for faults; it would be for a sandbox.
//
// A signal takes a waiting call back: the program's handler runs and the call is made again, as another Call with
// the same thread and arguments. Answering it like the first is the business of whoever decides. An answer that
// comes just then is lost even though the kernel took it: Reply returned nil, and still the call is
// made again. So remember every answer until the thread makes another call, not only those that met ErrGone.
//
// The filter's last user is gone when its last task has exited; on kernels before 6.11, when that has also
// been reaped. Only then is there an io.EOF.
package notify
