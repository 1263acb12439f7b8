package consumers_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// TestLogKeepsTheContractFromArchives runs the same contract, but archives everything that can be archived before each read.
func TestLogKeepsTheContractFromArchives(t *testing.T) {
	var archived uint64
	memlog.RunContract(t, func(t *testing.T) memlog.TestLog {
		t.Helper()
		w := newEnv(t)
		r := w.newReader(consumers.Config{Heartbeat: 100 * time.Millisecond, UseArchives: true})
		c, err := retention.NewArchiver(w.JS, retention.ArchiverConfig{})
		w.must(err)
		w.Reader = r
		t.Cleanup(func() { archived += r.Stats().Archived })
		return &archivedEnv{env: w, c: c}
	})
	if archived == 0 {
		t.Error("nothing was read from archives")
	}
}

// archivedEnv archives the sessions of a range before it reads the range.
type archivedEnv struct {
	*env

	c *retention.Archiver
}

func (w *archivedEnv) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	w.archive(of.Session)
	return w.env.Replay(ctx, of)
}

// archive archives the sessions of the tree that can be archived.
func (w *archivedEnv) archive(root chunk.Session) {
	w.t.Helper()
	for s := range w.last {
		if s.Tree() != root.Tree() {
			continue
		}
		_, err := w.c.Archive(w.t.Context(), s)
		if err != nil && !errors.Is(err, retention.ErrNotArchivable) && !errors.Is(err, chunk.ErrUnknownSession) {
			w.t.Fatal(err)
		}
	}
}
