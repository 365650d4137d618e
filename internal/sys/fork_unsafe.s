//go:build linux

// This file has no code. It lets the compiler accept functions without a body, which the
// linker finds in the runtime.
