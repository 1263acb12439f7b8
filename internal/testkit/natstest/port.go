package natstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Ports are below the range of the local ports of outgoing connections on Linux
// (32768 and up). Otherwise: a server is killed, another connection on the
// machine gets its port as local port, and the restarted server cannot listen.
const (
	firstPort = 20000
	lastPort  = 32000
)

// ReservePort returns a loopback port that is reserved until the end of the
// test. Test binaries run concurrently; a locked file per port prevents
// conflicts, also while the server that owns the port is down.
func ReservePort(tb testing.TB) int {
	tb.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("tailrace-natstest-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatalf("reserve a port: %v", err)
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		release, err := lockPort(tb.Context(), filepath.Join(dir, strconv.Itoa(port)), port)
		if err != nil {
			continue // in use
		}
		tb.Cleanup(release)
		return port
	}
	tb.Fatalf("reserve a port: none free between %d and %d", firstPort, lastPort)
	return 0
}

var errPortTaken = errors.New("port is taken")

func lockPort(ctx context.Context, file string, port int) (release func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // our own path
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errPortTaken, f.Close())
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if err != nil {
		return nil, errors.Join(errPortTaken, f.Close())
	}
	if err := l.Close(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // closing the file unlocks it
}
