package parquet

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/sink/internal/duckdbtest"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/sql"
)

// TestLake compares what DuckDB reads with the log, after random commits, faults, restarts, erasures, merges and removals of old days of two writers, one of which may be
// suspended while the other one works, and after the log was restored.
func TestLake(t *testing.T) {
	const end = 2*recordsPerDay + 10
	root := memoryDir(t)
	db := duckdbtest.Open(t)
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue { // each takes a second in DuckDB
		if err := checks.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
		defer checks.Value.Set(checks.DefValue)
	}
	rapid.Check(t, func(t *rapid.T) {
		path, err := os.MkdirTemp(root, "") //nolint:usetesting // a rapid.T has no directory
		if err != nil {
			t.Fatal(err)
		}
		ctx, c := context.Background(), newClock()
		files := &versioned{directory: newDirectory(t, path)}
		log := testLog{generation: 1, history: "history1", deletions: map[int64]string{}}
		for range rapid.IntRange(0, 4).Draw(t, "deletions") {
			log.deletions[rapid.Int64Range(1, end).Draw(t, "deleted at")] = rootOf(rapid.Int64Range(0, 4).Draw(t, "root"))
		}
		var olderThan time.Time
		if rapid.Bool().Draw(t, "keep") {
			olderThan = storedAt(rapid.Int64Range(1, end).Draw(t, "older than"))
		}
		writers := []*Store{c.store(&faulty{objects: files}), c.store(&faulty{objects: files})}
		act := func(i int, names ...string) error {
			switch rapid.SampledFrom(names).Draw(t, "action") {
			case "commit":
				return advance(ctx, writers[i], log, rapid.Int64Range(5, 30).Draw(t, "records"), end)
			case "maintain":
				return writers[i].Maintain(ctx, olderThan)
			case "hour":
				c.at = c.at.Add(grace)
			case "restart":
				writers[i] = c.store(&faulty{objects: files})
			case "delete":
				return deleteRoot(ctx, writers[i], rootOf(rapid.Int64Range(0, 4).Draw(t, "root")))
			}
			return nil
		}
		run := func(actions int) {
			for range actions {
				i := rapid.IntRange(0, 1).Draw(t, "writer")
				o := writers[i].objects.(*faulty)
				failing, answerLost := rapid.IntRange(0, 30).Draw(t, "call"), rapid.Bool().Draw(t, "answer lost")
				suspended := rapid.Bool().Draw(t, "suspended")
				o.calls = 0
				o.fault = func(call int) (before, after bool) {
					switch {
					case call != failing:
						return false, false
					case !suspended:
						return !answerLost, answerLost
					}
					for range rapid.IntRange(1, 8).Draw(t, "meanwhile") {
						if err := act(1-i, "commit", "maintain", "hour", "delete"); err != nil {
							t.Fatal(err)
						}
					}
					return false, false
				}
				err := act(i, "commit", "commit", "maintain", "maintain", "hour", "restart", "delete")
				// A file that a suspended process has in its list may be removed.
				if err != nil && !errors.Is(err, errFault) && !errors.Is(err, row.ErrConflict) && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				o.fault = nil
			}
		}
		run(rapid.IntRange(1, 12).Draw(t, "actions"))
		boundary := int64(end)
		if rapid.Bool().Draw(t, "restored") {
			boundary, log = restore(ctx, t, writers[0], log, rapid.Int64Range(0, end).Draw(t, "backup"))
			boundary = min(boundary, end)
			writers[1] = c.store(&faulty{objects: files})
			run(rapid.IntRange(1, 12).Draw(t, "actions after"))
		}

		last := c.store(&faulty{objects: files})
		if err := commit(ctx, last, log, 17, end); err != nil {
			t.Fatal(err)
		}
		if err := c.maintain(ctx, last, olderThan); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Try(sql.DuckDB(path)); err != nil {
			t.Fatal(err)
		}
		var want row.Batch
		first := testLog{generation: 1, history: "history1", deletions: log.deletions}
		for _, b := range []*row.Batch{first.batch(0, boundary), log.batch(boundary, end)} {
			if boundary == end && b.Through.Generation == 2 {
				break
			}
			want.Events, want.Observations = append(want.Events, b.Events...), append(want.Observations, b.Observations...)
		}
		left := storedFrom(ctx, t, files, true)
		deletions := deletionsIn(ctx, t, last)
		gaps := slices.Concat(left.Gaps, deletions)
		if slices.ContainsFunc(left.Events, func(e row.Event) bool {
			return slices.ContainsFunc(deletions, func(g row.Gap) bool { return g.Covers(&e.Place) })
		}) {
			t.Error("rows are in the files that were deleted without a record")
		}
		gone := func(p *row.Place) bool {
			return !olderThan.IsZero() && dateOf(p.StoredAt) < dateOf(olderThan) || slices.ContainsFunc(gaps, func(g row.Gap) bool { return g.Covers(p) })
		}
		want.Events = without(want.Events, func(e *row.Event) bool { return gone(&e.Place) })
		want.Observations = without(want.Observations, func(o *row.Observation) bool { return gone(&o.Place) })
		wantTable(t, db, "events_current", "seq", want.Events)
		wantTable(t, db, "observations_current", "seq, id", want.Observations)
		rows, err := db.Try(`select 1 from (select count(*) as n from events group by stream_epoch, partition, seq
			union all select count(*) from observations group by stream_epoch, partition, seq, id
			union all select count(*) from gaps where reason <> 'deleted' group by stream_epoch, partition, seq, reason) where n > 1`)
		if err != nil || len(rows) > 0 {
			t.Errorf("%d rows are there twice, %v", len(rows), err)
		}
	})
}

// deleteRoot deletes a tree as far as it is stored.
func deleteRoot(ctx context.Context, s *Store, root string) error {
	var last row.Place
	err := s.Sessions(ctx, row.Selection{Root: root}, func(p row.Place) error {
		if p.IsAfter(&last) {
			last = p
		}
		return nil
	})
	if err != nil || last.Root == "" {
		return err
	}
	last.Session = root
	return s.Delete(ctx, []row.Gap{row.DeletionThrough(last)})
}

// deletionsIn returns the gaps of all calls of Delete.
func deletionsIn(ctx context.Context, t testFailer, s *Store) (gaps []row.Gap) {
	t.Helper()
	names, err := s.deletions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[0] {
		found, err := s.gapsIn(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		gaps = append(gaps, found...)
	}
	return gaps
}

// restore begins a generation after the newest batch that a backup of the log has.
func restore(ctx context.Context, t *rapid.T, s *Store, old testLog, backup int64) (boundary int64, restored testLog) {
	at, err := position(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if at.Generation == 0 {
		return math.MaxInt64, old
	}
	last, found := at, true
	for found && int64(last.Seq) > backup {
		if last, found, err = s.Before(ctx, last); err != nil {
			t.Fatal(err)
		}
	}
	restored = testLog{generation: 2, history: "history2", boundary: int64(last.Seq), deletions: old.deletions}
	b := &row.Batch{Through: restored.position(int64(last.Seq))}
	b.Gaps = append(b.Gaps, row.Gap{
		Place: row.Place{StreamEpoch: old.history, Seq: int64(last.Seq), StoredAt: at.StoredAt}, Reason: row.Recreated, FromSeq: new(int64(last.Seq) + 1), ToSeq: new(int64(math.MaxInt64)),
	})
	if err := s.Commit(ctx, at, b); err != nil {
		t.Fatal(err)
	}
	return int64(last.Seq), restored
}
