package sseedge

import (
	"context"
	"net"
	"syscall"
	"time"
)

// Listen opens a TCP listener whose connections notice within 30 seconds that
// the host at the other end is gone without a word: its battery, its network, a
// cable. Patience is Config.Patience, 0 the default of it.
//
// Two clocks are needed. Keep-alive asks a connection that is silent: after 10
// seconds, then every 5. But as long as something that was sent has not been
// acknowledged, the kernel does not ask; it sends that again, by default for a
// quarter of an hour, and on a stream there is something every 15 seconds, the
// heartbeat. So on Linux there is a bound on how long that may take as well
// (TCP_USER_TIMEOUT): a little more than Patience, because the same bound is
// laid on a client that lives but takes nothing, and that is Patience's to
// judge. At worst a heartbeat is written just before the first clock runs out,
// and the second one begins then: 15 + 12 seconds.
//
// On other systems only a silent connection is asked; there a heartbeat longer
// than 25 seconds gives the same bound.
func Listen(ctx context.Context, addr string, patience time.Duration) (net.Listener, error) {
	gone := orDefault(patience, 10*time.Second) + 2*time.Second
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		// An accepted connection has the options of its listener.
		Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			if err := c.Control(func(fd uintptr) { failed = boundUnacknowledged(fd, gone) }); err != nil {
				return err
			}
			return failed
		},
	}
	// Multipath TCP does not know the bound; a stream has no use for it.
	config.SetMultipathTCP(false)
	return config.Listen(ctx, "tcp", addr)
}
