package httpkit

import (
	"cmp"
	"context"
	"net"
	"syscall"
	"time"
)

// Listen opens a TCP listener whose connections detect within 30 seconds that the other host has disappeared without closing them. writeTimeout is that of
// streams, 0 its default of 10 seconds.
//
// Two timers are needed. Keep-alive probes a silent connection: after 10 seconds, then every 5. But while sent data is not acknowledged, the kernel does not
// probe; it retransmits, by default for a quarter of an hour, and on a stream something is sent every 15 seconds, the heartbeat. So on Linux that time is
// bounded as well (TCP_USER_TIMEOUT): a little more than writeTimeout, because the same bound applies to a live client that accepts no data, which
// writeTimeout is to detect first. In the worst case a heartbeat is written just before the first timer fires, and the second one starts then: 15 + 12 seconds.
//
// On other systems only a silent connection is probed; there a heartbeat longer than 25 seconds gives the same bound.
func Listen(ctx context.Context, addr string, writeTimeout time.Duration) (net.Listener, error) {
	unacknowledged := cmp.Or(writeTimeout, 10*time.Second) + 2*time.Second
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		// An accepted connection has the options of its listener.
		Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			if err := c.Control(func(fd uintptr) { failed = boundUnacknowledged(fd, unacknowledged) }); err != nil {
				return err
			}
			return failed
		},
	}
	// Multipath TCP does not support the bound, and streams do not need it.
	config.SetMultipathTCP(false)
	return config.Listen(ctx, "tcp", addr)
}
