//go:build !linux

package bench

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// readAll connects the clients and reads until each is done.
func readAll(ctx context.Context, clients []*client) error {
	group, ctx := errgroup.WithContext(ctx)
	var feeding sync.Mutex // clients are fed one at a time
	for _, c := range clients {
		group.Go(func() error {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "tcp", c.addr)
			if err != nil {
				return c.failed(err)
			}
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			if _, err := conn.Write(c.request()); err != nil {
				return c.failed(err)
			}
			buffer := make([]byte, 16<<10)
			for !c.done() {
				n, err := conn.Read(buffer)
				if err == nil {
					feeding.Lock()
					err = c.feed(buffer[:n], time.Now())
					feeding.Unlock()
				}
				if err != nil {
					return c.failed(err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
