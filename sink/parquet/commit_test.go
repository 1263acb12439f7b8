package parquet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/sink/row"
)

var log1 = testLog{generation: 1, history: "history1"}

func openDirectory(t *testing.T, path string) *Store {
	t.Helper()
	s, err := OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestCommit(t *testing.T) {
	path := t.TempDir()
	s := openDirectory(t, path)
	if err := commit(t.Context(), s, log1, 7, 100); err != nil {
		t.Fatal(err)
	}
	wantStored(t.Context(), t, s.objects, log1, 100)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	again := openDirectory(t, path)
	at, err := position(t.Context(), again)
	if err != nil || at != log1.position(100) {
		t.Fatalf("position after a restart is %+v, %v", at, err)
	}
	if err := again.Commit(t.Context(), log1.position(93), log1.batch(93, 110)); !errors.Is(err, row.ErrConflict) {
		t.Errorf("commit after an older position: %v, want ErrConflict", err)
	}
	if err := commit(t.Context(), again, log1, 30, 150); err != nil {
		t.Fatal(err)
	}
	wantStored(t.Context(), t, again.objects, log1, 150)
}

func TestCommitRefuses(t *testing.T) {
	s := openDirectory(t, t.TempDir())
	if err := s.Commit(t.Context(), row.Position{}, log1.batch(0, 5)); !errors.Is(err, errNotBegun) {
		t.Errorf("commit without Begin: %v", err)
	}
	if _, err := s.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*row.Batch{
		"other partition": {Through: row.Position{Partition: 1, Generation: 1, Seq: 4}},
		"old generation":  {Through: row.Position{Seq: 4}},
	} {
		if err := s.Commit(t.Context(), row.Position{}, b); err == nil || errors.Is(err, row.ErrConflict) {
			t.Errorf("batch with %s: %v, want an error", name, err)
		}
	}
}

// TestStops stops a writer at each step in the file system, as its end would. The next writer continues.
func TestStops(t *testing.T) {
	errStop := errors.New("stop")
	root := memoryDir(t)
	for n, stopped := 0, true; stopped; n++ {
		path := filepath.Join(root, fmt.Sprint(n))
		s := openDirectory(t, path)
		step, reached := 0, ""
		dir := s.objects.(*directory)
		dir.fault = func(what string) error {
			step++
			if step <= n {
				return nil
			}
			reached = what
			return errStop
		}
		err := commit(t.Context(), s, log1, 20, 25)
		stopped = errors.Is(err, errStop)
		if err != nil && !stopped {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		next := openDirectory(t, path)
		if err := commit(t.Context(), next, log1, 27, 50); err != nil {
			t.Fatalf("after a stop before %q, step %d: %v", reached, n, err)
		}
		wantStored(t.Context(), t, next.objects, log1, 50)
		if left, err := os.ReadDir(filepath.Join(path, scratchName)); err != nil || len(left) > 0 {
			t.Errorf("after a stop before %q: temporary files %v, %v", reached, left, err)
		}
		if t.Failed() {
			t.Fatalf("stop before %q, step %d", reached, n)
		}
	}
}

// TestConflict is two writers at one position: the batch of the second one is not stored, and it learns the position.
func TestConflict(t *testing.T) {
	files := newDirectory(t, memoryDir(t))
	first, second := newStore(&faulty{objects: files}), newStore(&faulty{objects: files})
	for _, s := range []*Store{first, second} {
		if _, err := s.Begin(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Commit(t.Context(), row.Position{}, log1.batch(0, 10)); err != nil {
		t.Fatal(err)
	}
	if err := second.Commit(t.Context(), row.Position{}, log1.batch(0, 15)); !errors.Is(err, row.ErrConflict) {
		t.Errorf("commit of the second writer: %v, want ErrConflict", err)
	}
	if at, err := position(t.Context(), second); err != nil || at != log1.position(10) {
		t.Errorf("position is %+v, %v", at, err)
	}
}

// TestLock is two writers: the second waits until the first ends.
func TestLock(t *testing.T) {
	path := t.TempDir()
	first, second := openDirectory(t, path), openDirectory(t, path)
	if err := commit(t.Context(), first, log1, 7, 20); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := second.Begin(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("the second writer did not wait: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- commit(t.Context(), second, log1, 9, 40) }()
	if err := commit(t.Context(), first, log1, 7, 30); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	wantStored(t.Context(), t, second.objects, log1, 40)
}

// TestTenant refuses a lake that has the rows of another tenant, or of all: what it had skipped would be missing without a gap.
func TestTenant(t *testing.T) {
	for kind, open := range kinds {
		o := open(t)
		for _, step := range []struct {
			tenant  string
			refused bool
		}{{"acme", false}, {"acme", false}, {"", true}, {"other", true}, {"acme", false}} {
			s := newStore(o)
			s.Tenant = step.tenant
			_, err := s.Begin(t.Context(), 1)
			if refused := err != nil && strings.Contains(err.Error(), "another store"); refused != step.refused || err != nil && !refused {
				t.Errorf("%s, tenant %q: %v", kind, step.tenant, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
