//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// balancer distributes TCP connections to backends round robin, without parsing
// them. It probes /readyz of each and prefers ready ones; if one refuses the
// connection it tries the next.
type balancer struct {
	addr     string
	listener net.Listener
	backends []*backend
	turn     atomic.Uint32
	work     sync.WaitGroup
	ctx      context.Context // ends with the test
}

type backend struct {
	addr  string
	ready atomic.Bool
	links atomic.Int32 // open connections
}

// probeInterval is the interval of the probes. A backend that starts to drain
// gets new connections for at most that long.
const probeInterval = 500 * time.Millisecond

func startBalancer(t *testing.T, addrs ...string) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	b := &balancer{addr: listener.Addr().String(), listener: listener, ctx: ctx}
	for _, addr := range addrs {
		to := &backend{addr: addr}
		to.ready.Store(isReady(ctx, addr) == nil)
		b.backends = append(b.backends, to)
		b.work.Go(func() { to.probe(ctx) })
	}
	b.work.Go(b.accept)
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		b.work.Wait()
	})
	return b
}

// awaitReady waits until the balancer has observed the readiness of the
// backend.
func (b *balancer) awaitReady(t *testing.T, addr string, want bool) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("readiness %t of %s", want, addr), func(context.Context) error {
		for _, to := range b.backends {
			if to.addr == addr && to.ready.Load() == want {
				return nil
			}
		}
		return fmt.Errorf("readiness is %t", !want)
	})
}

func (b *balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return // closed by the test
		}
		b.work.Go(func() { b.serve(client) })
	}
}

// serve forwards one connection until either side ends it.
func (b *balancer) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, to := b.dial()
	if server == nil {
		return
	}
	to.links.Add(1)
	defer to.links.Add(-1)
	defer context.AfterFunc(b.ctx, func() { _ = server.Close() })()
	var both sync.WaitGroup
	carry := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src) // the end of one direction ends both
		_ = client.Close()
		_ = server.Close()
	}
	both.Go(func() { carry(server, client) })
	both.Go(func() { carry(client, server) })
	both.Wait()
}

// dial tries the ready backends round robin, then the others.
func (b *balancer) dial() (net.Conn, *backend) {
	turn := int(b.turn.Add(1))
	dialer := net.Dialer{Timeout: time.Second}
	for _, ready := range []bool{true, false} {
		for i := range b.backends {
			to := b.backends[(turn+i)%len(b.backends)]
			if to.ready.Load() != ready {
				continue
			}
			if conn, err := dialer.DialContext(b.ctx, "tcp", to.addr); err == nil {
				return conn, to
			}
		}
	}
	return nil, nil
}

func (b *backend) probe(ctx context.Context) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.ready.Store(isReady(ctx, b.addr) == nil)
		case <-ctx.Done():
			return
		}
	}
}

// isReady probes the edge at addr with a timeout of a second.
func isReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return firstError(err, resp.Body.Close())
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
