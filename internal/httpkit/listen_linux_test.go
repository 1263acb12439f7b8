package httpkit_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// Accepted connections have the documented socket options. The tests in e2e check their effect.
func TestListenBoundsSilence(t *testing.T) {
	for writeTimeout, userTimeout := range map[time.Duration]int{0: 12_000, time.Minute: 62_000} {
		listener, err := httpkit.Listen(t.Context(), "127.0.0.1:0", writeTimeout)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for _, option := range []struct {
			name               string
			level, value, want int
		}{
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE, s", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
			{"TCP_KEEPINTVL, s", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
			{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
			{"TCP_USER_TIMEOUT, ms", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeout},
		} {
			var got int
			var failed error
			if err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), option.level, option.value) }); err != nil {
				t.Fatal(err)
			}
			if failed != nil || got != option.want {
				t.Errorf("write timeout %s: %s is %d, %v, want %d", writeTimeout, option.name, got, failed, option.want)
			}
		}
	}
}
