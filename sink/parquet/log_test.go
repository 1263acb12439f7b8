package parquet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// testLog is the log of a partition: its rows are a function of the sequence. It has recordsPerDay records a day.
type testLog struct {
	generation int
	history    string
	boundary   int64 // of the generation before
	deletions  map[int64]string
}

const recordsPerDay = 40

var firstDay = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func storedAt(seq int64) time.Time {
	return firstDay.AddDate(0, 0, int((seq-1)/recordsPerDay)).Add(time.Duration((seq-1)%recordsPerDay) * time.Minute)
}

func rootOf(seq int64) string { return fmt.Sprintf("root-%d", seq%5) }

func (l testLog) position(seq int64) row.Position {
	at := storedAt(seq)
	return row.Position{Generation: l.generation, History: l.history, Seq: chunk.Seq(seq), Anchor: chunk.AnchorAt(at), StoredAt: at}
}

// batch has the rows after one record and up to another one. Some records have no row of some tables.
func (l testLog) batch(after, through int64) *row.Batch {
	b := &row.Batch{Through: l.position(through)}
	if l.generation > 1 && after == l.boundary {
		b.Gaps = append(b.Gaps, row.Gap{
			Place:  row.Place{StreamEpoch: "history1", Seq: l.boundary + 1, StoredAt: storedAt(l.boundary + 1), Tenant: "", Root: "", Session: ""},
			Reason: row.Recreated, FromSeq: new(l.boundary + 1),
		})
	}
	for seq := after + 1; seq <= through; seq++ {
		place := row.Place{StreamEpoch: l.history, Seq: seq, StoredAt: storedAt(seq), Tenant: "acme", Root: rootOf(seq), Session: rootOf(seq)}
		if seq%3 != 0 {
			b.Events = append(b.Events, row.Event{Place: place, Ordinal: seq, Type: "text_delta", Time: place.StoredAt, Body: row.JSON(fmt.Sprintf(`{"n":%d}`, seq))})
		}
		for i := range seq % 7 / 4 {
			o := row.Observation{Place: place, ID: fmt.Sprint(seq, "-", i), Kind: row.Step, StartTime: place.StoredAt, FirstSeq: seq, FirstOrdinal: seq}
			o.Cost, o.Currency, o.EndTime = new(row.Money(seq*1_000_000_001)), "USD", &place.StoredAt
			b.Observations = append(b.Observations, o)
		}
		if root, ok := l.deletions[seq]; ok {
			place.Root, place.Session = root, root
			b.Gaps = append(b.Gaps, row.Gap{Place: place, Reason: row.Deleted, ToSeq: &seq})
		}
		if seq%11 == 0 {
			b.Gaps = append(b.Gaps, row.Gap{Place: place, Reason: row.Malformed, FromSeq: &seq})
		}
	}
	return b
}

// erased is what a batch is after the erasures of the log up to a record.
func (l testLog) erased(b *row.Batch, through int64) *row.Batch {
	var gaps []row.Gap
	for seq, root := range l.deletions {
		if seq <= through {
			gaps = append(gaps, row.Gap{Place: row.Place{StreamEpoch: l.history, Seq: seq, Tenant: "acme", Root: root, Session: root}, Reason: row.Deleted})
		}
	}
	covered := func(p *row.Place) bool {
		return slices.ContainsFunc(gaps, func(g row.Gap) bool { return g.Covers(p) })
	}
	b.Events = slices.DeleteFunc(b.Events, func(e row.Event) bool { return covered(&e.Place) })
	b.Observations = slices.DeleteFunc(b.Observations, func(o row.Observation) bool { return covered(&o.Place) })
	return b
}

// cut is the end of a batch that begins after a record and has at most n records: it ends with the day.
func cut(after, n int64) int64 { return min(after+n, (after/recordsPerDay+1)*recordsPerDay) }

// commit stores the records up to a sequence in batches of n, as the loop of a sink does: after an error it reads the position again.
func commit(ctx context.Context, s *Store, l testLog, n, through int64) error {
	at, err := position(ctx, s)
	if err != nil {
		return err
	}
	for int64(at.Seq) < through {
		to := cut(int64(at.Seq), n)
		err := s.Commit(ctx, at, l.batch(int64(at.Seq), min(to, through)))
		switch {
		case errors.Is(err, row.ErrConflict):
			if at, err = position(ctx, s); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			at = l.position(min(to, through))
		}
	}
	return nil
}

