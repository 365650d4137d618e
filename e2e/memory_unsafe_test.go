package e2e

import "unsafe"

func bytesAt(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }
