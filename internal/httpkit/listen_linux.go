package httpkit

import (
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged closes a connection on which sent bytes stay without an
// acknowledgement for d.
func boundUnacknowledged(fd uintptr, d time.Duration) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
