package postgres

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

// TestModel commits random batches of random logs by two writers, which repeat batches, use old positions and find the log restored. The database has the rows of the
// log up to the stored position, each row once.
func TestModel(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	first, second := openStore(t, url), openStore(t, url)
	begin(t, first)
	second.months.forget() // this writer has begun once, and has lost its lease since
	rapid.Check(t, func(t2 *rapid.T) {
		_, err := conn.Exec(t.Context(), `TRUNCATE tailrace.events, tailrace.observations, tailrace.gaps, tailrace.sessions, tailrace.positions, tailrace.positions_log`)
		if err != nil {
			t2.Fatal(err)
		}
		w := &scenario{ctx: t.Context(), model: newModel(), log: drawLog(t2, row.Position{}, 1, rapid.IntRange(1, 40).Draw(t2, "records"))}
		w.writers = [2]*writer{{store: first}, {store: second}}
		w.readPosition(t2, 0)
		t2.Repeat(map[string]func(*rapid.T){
			"commit":        func(t *rapid.T) { w.commit(t, rapid.IntRange(0, 1).Draw(t, "writer")) },
			"commit again":  w.commitAgain,
			"read position": func(t *rapid.T) { w.readPosition(t, rapid.IntRange(0, 1).Draw(t, "writer")) },
			"lose answer":   w.loseAnswer,
			"restore log":   w.restoreLog,
			"":              func(t2 *rapid.T) { compare(t2, "rows", w.model.contents(), read(t.Context(), t2, conn)) },
		})
		checkSessions(t.Context(), t2, conn)
	})
}

// scenario is a log, two writers of one sink and the rows that are expected.
type scenario struct {
	ctx     context.Context
	log     []record // the records that are in the log, also those that are stored
	stored  row.Position
	model   *model
	writers [2]*writer
	last    *row.Batch // that was stored, and its position before
	after   row.Position
}

// writer is a store and the position that its process has read.
type writer struct {
	store *Store
	at    row.Position
}

// rest returns the records after a position of the present history.
func (w *scenario) rest(after row.Position) []record {
	for i, r := range w.log {
		if r.at.Seq > after.Seq {
			return w.log[i:]
		}
	}
	return nil
}

func (w *scenario) commit(t *rapid.T, i int) {
	writer := w.writers[i]
	rest := w.rest(writer.at)
	if len(rest) == 0 {
		return
	}
	records := rest[:rapid.IntRange(1, len(rest)).Draw(t, "size")]
	b := batchOf(records)
	err := writer.store.Commit(w.ctx, writer.at, b)
	if writer.at != w.stored {
		if !errors.Is(err, row.ErrConflict) {
			t.Fatalf("commit after %v, stored is %v: %v, want ErrConflict", writer.at, w.stored, err)
		}
		w.readPosition(t, i)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	w.model.apply(records)
	w.last, w.after = b, writer.at
	writer.at, w.stored = b.Through, b.Through
}

func (w *scenario) commitAgain(t *rapid.T) {
	if w.last == nil {
		return
	}
	for _, writer := range w.writers {
		if err := writer.store.Commit(w.ctx, w.after, w.last); !errors.Is(err, row.ErrConflict) {
			t.Fatalf("repeated commit: %v, want ErrConflict", err)
		}
	}
}

// readPosition reads the position as Begin does, without the lease, which the other writer may have.
func (w *scenario) readPosition(t *rapid.T, i int) {
	writer := w.writers[i]
	if i == 0 {
		positions, err := writer.store.Begin(w.ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		writer.at = positions[0]
		return
	}
	writer.at = w.stored
}

// loseAnswer forgets that a commit has succeeded: the writer has its old position.
func (w *scenario) loseAnswer(t *rapid.T) {
	w.writers[rapid.IntRange(0, 1).Draw(t, "writer")].at = w.after
}

// restoreLog continues the log in another history, after the end of an older commit.
func (w *scenario) restoreLog(t *rapid.T) {
	boundary, found, err := w.writers[0].store.Before(w.ctx, w.stored)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return
	}
	generation := w.stored.Generation + 1
	lost := record{at: boundary}
	lost.at.Generation, lost.at.History = generation, "history"+string(rune('0'+generation))
	if boundary.Generation != w.stored.Generation || generation > 9 {
		return // the run loop writes a gap for each history; one is enough here
	}
	lost.gaps = []row.Gap{{
		Place:  row.Place{StreamEpoch: w.stored.History, Seq: int64(boundary.Seq) + 1, StoredAt: boundary.StoredAt},
		Reason: row.Recreated, FromSeq: new(int64(boundary.Seq) + 1), ToSeq: new(int64(w.stored.Seq)),
	}}
	if err := w.writers[0].store.Commit(w.ctx, w.stored, batchOf([]record{lost})); err != nil {
		t.Fatal(err)
	}
	w.model.apply([]record{lost})
	w.stored, w.last = lost.at, nil
	w.writers[0].at = lost.at
	w.log = drawLog(t, lost.at, generation, rapid.IntRange(1, 20).Draw(t, "records"))
}
