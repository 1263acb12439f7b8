package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/projector/fold"
)

// A worker is stalled before it stores the large result of a tool, or after that and before the record. Meanwhile the session is deleted, and perhaps starts again.
// The worker continues, and a sweep an hour later leaves no byte of the result.
func TestDeletionWhileALargeResultIsStored(t *testing.T) {
	for _, at := range []string{"PUB $O.TR_OBJECTS.C.v.", "PUB tr.chunks."} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("stalled at %s, again %t", at, again), func(t *testing.T) {
				w := newEnv(t)
				c := execute(uniqueName("s"), "rows", "Go.")
				agents := map[string]Agent{"rows": oneStep(func(ctx context.Context, turn *Turn, s *Step) error {
					if turn.Input()[0].Content == "Go." {
						call := s.Tool("c", "rows")
						return errors.Join(call.Start(ctx, struct{}{}), call.End(ctx, strings.Repeat("secret ", 100_000)))
					}
					return s.Text(ctx, "Hello.")
				})}
				d := &valueStall{at: at, stalled: make(chan struct{}), resumed: make(chan struct{})}
				stalled, err := New(w.Server.JetStream(t, nats.SetCustomDialer(d)), Config{Agents: agents, ShutdownTimeout: time.Minute, MaxTakeovers: Off, Pace: Off})
				if err != nil {
					t.Fatal(err)
				}
				w.Request(c)
				ended := make(chan error, 1)
				go func() { ended <- stalled.handle(t.Context(), c) }()
				select {
				case <-d.stalled:
				case err := <-ended:
					t.Fatalf("the run has ended before it stalled: %v", err)
				}
				eraser := w.eraser(retention.EraserConfig{})
				store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if err := eraser.Delete(t.Context(), c.Session); err != nil {
					t.Error(err)
				}
				if again {
					c.RunID, c.Input[0].Content = "r2", "Again."
					w.serve(w.worker(agents))
					w.Request(c)
					w.AwaitStatus(c.Session, fold.Ended)
				}
				close(d.resumed)
				if err := <-ended; err == nil {
					t.Error("the stalled worker has written its result to the deleted session")
				}
				_ = stalled.Close()
				late := w.values()
				if strings.Contains(at, "OBJECTS") && late != 2 {
					t.Errorf("%d pieces before the sweep, want the two that were stored late", late)
				}
				if again {
					if _, err := projector.Rebuild(t.Context(), store, w.Log, c.Session); err != nil {
						t.Error(err)
					}
				}
				if _, err := eraser.SweepAt(t.Context(), time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
				if left := w.values(); left != 0 {
					t.Errorf("%d pieces of the result are left of %d before the sweep", left, late)
				}
			})
		}
	}
}

// values returns the number of pieces of large values.
func (w *env) values() int {
	w.t.Helper()
	n, err := jsclient.New(w.JS).CountSubjects(w.t.Context(), "OBJ_TR_OBJECTS", "$O.TR_OBJECTS.C.v.>")
	if err != nil {
		w.t.Error(err)
	}
	return n
}

// valueStall stalls a connection at the first write with a text after the first one of a large value has begun.
type valueStall struct {
	at      string
	stalled chan struct{}
	resumed chan struct{}

	mu    sync.Mutex // guards begun and done
	begun bool
	done  bool
}

func (d *valueStall) Dial(network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).Dial(network, address)
	return &valueStallConn{conn, d}, err
}

type valueStallConn struct {
	net.Conn

	dialer *valueStall
}

func (c *valueStallConn) Write(b []byte) (int, error) {
	d := c.dialer
	d.mu.Lock()
	d.begun = d.begun || bytes.Contains(b, []byte("PUB $O.TR_OBJECTS.C.v."))
	stalls := d.begun && !d.done && bytes.Contains(b, []byte(d.at))
	d.done = d.done || stalls
	d.mu.Unlock()
	if stalls {
		close(d.stalled)
		<-d.resumed
	}
	return c.Conn.Write(b)
}
