package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/sink/row"
)

// TestErasure deletes a session: the views leave it out at once, and no byte of it is in a file after Maintain, except in the rows of gaps that say so. Other sessions
// of the same files stay.
func TestErasure(t *testing.T) {
	path := t.TempDir()
	s := openDirectory(t, path)
	s.now = func() time.Time { return firstDay } // no day is over
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{63: "root-0"}}
	if err := commit(t.Context(), s, l, 13, 80); err != nil {
		t.Fatal(err)
	}
	want := l.erased(l.batch(0, 80), 80)
	db := openLake(t, path)
	wantTable(t, db, "events_current", "seq", want.Events)
	wantTable(t, db, "observations_current", "seq, id", want.Observations)

	// Statistics of columns are not compressed, and the root that is deleted is the smallest one.
	if n := filesWith(t, s, path, "root-0"); n == 0 {
		t.Error("no file contains the session before it is erased")
	}
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n := filesWith(t, s, path, "root-0"); n > 0 {
		t.Errorf("%d files contain the deleted session", n)
	}
	wantErased(t.Context(), t, s.objects, l, 80)
	wantTable(t, db, tableEvents, "seq", want.Events)
	if left, err := os.ReadDir(filepath.Join(path, scratchName)); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v", left, err)
	}
}

// filesWith returns how many files of events and observations contain a text, without those that begin after the deletion in the test.
func filesWith(t *testing.T, s *Store, path, text string) (count int) {
	t.Helper()
	for _, table := range []string{tableEvents, tableObservations} {
		names, err := s.files(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			data, err := os.ReadFile(filepath.Join(path, n.String()))
			if err != nil {
				t.Fatal(err)
			}
			if n.first < 52 && bytes.Contains(data, []byte(text)) {
				count++
			}
		}
	}
	return count
}

