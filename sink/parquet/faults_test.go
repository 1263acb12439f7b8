package parquet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// newDirectory are objects in a directory for writers that do not exclude each other.
func newDirectory(t testFailer, path string) *directory {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, scratchName), 0o750); err != nil {
		t.Fatal(err)
	}
	return &directory{path: path, fault: func(string) error { return nil }}
}

// memoryDir returns a temporary directory in memory, where the system has one: fsync of a disk takes most of the time of these tests otherwise.
func memoryDir(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("/dev/shm", "tailrace-lake-") //nolint:usetesting // t.TempDir is on a disk
	if errors.Is(err, os.ErrNotExist) {
		return t.TempDir()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

// kinds are the objects that the tests of faults use.
var kinds = map[string]func(t *testing.T) objects{
	"directory": func(t *testing.T) objects {
		t.Helper()
		return newDirectory(t, memoryDir(t))
	},
	"s3": func(t *testing.T) objects {
		t.Helper()
		return openS3(t, newS3(t, nil)).objects
	},
}

// TestFaults fails each call of a commit and an erasure once: before it has its effect, and after it, so that only its answer is lost. The same process continues,
// or another one.
func TestFaults(t *testing.T) {
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{15: "root-1"}}
	for kind, open := range kinds {
		for _, answerLost := range []bool{false, true} {
			for _, restart := range []bool{false, true} {
				for n, failed := 0, true; failed; n++ {
					o := &faulty{objects: open(t)}
					s := newStore(o)
					o.fault = func(call int) (before, after bool) { return call == n && !answerLost, call == n && answerLost }
					work := func(s *Store, size, through int64) error {
						if err := commit(t.Context(), s, l, size, through); err != nil {
							return err
						}
						return s.Maintain(t.Context(), time.Time{})
					}
					if err := work(s, 20, 20); err != nil && !errors.Is(err, errFault) {
						t.Fatal(err)
					}
					failed = o.calls > n
					o.fault = nil
					if restart {
						s = newStore(o)
					}
					if err := work(s, 13, 40); err != nil {
						t.Fatalf("%s, call %d, answer lost %v, restart %v: %v", kind, n, answerLost, restart, err)
					}
					wantErased(t.Context(), t, o.objects, l, 40)
					if t.Failed() {
						t.Fatalf("%s, call %d, answer lost %v, restart %v", kind, n, answerLost, restart)
					}
				}
			}
		}
	}
}

// TestTwoWriters runs another writer, whose batches have other ends, before each call of the first one, which then continues with what it knew.
func TestTwoWriters(t *testing.T) {
	for kind, open := range kinds {
		for n, reached := 0, true; reached; n++ {
			o := &faulty{objects: open(t)}
			first, second := newStore(o), newStore(&faulty{objects: o.objects})
			o.fault = func(call int) (before, after bool) {
				if call == n {
					if err := commit(t.Context(), second, log1, 9, 30); err != nil {
						t.Fatal(err)
					}
				}
				return false, false
			}
			if err := commit(t.Context(), first, log1, 20, 70); err != nil {
				t.Fatal(err)
			}
			reached = o.calls > n
			if err := commit(t.Context(), second, log1, 25, 90); err != nil {
				t.Fatal(err)
			}
			wantStored(t.Context(), t, o.objects, log1, 90)
			if t.Failed() {
				t.Fatalf("%s, before call %d", kind, n)
			}
		}
	}
}

// TestSeveralWriters compares a lake after random batches, faults, restarts and erasures of several writers with the log.
func TestSeveralWriters(t *testing.T) {
	const end = 3 * recordsPerDay
	root := memoryDir(t)
	rapid.Check(t, func(t *rapid.T) {
		path, err := os.MkdirTemp(root, "") //nolint:usetesting // a rapid.T has no directory
		if err != nil {
			t.Fatal(err)
		}
		l := testLog{generation: 1, history: "history1", deletions: map[int64]string{}}
		for range rapid.IntRange(0, 4).Draw(t, "deletions") {
			l.deletions[rapid.Int64Range(1, end).Draw(t, "deleted at")] = rootOf(rapid.Int64Range(0, 4).Draw(t, "root"))
		}
		files := newDirectory(t, path)
		var writers []*Store
		for range rapid.IntRange(1, 3).Draw(t, "writers") {
			writers = append(writers, newStore(&faulty{objects: files}))
		}
		ctx := context.Background()
		for range rapid.IntRange(1, 25).Draw(t, "actions") {
			i := rapid.IntRange(0, len(writers)-1).Draw(t, "writer")
			s, o := writers[i], writers[i].objects.(*faulty)
			failing, answerLost := rapid.IntRange(0, 20).Draw(t, "failing call"), rapid.Bool().Draw(t, "answer lost")
			o.calls = 0
			o.fault = func(call int) (before, after bool) {
				return call == failing && !answerLost, call == failing && answerLost
			}
			var err error
			switch rapid.SampledFrom([]string{"commit", "commit", "commit", "restart", "erase"}).Draw(t, "action") {
			case "commit":
				err = advance(ctx, s, l, rapid.Int64Range(1, 30).Draw(t, "records"), end)
			case "restart":
				writers[i] = newStore(&faulty{objects: files})
			case "erase":
				err = s.Maintain(ctx, time.Time{})
			}
			if err != nil && !errors.Is(err, errFault) {
				t.Fatal(err)
			}
		}
		last := newStore(&faulty{objects: files})
		if err := commit(ctx, last, l, 17, end); err != nil {
			t.Fatal(err)
		}
		if err := last.Maintain(ctx, time.Time{}); err != nil {
			t.Fatal(err)
		}
		wantErased(ctx, t, files, l, end)
	})
}
