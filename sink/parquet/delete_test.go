package parquet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/sink/row"
)

// sessionsOf returns the sessions of a lake, sorted.
func sessionsOf(t *testing.T, s *Store, of row.Selection) (places []row.Place) {
	t.Helper()
	if err := s.Sessions(t.Context(), of, func(p row.Place) error { places = append(places, p); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(places, func(a, b row.Place) int { return cmp.Compare(a.Root, b.Root) })
	return places
}

// lastPlaces returns what sessionsOf must return of rows.
func lastPlaces(b *row.Batch, since time.Time, counts func(*row.Place) bool) (places []row.Place) {
	last := map[string]row.Place{}
	add := func(p row.Place) {
		if known := last[p.Root]; counts(&p) && !p.StoredAt.Before(since) && p.IsAfter(&known) {
			last[p.Root] = p
		}
	}
	for _, e := range b.Events {
		add(e.Place)
	}
	for _, o := range b.Observations {
		add(o.Place)
	}
	for _, p := range last {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b row.Place) int { return cmp.Compare(a.Root, b.Root) })
	return places
}

// TestDelete deletes sessions without a record, beside the process that writes: the views leave them out at once, Sessions too, and Erase removes them once.
func TestDelete(t *testing.T) {
	path := t.TempDir()
	s := openDirectory(t, path)
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{63: "root-3"}}
	if err := commit(t.Context(), s, l, 13, 90); err != nil {
		t.Fatal(err)
	}
	rows := l.erased(l.batch(0, 90), 90)
	all := func(*row.Place) bool { return true }
	for _, since := range []time.Time{{}, storedAt(1), storedAt(41), storedAt(88), storedAt(95)} {
		if diff := gocmp.Diff(lastPlaces(rows, since, all), sessionsOf(t, s, row.Selection{Since: since})); diff != "" {
			t.Errorf("sessions since %s (-want +got):\n%s", since, diff)
		}
	}
	if got := sessionsOf(t, s, row.Selection{Tenant: "zeta"}); got != nil {
		t.Errorf("sessions of another tenant: %v", got)
	}
	if got := sessionsOf(t, s, row.Selection{Partition: 1}); got != nil {
		t.Errorf("sessions of another partition: %v", got)
	}

	other, err := OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	found := sessionsOf(t, other, row.Selection{Tenant: "acme", Root: "root-1"})
	if len(found) != 1 {
		t.Fatalf("sessions of a root: %v", found)
	}
	deletion := row.DeletionThrough(found[0])
	for range 2 {
		if err := other.Delete(t.Context(), []row.Gap{deletion}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, through int64) {
		t.Helper()
		rows := l.erased(l.batch(0, through), through)
		rows.Events = without(rows.Events, func(e *row.Event) bool { return deletion.Covers(&e.Place) })
		rows.Observations = without(rows.Observations, func(o *row.Observation) bool { return deletion.Covers(&o.Place) })
		db := openLake(t, path)
		wantTable(t, db, "events_current", "seq", rows.Events)
		wantTable(t, db, "observations_current", "seq, id", rows.Observations)
		if diff := gocmp.Diff(lastPlaces(rows, time.Time{}, all), sessionsOf(t, s, row.Selection{})); diff != "" {
			t.Errorf("%s: sessions (-want +got):\n%s", what, diff)
		}
	}
	want("deleted", 90)
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	for _, e := range stored(t.Context(), t, s.objects).Events {
		if deletion.Covers(&e.Place) {
			t.Errorf("the event at %d is not erased", e.Seq)
		}
	}
	if err := commit(t.Context(), s, l, 13, 110); err != nil { // the session again
		t.Fatal(err)
	}
	want("continued", 110)
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	want("erased again", 110)
	if len(deletionsIn(t.Context(), t, s)) != 2 {
		t.Error("the deletions are not there")
	}
	if err := s.Maintain(t.Context(), s.now().AddDate(0, 0, 2)); err != nil {
		t.Fatal(err)
	}
	if len(deletionsIn(t.Context(), t, s)) > 0 {
		t.Error("the deletions are there after all rows were too old")
	}
	positions, err := other.Positions(t.Context(), 2)
	if diff := gocmp.Diff([]row.Position{l.position(110), {Partition: 1}}, positions); err != nil || diff != "" {
		t.Errorf("positions %v, %v (-want +got):\n%s", positions, err, diff)
	}
}

// TestDeleteOfLostRows leaves out rows that the log has lost, and erases records that a restored log has again.
func TestDeleteOfLostRows(t *testing.T) {
	s := newStore(&faulty{objects: newDirectory(t, memoryDir(t))})
	old := testLog{generation: 1, history: "history1"}
	if err := commit(t.Context(), s, old, 10, 35); err != nil {
		t.Fatal(err)
	}
	restored := testLog{generation: 2, history: "history2", boundary: 20}
	b := restored.batch(20, 22)
	b.Gaps[0].ToSeq = nil
	if err := s.Commit(t.Context(), old.position(35), b); err != nil {
		t.Fatal(err)
	}
	rows := old.batch(0, 20)
	rows.Events, rows.Observations = append(rows.Events, b.Events...), append(rows.Observations, b.Observations...)
	places := lastPlaces(rows, time.Time{}, func(*row.Place) bool { return true })
	if diff := gocmp.Diff(places, sessionsOf(t, s, row.Selection{})); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	through := places[4]
	through.StoredAt, through.StreamEpoch, through.Seq = storedAt(35), "history1", 35
	if err := errors.Join(s.Delete(t.Context(), []row.Gap{row.DeletionThrough(through)}), s.Maintain(t.Context(), time.Time{})); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), restored.position(22), restored.batch(22, 38)); err != nil {
		t.Fatal(err)
	}
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	for _, e := range stored(t.Context(), t, s.objects).Events {
		if e.Root == through.Root && !e.StoredAt.After(through.StoredAt) {
			t.Errorf("the event at %d of %s is not erased", e.Seq, e.StreamEpoch)
		}
	}
}