// TestErasureStops stops an erasure at each step in the file system. The erasure of the next process is complete.
func TestErasureStops(t *testing.T) {
	root := memoryDir(t)
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{25: "root-2", 35: "root-3"}}
	errStop := errors.New("stop")
	for n, stopped := 0, true; stopped; n++ {
		path := filepath.Join(root, fmt.Sprint(n))
		s := openDirectory(t, path)
		if err := commit(t.Context(), s, l, 20, 40); err != nil {
			t.Fatal(err)
		}
		step := 0
		s.objects.(*directory).fault = func(string) error {
			if step++; step <= n {
				return nil
			}
			return errStop
		}
		err := s.Maintain(t.Context(), time.Time{})
		stopped = errors.Is(err, errStop)
		if err != nil && !stopped {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		next := openDirectory(t, path)
		if _, err := next.Begin(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := next.Maintain(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		wantErased(t.Context(), t, next.objects, l, 40)
	}
}

// TestErasureReadsOnce is an erasure without a new deletion: it rewrites no file.
func TestErasureReadsOnce(t *testing.T) {
	o := &faulty{objects: newDirectory(t, memoryDir(t))}
	s := newStore(o)
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{5: "root-2"}}
	for _, through := range []int64{20, 40} {
		if err := commit(t.Context(), s, l, 20, through); err != nil {
			t.Fatal(err)
		}
		if err := s.Maintain(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	o.calls = 0
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if want := len(tables) + 2; o.calls != want {
		t.Errorf("an erasure with nothing to do made %d calls, want %d lists and reads", o.calls, want)
	}
}

// TestRestored continues a log that was restored from a backup: the views leave out what the log has lost, and Before finds the batches that both have.
func TestRestored(t *testing.T) {
	path := t.TempDir()
	s := openDirectory(t, path)
	old := testLog{generation: 1, history: "history1", deletions: map[int64]string{33: "root-4"}}
	if err := commit(t.Context(), s, old, 10, 35); err != nil {
		t.Fatal(err)
	}
	at, err := position(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	wantBefore(t, s, at, old.position(30), old.position(20), old.position(10))

	restored := testLog{generation: 2, history: "history2", boundary: 20}
	first := restored.batch(20, 28)
	if err := s.Commit(t.Context(), at, first); err != nil {
		t.Fatal(err)
	}
	second := restored.batch(28, 40)
	if err := s.Commit(t.Context(), restored.position(28), second); err != nil {
		t.Fatal(err)
	}
	if at, err = position(t.Context(), s); err != nil || at != restored.position(40) {
		t.Fatalf("position is %+v, %v", at, err)
	}
	wantBefore(t, s, at, restored.position(28), old.position(20), old.position(10))
	if err := s.Commit(t.Context(), old.position(35), old.batch(35, 38)); !errors.Is(err, row.ErrConflict) {
		t.Errorf("commit in the old history: %v, want ErrConflict", err)
	}

	// The deletion is of the old history: it erases what was stored before it, also where the restored log has it again.
	want := old.batch(0, 20)
	want.Events = append(append(want.Events, first.Events...), second.Events...)
	want.Observations = append(append(want.Observations, first.Observations...), second.Observations...)
	deletion := row.Gap{Place: row.Place{StreamEpoch: "history1", Seq: 33, StoredAt: storedAt(33), Tenant: "acme", Root: "root-4", Session: "root-4"}, Reason: row.Deleted}
	want.Events = without(want.Events, func(e *row.Event) bool { return deletion.Covers(&e.Place) })
	want.Observations = without(want.Observations, func(o *row.Observation) bool { return deletion.Covers(&o.Place) })
	db := openLake(t, path)
	wantTable(t, db, "events_current", "seq", want.Events)
	wantTable(t, db, "observations_current", "seq, id", want.Observations)
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	for _, e := range stored(t.Context(), t, s.objects).Events {
		if deletion.Covers(&e.Place) {
			t.Errorf("row of %s at %d of %s is not erased", e.Root, e.Seq, e.StreamEpoch)
		}
	}
}

// TestRestoredAfterMerge has a restored log whose earlier batches were merged over its beginning: Before returns the history
// of the earlier generation all the same, because its rows are lost if the log is restored again to an earlier record.
func TestRestoredAfterMerge(t *testing.T) {
	const boundary, end = 28, recordsPerDay + 20
	c := newClock()
	s := c.store(newDirectory(t, memoryDir(t)))
	old, restored := testLog{generation: 1, history: "history1"}, testLog{generation: 2, history: "history2", boundary: boundary}
	if err := commit(t.Context(), s, old, 7, recordsPerDay+6); err != nil {
		t.Fatal(err)
	}
	at, err := position(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), at, restored.batch(boundary, boundary)); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*row.Batch{restored.batch(boundary, recordsPerDay), restored.batch(recordsPerDay, recordsPerDay+9), restored.batch(recordsPerDay+9, end)} {
		if at, err = position(t.Context(), s); err == nil {
			err = s.Commit(t.Context(), at, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.maintain(t.Context(), s, time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantBefore(t, s, restored.position(recordsPerDay), row.Position{Generation: 1, History: "history1"})
}

// TestErasureOfRestoredRecords is a restored log whose records of a deleted session come after the erasure.
func TestErasureOfRestoredRecords(t *testing.T) {
	s := newStore(&faulty{objects: newDirectory(t, memoryDir(t))})
	old := testLog{generation: 1, history: "history1", deletions: map[int64]string{33: "root-4"}}
	if err := commit(t.Context(), s, old, 10, 35); err != nil {
		t.Fatal(err)
	}
	restored := testLog{generation: 2, history: "history2", boundary: 20}
	at, to := old.position(35), []int64{22, 28, 32}
	for i, from := range []int64{20, 22, 28} {
		if err := s.Maintain(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), at, restored.batch(from, to[i])); err != nil {
			t.Fatal(err)
		}
		at = restored.position(to[i])
	}
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	b := stored(t.Context(), t, s.objects)
	for _, e := range b.Events {
		if e.Root == "root-4" && (e.Seq <= 33 || e.StreamEpoch == "history2") {
			t.Errorf("event at %d of %s is not erased", e.Seq, e.StreamEpoch)
		}
	}
	if len(b.Events) == 0 {
		t.Error("all events are erased")
	}
}

func without[T any](rows []T, remove func(*T) bool) (left []T) {
	for i := range rows {
		if !remove(&rows[i]) {
			left = append(left, rows[i])
		}
	}
	return left
}

func wantBefore(t *testing.T, s *Store, at row.Position, want ...row.Position) {
	t.Helper()
	var got []row.Position
	for {
		before, ok, err := s.Before(context.Background(), at)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		got, at = append(got, before), before
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("positions before differ (-want +got):\n%s", diff)
	}
}
