//go:build e2e

package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/ingesttest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
)

// tenant is that of clients without credentials.
const tenant = "default"

// The size of the test of killed edges.
const (
	killedRuns = 1000
	writers    = 16
	killEvery  = 30 // runs, on average
)

// TestKilledEdges writes 1,000 random runs through two edges that are killed and restarted at random moments. Requests are cut at random bytes and sent twice, and
// a second writer replaces that of every eighth run. The log has what was sent, once, and no request is refused without a reason.
func TestKilledEdges(t *testing.T) {
	seed := seedtest.Seed(t)
	users := roletest.New(t, natsauth.Config{AllowIngest: true})
	server := natstest.StartProcess(t, users.Server(), natstest.FailOnViolation())
	s := stack.Start(t, stack.Options{On: server})
	w := &killing{s: s, seed: seed, edges: []*edgeProcess{startEdgeProcess(t, users, server), startEdgeProcess(t, users, server)}}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	jobs := make(chan int)
	var writing, killing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for i := range jobs {
				if err := w.write(ctx, i); err != nil {
					cancel(fmt.Errorf("run %d: %w", i, err))
				}
			}
		})
	}
	kills := []chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
	for i, e := range w.edges {
		killing.Go(func() {
			for range kills[i] {
				if err := w.restart(ctx, e); err != nil {
					cancel(err)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range killedRuns {
		if rng.IntN(killEvery) == 0 {
			select {
			case kills[rng.IntN(len(kills))] <- struct{}{}:
			default: // the edge is being restarted, and will be killed again
			}
		}
		select {
		case jobs <- i:
		case <-ctx.Done():
		}
	}
	close(jobs)
	writing.Wait()
	for _, c := range kills {
		close(c)
	}
	killing.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d writers were fenced", w.kills.Load(), w.fenced.Load())
	if w.kills.Load() == 0 || w.fenced.Load() == 0 {
		t.Error("no edge was killed, or no writer fenced")
	}
}

// killing is the state of TestKilledEdges.
type killing struct {
	s             *stack.Stack
	seed          uint64
	edges         []*edgeProcess
	kills, fenced atomic.Int64
}

// restart kills an edge and waits until it serves again.
func (w *killing) restart(ctx context.Context, e *edgeProcess) error {
	e.kill()
	w.kills.Add(1)
	if err := e.start(); err != nil {
		return err
	}
	return e.awaitServing(ctx)
}

func (w *killing) client(i int, name string, lines []string) *client {
	c := &client{
		rng:     rand.New(rand.NewPCG(w.seed, uint64(i)<<8|uint64(name[0]))),
		session: fmt.Sprintf("s%d", i), run: fmt.Sprintf("%s%d", name, i), lines: lines, late: &sync.WaitGroup{},
	}
	for _, e := range w.edges {
		c.edges = append(c.edges, e.url)
	}
	return c
}

// write writes a run and compares it with the log.
func (w *killing) write(ctx context.Context, i int) error {
	rng := rand.New(rand.NewPCG(w.seed, uint64(i)<<8))
	session := fmt.Sprintf("s%d", i)
	first := ingesttest.Random(rng, session)
	writer := w.client(i, "r", first.Lines)
	if err := writer.open(ctx); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if i%8 > 0 {
		if err := w.whole(ctx, writer, first); err != nil {
			return err
		}
		return w.check(ctx, first, first.Check)
	}
	second := ingesttest.Random(rng, session)
	by := w.client(i, "t", second.Lines)
	by.takeOver = true
	// The first writer does not end its run, because the second one could not fence it then.
	replaced := make(chan error, 1)
	go func() { replaced <- writer.write(ctx) }()
	err := by.open(ctx)
	if err == nil {
		err = w.whole(ctx, by, second)
	}
	switch failed := <-replaced; {
	case errors.Is(failed, errFenced):
		w.fenced.Add(1)
	case failed != nil:
		return fmt.Errorf("the first writer: %w", failed)
	case writer.stored != len(first.Lines):
		return fmt.Errorf("the first writer has written %d of %d lines", writer.stored, len(first.Lines))
	}
	if err != nil {
		return fmt.Errorf("the second writer: %w", err)
	}
	return w.check(ctx, second, func(id string, log []chunk.Chunk) error { return first.CheckReplaced(id, writer.stored, second, log) }, first.Sessions()...)
}

// whole writes a run and ends it.
func (w *killing) whole(ctx context.Context, c *client, s *ingesttest.Script) error {
	if err := c.write(ctx); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	s.End()
	if err := c.end(ctx); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}

// check compares the sessions of a run, and others, with the log.
func (w *killing) check(ctx context.Context, s *ingesttest.Script, compare func(id string, log []chunk.Chunk) error, others ...string) error {
	for _, id := range append(s.Sessions(), others...) {
		log, err := w.log(ctx, chunk.RootSession(tenant, s.Session()).Child(id))
		if err == nil {
			err = compare(id, log)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// log returns the chunks of a session, none if there is no such session.
func (w *killing) log(ctx context.Context, of chunk.Session) (all []chunk.Chunk, err error) {
	for rec, err := range w.s.Log.Replay(ctx, chunk.Range{Session: of}) {
		if errors.Is(err, chunk.ErrUnknownSession) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		c, err := rec.Decode()
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}
