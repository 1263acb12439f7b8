package jssnapshots

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// foldTo folds the log through a sequence, record by record.
func (w *env) foldTo(s chunk.Session, seq chunk.Seq) fold.Snapshot {
	w.tb.Helper()
	folder := fold.New(s)
	for rec, err := range w.log.Replay(w.tb.Context(), chunk.Range{Session: s, Through: seq}) {
		if err == nil {
			if err = folder.Apply(rec); errors.Is(err, fold.ErrInvalidRecord) {
				err = folder.Skip(rec, err.Error())
			}
		}
		if err != nil {
			w.tb.Fatal(err)
		}
	}
	return folder.Snapshot()
}

// Snapshots that are read while chunks arrive are compared with a fold to the sequence that they contain, and so are the heads that the projector stores.
func TestReadWhileChunksArrive(t *testing.T) {
	const seed = 32
	w := newEnv(t)
	w.project(SourceConfig{})
	draft := storetest.NewLog()
	sessions := []chunk.Session{s1, chunk.RootSession("acme", "s2"), s1.Child("c")}
	done := make(chan struct{})
	var writing sync.WaitGroup
	var all [][]chunk.Record
	for i, s := range sessions {
		a := storetest.NewSessionGenerator(draft, s, seed+uint64(i))
		a.WithCleanups = false
		all = append(all, a.Write(t, 400))
	}
	progress := make(chan struct{}, 1) // of the reader, so that it reads between the writes on a machine of any speed
	writing.Go(func() {
		defer close(done)
		for len(all[0]) > 0 {
			select {
			case <-progress:
			case <-t.Context().Done():
				return
			}
			for i := range all {
				n := min(5, len(all[i]))
				w.copy(all[i][:n])
				all[i] = all[i][n:]
			}
		}
	})
	var read []fold.Snapshot
	random := rand.New(rand.NewPCG(seed, 0))
	for arriving := true; arriving; {
		select {
		case <-done:
			arriving = false
		default:
		}
		select {
		case progress <- struct{}{}:
		default:
		}
		s := sessions[random.IntN(len(sessions))]
		snap, err := w.reader.Snapshot(t.Context(), s)
		if errors.Is(err, chunk.ErrUnknownSession) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, snap)
		if pos, _, _, err := w.reader.StoredPosition(t.Context(), s); err == nil && pos.Seq > 0 {
			if stored := storetest.Stored(t, w.store, s); stored.Position.Seq >= pos.Seq {
				read = append(read, stored)
			}
		}
	}
	writing.Wait()
	between := 0
	for _, snap := range read {
		storetest.Equal(t, snap.Session.String(), snap, w.foldTo(snap.Session, snap.Position.Seq))
		if last, err := w.log.Last(t.Context(), snap.Session); err == nil && snap.Position != last.Position() {
			between++
		}
	}
	t.Logf("seed %d: %d snapshots, %d of them while chunks arrived", seed, len(read), between)
	if between < 5 {
		t.Errorf("only %d of %d snapshots were read while chunks arrived", between, len(read))
	}
}
