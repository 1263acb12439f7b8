//go:build !linux

package httpkit

import "time"

// boundUnacknowledged does nothing where the kernel has no such bound.
func boundUnacknowledged(uintptr, time.Duration) error { return nil }
