package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

// result is what a call returned.
type result struct {
	positions []row.Position
	err       error
}

// TestLease has a store wait for another one with the same name until that is closed.
func TestLease(t *testing.T) {
	url := pgtest.Database(t)
	first, second := openStore(t, url), openStore(t, url)
	begin(t, first)
	began := make(chan result, 1)
	go func() {
		positions, err := second.Begin(t.Context(), 3)
		began <- result{positions, err}
	}()
	conn := connect(t, url)
	waitFor(t, func() bool {
		var waiting int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting == 1
	})
	begin(t, first) // Begin again does not wait for the own lease
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	r := <-began
	if r.err != nil || len(r.positions) != 3 || r.positions[2] != (row.Position{Partition: 2}) {
		t.Errorf("Begin returned %v, %v", r.positions, r.err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

// TestBeginBesideACommit has a store begin while the commit of another one holds its locks.
func TestBeginBesideACommit(t *testing.T) {
	url := pgtest.Database(t)
	begin(t, openNamed(t, Config{URL: url, Name: "a", Tenant: "a"}))
	commit, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := commit.Exec(t.Context(), `LOCK TABLE tailrace.events, tailrace.observations, tailrace.gaps, tailrace.positions, tailrace.positions_log, tailrace.sessions IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	begin(t, openNamed(t, Config{URL: url, Name: "b", Tenant: "b"}))
	if err := commit.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// waitFor calls done until it returns true.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("waited for a minute")
		}
	}
}

// TestBeginEnds ends a call of Begin that waits, by its context and by Close.
func TestBeginEnds(t *testing.T) {
	url := pgtest.Database(t)
	begin(t, openStore(t, url))
	second := openStore(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := second.Begin(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Begin returned %v after its context had ended", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := second.Begin(t.Context(), 1)
		ended <- err
	}()
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("Begin of a closed store returned no error")
	}
}

// TestStalledWriter stops a writer before each message of a commit, while another one, which has got the lease, commits. Then the first one continues.
func TestStalledWriter(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	proxy := pgtest.NewProxy(t)
	stalled := openStore(t, proxy.Through(url))
	log, expected := longLog(), newModel()
	at := begin(t, stalled)
	stalledStored := 0
	for number := 1; ; number += 2 {
		first, second := log[:5], log[:9]
		reached, proceed := make(chan struct{}), make(chan struct{})
		seen := 0
		proxy.Watch(func(pgtest.Message) pgtest.Action {
			if seen++; seen == number {
				close(reached)
				<-proceed
			}
			return pgtest.Relay
		})
		stalledErr := make(chan error, 1)
		go func() { stalledErr <- stalled.Commit(t.Context(), at, batchOf(first)) }()
		select {
		case <-reached:
		case err := <-stalledErr:
			proxy.Watch(nil) // Close sends a message
			if err != nil {
				t.Fatal(err)
			}
			if stalledStored == 0 {
				t.Error("the stalled writer never had the lock of the position")
			}
			return
		}
		other := openStore(t, url)
		otherErr := make(chan error, 1)
		other.months.forget()
		go func() { otherErr <- other.Commit(t.Context(), at, batchOf(second)) }()
		waitFor(t, func() bool { // the other writer has committed, or waits for the lock
			var waiting int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
			return waiting > 0 || len(otherErr) > 0
		})
		close(proceed)
		errs := [2]error{<-stalledErr, <-otherErr}
		proxy.Watch(nil)
		switch {
		case errs[0] == nil && errors.Is(errs[1], row.ErrConflict):
			stalledStored++
			expected.apply(first)
			at, log = first[4].at, log[5:]
		case errs[1] == nil && errors.Is(errs[0], row.ErrConflict):
			expected.apply(second)
			at, log = second[8].at, log[9:]
		default:
			t.Fatalf("stalled before message %d: %v, %v", number, errs[0], errs[1])
		}
		if now := begin(t, stalled); now != at {
			t.Fatalf("position is %v, want %v", now, at)
		}
		compare(t, "rows", expected.contents(), read(t.Context(), t, conn))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoredDatabase continues from the older position of a database that was restored.
func TestRestoredDatabase(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	s := openStore(t, url)
	log, expected := longLog(), newModel()
	at := begin(t, s)
	if err := errors.Join(s.Commit(t.Context(), at, batchOf(log[:20])), s.Close(), conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	backup := pgtest.Copy(t, url)
	s = openStore(t, backup)
	if now := begin(t, s); now != log[19].at {
		t.Fatalf("position is %v, want %v", now, log[19].at)
	}
	if err := s.Commit(t.Context(), log[39].at, batchOf(log[40:50])); !errors.Is(err, row.ErrConflict) {
		t.Errorf("commit after the position that was lost: %v", err)
	}
	if err := s.Commit(t.Context(), log[19].at, batchOf(log[20:60])); err != nil {
		t.Fatal(err)
	}
	expected.apply(log[:60])
	compare(t, "rows", expected.contents(), read(t.Context(), t, connect(t, backup)))
}

// TestBefore thins out old commits.
func TestBefore(t *testing.T) {
	url := pgtest.Database(t)
	s := openStore(t, url)
	at := begin(t, s)
	if before, found, err := s.Before(t.Context(), at); err != nil || found {
		t.Errorf("before the first commit there is %v, %v", before, err)
	}
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), `UPDATE tailrace.positions SET commits = 8190`); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(t.Context(), `INSERT INTO tailrace.positions_log SELECT 'sink', 0, n, 1, 'h', n, 0, NULL FROM generate_series(4090, 4100) n`)
	if err != nil {
		t.Fatal(err)
	}
	through := row.Position{Generation: 1, History: "h", Seq: 9000, Anchor: 7, StoredAt: firstTime}
	for range 5 { // commits 8191 to 8195
		through.Seq++
		if err := s.Commit(t.Context(), at, &row.Batch{Through: through}); err != nil {
			t.Fatal(err)
		}
		at = through
	}
	var got []chunk.Seq
	for next := at; ; {
		before, found, err := s.Before(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			break
		}
		got, next = append(got, before.Seq), before
	}
	compare(t, "commits", []chunk.Seq{9004, 9003, 9002, 9001, 4100, 4096, 4094, 4093, 4092, 4091, 4090}, got)
}

func TestTenants(t *testing.T) {
	url := pgtest.Database(t)
	begin(t, openNamed(t, Config{URL: url, Name: "a", Tenant: "acme"}))
	begin(t, openNamed(t, Config{URL: url, Name: "z", Tenant: "zeta"}))
	for _, cfg := range []Config{{URL: url, Name: "b", Tenant: "acme"}, {URL: url, Name: "all"}} {
		_, err := openNamed(t, cfg).Begin(t.Context(), 1)
		if err == nil || !strings.Contains(err.Error(), "in this database") {
			t.Errorf("sink %q of tenant %q: %v", cfg.Name, cfg.Tenant, err)
		}
	}
}

// TestPassword looks for the password in errors.
func TestPassword(t *testing.T) {
	url := pgtest.Database(t)
	const wrong = "canary-wrong"
	for _, text := range []string{
		strings.Replace(url, pgtest.Password, wrong, 1),
		strings.Replace(url, pgtest.Password, wrong+"%zz", 1),
		"postgres://u:" + wrong + "@127.0.0.1:1/db?connect_timeout=1",
		"postgres://127.0.0.1:1/db?connect_timeout=1&password=" + wrong,
		"postgres://u:" + wrong + "@host:port/db",
		"postgres://u:" + wrong + "@/db?sslmode=" + "none",
		"mysql://u:" + wrong + "@host/db",
		"user=u password=" + wrong,
	} {
		s, err := Open(Config{URL: text, Name: "sink"})
		if err == nil {
			_, err = s.Begin(t.Context(), 1)
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error is %v", text, err)
		}
	}
	t.Setenv("PGPASSWORD", pgtest.Password)
	begin(t, openStore(t, strings.Replace(url, ":"+pgtest.Password, "", 1)))
}