// TestLastPlaceByAnEarlierClock deletes a session whose last record has an earlier time than the one before, because the stream has got another leader: no row is left.
func TestLastPlaceByAnEarlierClock(t *testing.T) {
	s := openDirectory(t, t.TempDir())
	l := testLog{generation: 1, history: "history1"}
	b := &row.Batch{Through: l.position(2)}
	for seq := range int64(2) {
		b.Events = append(b.Events, row.Event{Place: row.Place{
			StreamEpoch: "history1", Seq: seq + 1, StoredAt: storedAt(1).Add(-time.Duration(seq) * time.Millisecond), Tenant: "acme", Root: "root-1", Session: "root-1",
		}})
	}
	if _, err := s.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), row.Position{}, b); err != nil {
		t.Fatal(err)
	}
	deletion := row.DeletionThrough(sessionsOf(t, s, row.Selection{})[0])
	if err := s.Delete(t.Context(), []row.Gap{deletion}); err != nil {
		t.Fatal(err)
	}
	if left := sessionsOf(t, s, row.Selection{}); len(left) > 0 {
		t.Errorf("rows are left at %v", left)
	}
}

// TestDeleteFails deletes a session and erases it while each call fails once, with and without its effect.
func TestDeleteFails(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			l := testLog{generation: 1, history: "history1"}
			for n, failed := 0, true; failed; n++ {
				for _, after := range []bool{false, true} {
					o := &faulty{objects: kind(t)}
					s := newStore(o)
					if err := commit(t.Context(), s, l, 20, 40); err != nil {
						t.Fatal(err)
					}
					deletion := row.DeletionThrough(sessionsOf(t, s, row.Selection{Root: "root-2"})[0])
					o.calls, failed = 0, false
					o.fault = func(call int) (bool, bool) {
						if call != n {
							return false, false
						}
						failed = true
						return !after, after
					}
					try := func(do func(context.Context) error) {
						t.Helper()
						err := do(t.Context())
						if errors.Is(err, errFault) {
							err = do(t.Context())
						}
						if err != nil {
							t.Fatal(err)
						}
					}
					try(func(ctx context.Context) error { return s.Delete(ctx, []row.Gap{deletion}) })
					try(func(ctx context.Context) error { return s.Maintain(ctx, time.Time{}) })
					o.fault = nil
					for _, e := range stored(t.Context(), t, s.objects).Events {
						if e.Root == "root-2" {
							t.Fatalf("call %d: the event at %d is not erased", n, e.Seq)
						}
					}
				}
			}
		})
	}
}

// BenchmarkSessions reads a million sessions of 50 days.
func BenchmarkSessions(b *testing.B) {
	s := newStore(newBenchDirectory(b))
	const perBatch, batches = 20_000, 50
	at, err := position(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	for i := range batches {
		batch := &row.Batch{Through: row.Position{Generation: 1, History: "h", Seq: at.Seq + perBatch, StoredAt: firstDay.AddDate(0, 0, i)}}
		for j := range perBatch {
			seq := int64(i*perBatch + j + 1)
			root := fmt.Sprintf("root-of-a-session-%d", seq)
			batch.Events = append(batch.Events, row.Event{Place: row.Place{StreamEpoch: "h", Seq: seq, StoredAt: firstDay.AddDate(0, 0, i), Tenant: "acme", Root: root, Session: root}, Body: `{"some":"content of the record"}`})
		}
		if err := s.Commit(b.Context(), at, batch); err != nil {
			b.Fatal(err)
		}
		at = batch.Through
	}
	for b.Loop() {
		n := 0
		if err := s.Sessions(b.Context(), row.Selection{}, func(row.Place) error { n++; return nil }); err != nil || n != perBatch*batches {
			b.Fatal(n, err)
		}
	}
}

func newBenchDirectory(b *testing.B) *directory {
	b.Helper()
	return newDirectory(b, filepath.Join(b.TempDir(), "lake"))
}
