//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// balancer distributes TCP connections to backends round robin, without parsing
// them. It probes /readyz of each and prefers ready ones; if one refuses the
// connection it tries the next.
type balancer struct {
	addr     string
	strict   atomic.Bool // without a ready backend it answers 503 itself
	listener net.Listener
	backends []*backend
	connect  func() (net.Conn, *backend) // to a backend; nil without one
	turn     atomic.Uint32
	open     sync.Map // the connections of clients that have a backend
	work     sync.WaitGroup
	ctx      context.Context // ends with the test
}

type backend struct {
	addr    string
	ops     string // host:port of its ops listener
	ready   atomic.Bool
	unready atomic.Int32 // probes that found it unready
	reason  atomic.Value // the error of the last of them, a string
	links   atomic.Int32 // open connections
}

// probeInterval is the interval of the probes. A backend that starts to drain
// gets new connections for at most that long.
const probeInterval = 500 * time.Millisecond

// lateProbes is the number of probes in a row without a response after which a backend is unready, the default of Kubernetes: the machine may be busy for a second. Another response
// than 200 and a refused connection count at once.
const lateProbes = 3

func startBalancer(t *testing.T, edges ...*edgeProcess) *balancer {
	t.Helper()
	b := listenBalancer(t)
	b.connect = b.dial
	for _, e := range edges {
		b.backends = append(b.backends, b.watch(e))
	}
	b.work.Go(b.accept)
	return b
}

// listenBalancer returns a balancer that accepts no connections yet.
func listenBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	b := &balancer{addr: listener.Addr().String(), listener: listener, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		b.work.Wait()
	})
	return b
}

// watch probes a process until the test ends. Only the backends get connections.
func (b *balancer) watch(e *edgeProcess) *backend {
	to := &backend{addr: e.addr, ops: e.ops}
	to.ready.Store(isReady(b.ctx, e.ops) == nil)
	b.work.Go(func() { to.probe(b.ctx) })
	return to
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
	server, to := b.connect()
	if server == nil {
		if b.strict.Load() {
			answer503(client)
		}
		return
	}
	b.open.Store(client, nil)
	defer b.open.Delete(client)
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

// tries returns how many groups of backends dial tries: the ready ones, and the others.
func (b *balancer) tries() int {
	if b.strict.Load() {
		return 1
	}
	return 2
}

// dial tries the ready backends round robin, then the others.
func (b *balancer) dial() (net.Conn, *backend) {
	turn := int(b.turn.Add(1))
	dialer := net.Dialer{Timeout: time.Second}
	for _, ready := range []bool{true, false}[:b.tries()] {
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
	late := 0
	for {
		select {
		case <-tick.C:
			err := isReady(ctx, b.ops)
			if !errors.Is(err, context.DeadlineExceeded) {
				late = 0
			} else if late++; late < lateProbes {
				continue
			}
			b.ready.Store(err == nil)
			if err != nil && ctx.Err() == nil {
				b.unready.Add(1)
				b.reason.Store(err.Error())
			}
		case <-ctx.Done():
			return
		}
	}
}

// isReady probes the edge with this ops listener with a timeout of a second.
func isReady(ctx context.Context, ops string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := roletest.Status(ctx, "http://"+ops+"/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// answer503 answers a request as a balancer without a backend does.
func answer503(client net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(client)); err != nil {
		return // the client has left
	}
	_, _ = io.WriteString(client, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

// cut closes the connection of every second client, as networks of mobile devices do.
func (b *balancer) cut() {
	n := 0
	b.open.Range(func(client, _ any) bool {
		if n++; n%2 == 0 {
			_ = client.(net.Conn).Close()
		}
		return true
	})
}
