package chat

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector/fold"
)

// stalled does not respond while a test wants that.
type stalled struct {
	conversation.Snapshots

	on    atomic.Bool
	asked chan struct{} // gets a value for each read that stalls
}

func (s *stalled) Head(ctx context.Context, session chunk.Session) (fold.Snapshot, error) {
	if !s.on.Load() {
		return s.Snapshots.Head(ctx, session)
	}
	select {
	case s.asked <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return fold.Snapshot{}, ctx.Err()
}

// The servers stop responding to an edge between the command of a message and the first record of its run. The response waits with heartbeats, it ends at once when
// its client leaves or the edge drains, and it gets the answer when the run begins.
func TestStalledServersWhileARunIsAwaited(t *testing.T) {
	for _, path := range []string{"/api/chat/s1", aguiPath} {
		t.Run(path, func(t *testing.T) {
			w := newEnv(t)
			ports := &stalled{asked: make(chan struct{})}
			e := w.newEdge(func(c *edgeConfig) {
				c.edge.Heartbeat, c.WaitNotice = 10*time.Millisecond, -1
				ports.Snapshots, c.ports.Snapshots = c.ports.Snapshots, ports
			})
			e.base = path
			body := chatBody("", user("u1", "hi"))
			if path == aguiPath {
				body = `{"threadId":"s1","runId":"r","messages":[` + hi + `]}`
			}
			open := func() *http.Response {
				resp, err := e.try(http.MethodPost, "", body, nil)
				if err != nil {
					t.Fatal(err)
				}
				ports.on.Store(true)
				<-ports.asked
				return resp
			}
			ended := func() {
				natstest.Eventually(t, "the end of the response", func(context.Context) error {
					if n := e.service.surface.Streams.Len(); n > 0 {
						return fmt.Errorf("%d are open", n)
					}
					return nil
				})
				ports.on.Store(false)
			}
			open().Body.Close()
			ended()
			resp := open()
			defer resp.Body.Close()
			w.work(answer)
			began := time.Now()
			if err := e.service.surface.Drain(t.Context()); err != nil || time.Since(began) > 5*time.Second {
				t.Errorf("drained after %s: %v", time.Since(began), err)
			}
			ended()
			next := w.newEdge(nil)
			next.base = path
			if text := next.post("", body); !strings.Contains(text, "world") && !strings.Contains(text, "RUN_FINISHED") {
				t.Errorf("the answer is %s", text)
			}
			w.handledAre("execute")
		})
	}
}