func position(ctx context.Context, s *Store) (row.Position, error) {
	at, err := s.Begin(ctx, 1)
	if err != nil {
		return row.Position{}, err
	}
	return at[0], nil
}

// counted returns the files of a table whose rows count, as the views choose them.
func counted(ctx context.Context, t testFailer, o objects, table string) (files []file) {
	t.Helper()
	u := upkeep{Store: newStore(o)}
	all, err := u.files(ctx, table)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		s, err := u.readState(ctx, f.partition)
		if err != nil {
			t.Fatal(err)
		}
		if f.merged == (f.first < s.chain(table, f.partition, f.generation).End) {
			files = append(files, f)
		}
	}
	return files
}

// stored returns all rows of a lake in the order of their sequences, and fails if the files of a table that count are not a chain.
func stored(ctx context.Context, t testFailer, o objects) *row.Batch {
	t.Helper()
	return storedFrom(ctx, t, o, false)
}

// storedFrom is stored for a lake in which files of old days may be removed.
func storedFrom(ctx context.Context, t testFailer, o objects, removed bool) *row.Batch {
	t.Helper()
	b := &row.Batch{}
	for _, table := range tables {
		generation, next := 0, uint64(0)
		for _, n := range counted(ctx, t, o, table) {
			f, err := footerOf(ctx, o, n.String())
			if err != nil {
				t.Fatal(err)
			}
			if n.generation != generation {
				generation, next = n.generation, 0
			}
			if removed {
				next = max(next, f.first) // the first file of a generation may have the day of the last record of the one before
			}
			if f.first != n.first || f.first != next || uint64(f.through.Seq) < f.first {
				t.Errorf("%s has the records %d to %d, want them from %d", n, f.first, f.through.Seq, next)
			}
			next = uint64(f.through.Seq) + 1
			data, _, err := read(ctx, o, n.String())
			if err != nil {
				t.Fatal(err)
			}
			switch table {
			case tableEvents:
				b.Through = f.through
				b.Events = append(b.Events, rowsOf[row.Event](t, data)...)
			case tableObservations:
				b.Observations = append(b.Observations, rowsOf[row.Observation](t, data)...)
			case tableGaps:
				b.Gaps = append(b.Gaps, rowsOf[row.Gap](t, data)...)
			}
		}
	}
	return b
}

func rowsOf[T any](t testFailer, data []byte) []T {
	t.Helper()
	rows, err := decode[T](data)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// wantStored fails if a lake does not have each row of the log up to its position once. Rows of other tables than events may be ahead of it.
func wantStored(ctx context.Context, t testFailer, o objects, l testLog, through int64) {
	t.Helper()
	got, want := stored(ctx, t, o), l.batch(0, through)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows in the lake differ (-want +got):\n%s", diff)
	}
}

// wantErased is wantStored after the erasures up to the position.
func wantErased(ctx context.Context, t testFailer, o objects, l testLog, through int64) {
	t.Helper()
	got, want := stored(ctx, t, o), l.erased(l.batch(0, through), through)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows in the lake differ (-want +got):\n%s", diff)
	}
}

// testFailer is a testing.TB or a *rapid.T.
type testFailer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// advance commits one batch of at most n records after what the writer knows, as a loop does that has read the position before.
func advance(ctx context.Context, s *Store, l testLog, n, end int64) error {
	s.mu.Lock()
	at, begun := s.positions[0], s.begun && s.known
	s.mu.Unlock()
	if !begun {
		var err error
		if at, err = position(ctx, s); err != nil {
			return err
		}
	}
	if int64(at.Seq) >= end {
		return nil
	}
	err := s.Commit(ctx, at, l.batch(int64(at.Seq), min(cut(int64(at.Seq), n), end)))
	if errors.Is(err, row.ErrConflict) {
		_, err = position(ctx, s)
	}
	return err
}

// wantRows compares rows.
func wantRows(t testFailer, want, got *row.Batch) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows in the lake differ (-want +got):\n%s", diff)
	}
}
