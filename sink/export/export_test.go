package export_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/internal/exporttest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// receiver keeps the rows that it accepts.
type receiver struct {
	mu     sync.Mutex
	rows   []export.Row
	before func(n int, rows []export.Row) error // of call n, from 1 on; an error refuses the rows
	calls  int
}

func (r *receiver) deliver(_ context.Context, rows []export.Row) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.before != nil {
		if err := r.before(r.calls, rows); err != nil {
			return err
		}
	}
	r.rows = append(r.rows, rows...)
	return nil
}

// contents returns the rows by their keys.
func (r *receiver) contents(t *testing.T) map[string]export.Row {
	t.Helper()
	out := map[string]export.Row{}
	for _, row := range r.rows {
		if was, ok := out[row.Key()]; ok && !cmp.Equal(was, row) {
			t.Errorf("row %s has two contents:\n%s", row.Key(), cmp.Diff(was, row))
		}
		out[row.Key()] = row
	}
	return out
}

func (r *receiver) config(t *testing.T, name string) export.Config {
	t.Helper()
	return export.Config{
		Name: name, Select: func(r export.Row) bool { return r.Deletion != nil || r.EndTime != nil }, Deliver: r.deliver,
		Delays: wait.Backoff{First: time.Millisecond, Max: 5 * time.Millisecond}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// An export that ends between a delivery and its acknowledgement, at each row, delivers all rows with equal keys and content, and the last ones twice.
func TestEndAtEachRow(t *testing.T) {
	log := exporttest.Start(t)
	log.Conversation("s1", "word")
	log.Delete("s1")
	var all receiver
	exporttest.Run(t, log, all.config(t, "all"))
	want := all.contents(t)
	if len(want) != len(all.rows) || len(want) != 13 {
		t.Fatalf("%d rows with %d keys, want 13", len(all.rows), len(want))
	}
	for n := 1; n <= len(want); n++ {
		var to receiver
		ctx, cancel := context.WithCancel(t.Context())
		to.before = func(call int, rows []export.Row) error {
			if call == n {
				to.rows = append(to.rows, rows...) // it accepts the rows, and its answer is lost
				cancel()
				return ctx.Err()
			}
			return nil
		}
		cfg := to.config(t, fmt.Sprint("n", n))
		x, err := export.New(log.JS, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Run(ctx); err != nil {
			t.Fatal(err)
		}
		exporttest.Run(t, log, cfg)
		if diff := cmp.Diff(want, to.contents(t)); diff != "" {
			t.Errorf("ended at row %d:\n%s", n, diff)
		}
		if len(to.rows) <= len(want) {
			t.Errorf("ended at row %d: no row was repeated", n)
		}
	}
}

// The rows of a session come in the order of the log, while deliveries fail.
func TestOrderInLanes(t *testing.T) {
	log := exporttest.Start(t)
	for turn := range 5 {
		for s := range 10 {
			log.Turn(fmt.Sprint("s", s), fmt.Sprint("r", turn))
		}
	}
	to := receiver{before: func(n int, _ []export.Row) error {
		if n%3 == 0 {
			return errors.New("failed")
		}
		return nil
	}}
	cfg := to.config(t, "lanes")
	cfg.Lanes = 4
	exporttest.Run(t, log, cfg)
	last := map[string]int64{}
	for _, r := range to.rows {
		if p := r.Place(); p.Seq < last[p.Root] {
			t.Errorf("a row of %s of record %d came after that of %d", p.Root, p.Seq, last[p.Root])
		} else {
			last[p.Root] = p.Seq
		}
	}
	if len(to.rows) != 100 {
		t.Errorf("%d rows, want 100", len(to.rows))
	}
}

// After GiveUp the rows are dead letters, not before.
func TestGiveUp(t *testing.T) {
	log := exporttest.Start(t)
	log.Turn("s1", "r")
	path := filepath.Join(t.TempDir(), "dead")
	dead, err := export.OpenDeadLetters(path)
	if err != nil {
		t.Fatal(err)
	}
	to := receiver{before: func(int, []export.Row) error {
		return &export.RetryError{After: time.Hour, Cause: errors.New("unavailable")}
	}}
	cfg := to.config(t, "down")
	cfg.GiveUp, cfg.DeadLetters = 300*time.Millisecond, dead
	began := time.Now()
	exporttest.Run(t, log, cfg)
	if took := time.Since(began); took < cfg.GiveUp {
		t.Errorf("it gave up after %s", took)
	}
	lines, err := os.ReadFile(path)
	if err != nil || strings.Count(string(lines), `"error":"unavailable"`) != 2 || !strings.Contains(string(lines), `"session":"s1"`) {
		t.Errorf("dead letters %s, %v, want two", lines, err)
	}
	var after receiver
	exporttest.Run(t, log, after.config(t, "down"))
	if len(after.rows) != 0 {
		t.Errorf("%d rows were delivered after their dead letters", len(after.rows))
	}
}

// keys returns the keys of the rows that were accepted.
func (r *receiver) keys() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := map[string]bool{}
	for _, row := range r.rows {
		keys[row.Key()] = true
	}
	return keys
}

// A second export with the name continues where the first one ended, and both together deliver everything.
func TestTakeover(t *testing.T) {
	log := exporttest.Start(t)
	for i := range 10 {
		log.Turn(fmt.Sprint("s", i), "r")
	}
	var all, first, second receiver
	exporttest.Run(t, log, all.config(t, "all"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one, end := context.WithCancel(ctx)
	defer end()
	first.before = func(n int, _ []export.Row) error {
		if n == 7 {
			end()
		}
		return nil
	}
	run := func(ctx context.Context, to *receiver) chan error {
		x, err := export.New(log.JS, to.config(t, "shared"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- x.Run(ctx) }()
		return ended
	}
	if err := <-run(one, &first); err != nil {
		t.Fatal(err)
	}
	ended := run(ctx, &second)
	natstest.Eventually(t, "all rows", func(context.Context) error {
		got := first.keys()
		maps.Copy(got, second.keys())
		if len(got) < len(all.keys()) {
			return fmt.Errorf("%d of %d", len(got), len(all.keys()))
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := len(second.keys()); n < 13 || n > 20 {
		t.Errorf("the second export has delivered %d rows, want those that the first one had not, 13, and few more", n)
	}
}

// Another Tenant under a name that is in use is an error of the settings.
func TestOtherTenant(t *testing.T) {
	log := exporttest.Start(t)
	var to receiver
	exporttest.Run(t, log, to.config(t, "name"))
	cfg := to.config(t, "name")
	cfg.Tenant = "other"
	x, err := export.New(log.JS, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "filter") {
		t.Errorf("the error is %v", err)
	}
}
