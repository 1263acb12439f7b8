package hublog

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/compact"
	"github.com/tailrace/tailrace/internal/logtest"
)

// TestLogKeepsTheContractFromArchives: the same, with everything archived that
// can be whenever somebody begins to read.
func TestLogKeepsTheContractFromArchives(t *testing.T) {
	var archived uint64
	logtest.Exercise(t, func(t *testing.T) logtest.World {
		t.Helper()
		w := newWorld(t)
		js, err := jetstream.New(w.conn)
		w.must(err)
		r, err := consumers.New(w.conn, js, consumers.Config{Heartbeat: 100 * time.Millisecond, Archives: true})
		w.must(err)
		c, err := compact.New(w.js, compact.Config{})
		w.must(err)
		w.Log = Log{r}
		t.Cleanup(func() { archived += r.Stats().Archived })
		return &archivedWorld{world: w, c: c}
	})
	if archived == 0 {
		t.Error("nothing was read from archives")
	}
}

// archivedWorld archives what is about to be read.
type archivedWorld struct {
	*world

	c *compact.Compactor
}

func (w *archivedWorld) Replay(ctx context.Context, s chunk.Session, after chunk.Position, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	w.archive(s)
	return w.world.Replay(ctx, s, after, through)
}

func (w *archivedWorld) ReplayTree(ctx context.Context, root chunk.Session, after, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	w.archive(root)
	return w.world.ReplayTree(ctx, root, after, through)
}

// archive tries all sessions of the tree.
func (w *archivedWorld) archive(root chunk.Session) {
	w.t.Helper()
	for s := range w.last {
		if s.Tree() != root.Tree() {
			continue
		}
		_, err := w.c.Compact(w.t.Context(), s)
		if err != nil && !errors.Is(err, compact.ErrUnfit) && !errors.Is(err, chunk.ErrUnknownSession) {
			w.t.Fatal(err)
		}
	}
}
