package parquet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/sink/row"
)

// clock is the time of the stores of a test. It is long after the records and the files.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{firstDay.AddDate(20, 0, 0)} }

func (c *clock) now() time.Time { return c.at }

func (c *clock) store(o objects) *Store {
	s := newStore(o)
	s.now = c.now
	return s
}

// maintain runs the steps of maintenance, with the time between them that readers and writers have.
func (c *clock) maintain(ctx context.Context, s *Store, olderThan time.Time) error {
	for range 4 {
		if err := s.Maintain(ctx, olderThan); err != nil {
			return err
		}
		c.at = c.at.Add(grace)
	}
	return nil
}

// wantFiles fails if a table has another number of merged files and of others.
func wantFiles(t *testing.T, s *Store, table string, merged, own int) {
	t.Helper()
	files, err := s.files(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	kinds := byKind(files)
	if len(kinds[0]) != merged || len(kinds[1]) != own {
		t.Errorf("%s has %d merged files and %d others, want %d and %d", table, len(kinds[0]), len(kinds[1]), merged, own)
	}
}

// TestMerge merges the files of two days. Readers and the next process find each row once at each step.
func TestMerge(t *testing.T) {
	path := t.TempDir()
	c := newClock()
	s := openDirectory(t, path)
	s.now = c.now
	const end = 2*recordsPerDay + 23
	if err := commit(t.Context(), s, log1, 7, end); err != nil {
		t.Fatal(err)
	}
	db, want := openLake(t, path), log1.batch(0, end)
	for _, step := range []struct{ merged, own int }{{3, 16}, {3, 16}, {3, 1}, {3, 1}} {
		if err := s.Maintain(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, s, tableEvents, step.merged, step.own)
		wantStored(t.Context(), t, s.objects, log1, end)
		wantTable(t, db, tableEvents, "seq", want.Events)
		wantTable(t, db, tableObservations, "seq, id", want.Observations)
		wantTable(t, db, tableGaps, "seq", want.Gaps)
		c.at = c.at.Add(grace)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDirectory(t, path)
	s.now = c.now
	if err := commit(t.Context(), s, log1, 9, end+50); err != nil {
		t.Fatal(err)
	}
	wantStored(t.Context(), t, s.objects, log1, end+50)
	wantBefore(t, s, log1.position(end), log1.position(end-2), log1.position(2*recordsPerDay), log1.position(recordsPerDay))
	wantBefore(t, s, log1.position(2*recordsPerDay+5), log1.position(2*recordsPerDay), log1.position(recordsPerDay))
	wantBefore(t, s, log1.position(2*recordsPerDay-5), log1.position(recordsPerDay))
	if err := c.maintain(t.Context(), s, time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantTable(t, db, tableEvents, "seq", log1.batch(0, end+50).Events)
}

// TestMergeIsBounded merges files up to a size.
func TestMergeIsBounded(t *testing.T) {
	of := func(day int, size int64) file {
		return file{name{date: dateOf(firstDay.AddDate(0, 0, day))}, size, firstDay}
	}
	for _, test := range []struct {
		files []file
		want  []int
	}{
		{nil, nil},
		{[]file{of(0, 1), of(0, 1)}, nil}, // the newest one stays
		{[]file{of(0, 1), of(0, 1), of(0, 1)}, []int{2}},
		{[]file{of(0, 1), of(0, 1), of(1, 1), of(1, 1)}, []int{2}},
		{[]file{of(0, 1), of(1, 1), of(1, 1), of(9, 1), of(9, 1), of(9, 1)}, []int{1, 2}},
		{[]file{of(0, mergeBytes+1), of(0, 1), of(0, mergeBytes-1), of(0, 1), of(0, 1)}, []int{1, 2}},
	} {
		var got []int
		for _, g := range group(test.files, dateOf(firstDay.AddDate(0, 0, 9))) {
			got = append(got, len(g))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("groups of %v are %v, want %v", test.files, got, test.want)
		}
	}
}

// TestMaintainFaults fails each call of maintenance once: before it has its effect, or after it, so that only its answer is lost. The same process continues, or another one.
func TestMaintainFaults(t *testing.T) {
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{15: "root-1", 35: "root-2"}}
	const end, through = recordsPerDay + 2, recordsPerDay + 5
	for kind, open := range kinds {
		for _, answerLost := range []bool{false, true} {
			if kind == "s3" && !answerLost {
				continue // it takes long, and the directory has it
			}
			for n, failed := 0, true; failed; n++ {
				c, o := newClock(), &faulty{objects: open(t)}
				s := c.store(o)
				if err := commit(t.Context(), s, l, 20, end); err != nil {
					t.Fatal(err)
				}
				o.calls = 0
				o.fault = func(call int) (before, after bool) { return call == n && !answerLost, call == n && answerLost }
				if err := c.maintain(t.Context(), s, time.Time{}); err != nil && !errors.Is(err, errFault) {
					t.Fatal(err)
				}
				failed = o.calls > n
				o.fault = nil
				wantRows(t, l.erased(l.batch(0, end), end), l.erased(stored(t.Context(), t, o.objects), end))
				if n%2 == 0 {
					s = c.store(o)
				}
				if err := commit(t.Context(), s, l, 20, through); err != nil {
					t.Fatal(err)
				}
				c.at = c.at.Add(grace)
				if err := c.maintain(t.Context(), s, time.Time{}); err != nil {
					t.Fatal(err)
				}
				wantErased(t.Context(), t, o.objects, l, through)
				wantFiles(t, s, tableEvents, 1, 2)
				if t.Failed() {
					t.Fatalf("%s, call %d, answer lost %v", kind, n, answerLost)
				}
			}
		}
	}
}

// TestTwoMaintain runs one or all steps of another process, with an erasure that the first one has not read, before each call of the first one, which then continues
// with what it knew. In a directory only one process does it.
func TestTwoMaintain(t *testing.T) {
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{15: "root-1", 43: "root-2"}}
	const end, through = recordsPerDay + 2, recordsPerDay + 5
	for _, whole := range []bool{false, true} {
		for n, reached := 0, true; reached; n++ {
			c, o := newClock(), &faulty{objects: kinds["s3"](t)}
			first, second := c.store(o), c.store(&faulty{objects: o.objects})
			if err := commit(t.Context(), first, l, 20, end); err != nil {
				t.Fatal(err)
			}
			o.calls = 0
			o.fault = func(call int) (before, after bool) {
				if call != n {
					return false, false
				}
				err := commit(t.Context(), second, l, 20, through)
				if err == nil && whole {
					err = c.maintain(t.Context(), second, time.Time{})
				} else if err == nil {
					err = second.Maintain(t.Context(), time.Time{})
				}
				if err != nil {
					t.Fatal(err)
				}
				return false, false
			}
			if err := c.maintain(t.Context(), first, time.Time{}); err != nil {
				t.Fatal(err)
			}
			reached = o.calls > n
			if err := commit(t.Context(), second, l, 20, through); err != nil {
				t.Fatal(err)
			}
			if err := c.maintain(t.Context(), second, time.Time{}); err != nil {
				t.Fatal(err)
			}
			wantErased(t.Context(), t, o.objects, l, through)
			if t.Failed() {
				t.Fatalf("before call %d, all steps %v", n, whole)
			}
		}
	}
}

// TestSuspended suspends a writer before each call of a commit, until another process has merged and removed the files after its position. It stores no row twice, and the
// file that it may have stored under a removed name is removed.
func TestSuspended(t *testing.T) {
	for kind, open := range kinds {
		for n, reached := 0, true; reached; n++ {
			c, o := newClock(), &faulty{objects: open(t)}
			first, second := c.store(o), c.store(&faulty{objects: o.objects})
			if err := commit(t.Context(), first, log1, 13, 26); err != nil {
				t.Fatal(err)
			}
			o.calls = 0
			o.fault = func(call int) (before, after bool) {
				if call == n {
					if err := commit(t.Context(), second, log1, 3, recordsPerDay+3); err != nil {
						t.Fatal(err)
					}
					if err := c.maintain(t.Context(), second, time.Time{}); err != nil {
						t.Fatal(err)
					}
				}
				return false, false
			}
			err := first.Commit(t.Context(), log1.position(26), log1.batch(26, 35))
			reached = o.calls > n
			if reached != errors.Is(err, row.ErrConflict) {
				t.Errorf("commit: %v", err)
			}
			if reached {
				wantStored(t.Context(), t, o.objects, log1, recordsPerDay+3)
			}
			o.fault = nil
			if err := commit(t.Context(), first, log1, 11, recordsPerDay+9); err != nil {
				t.Fatal(err)
			}
			if err := c.maintain(t.Context(), first, time.Time{}); err != nil {
				t.Fatal(err)
			}
			wantStored(t.Context(), t, o.objects, log1, recordsPerDay+9)
			for _, table := range tables {
				files, err := first.files(t.Context(), table)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(counted(t.Context(), t, o.objects, table)); n != len(files) {
					t.Errorf("%s has %d files, and %d that count", table, len(files), n)
				}
			}
			if t.Failed() {
				t.Fatalf("%s, before call %d", kind, n)
			}
		}
	}
}

// TestKeep removes old days, merged or not. The position stays.
func TestKeep(t *testing.T) {
	const end = 3*recordsPerDay + 5
	for kind, open := range kinds {
		for _, merged := range []bool{false, true} {
			c, o := newClock(), open(t)
			s := c.store(&faulty{objects: o})
			if err := commit(t.Context(), s, log1, 13, end); err != nil {
				t.Fatal(err)
			}
			if merged {
				if err := c.maintain(t.Context(), s, time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.maintain(t.Context(), s, storedAt(2*recordsPerDay+7)); err != nil {
				t.Fatal(err)
			}
			got, want := storedFrom(t.Context(), t, o, true), log1.batch(2*recordsPerDay, end)
			want.Gaps = log1.batch(recordsPerDay, end).Gaps // a day longer
			wantRows(t, want, got)

			if err := c.maintain(t.Context(), s, c.now()); err != nil {
				t.Fatal(err)
			}
			got = storedFrom(t.Context(), t, o, true)
			if len(got.Events)+len(got.Observations)+len(got.Gaps) > 0 || got.Through != log1.position(end) {
				t.Errorf("rows %+v are left", got)
			}
			if err := commit(t.Context(), s, log1, 13, end+20); err != nil {
				t.Fatal(err)
			}
			wantRows(t, log1.batch(end, end+20), storedFrom(t.Context(), t, o, true))
			if t.Failed() {
				t.Fatalf("%s, merged %v", kind, merged)
			}
		}
	}
}
