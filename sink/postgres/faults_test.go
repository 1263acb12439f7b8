package postgres

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

// backends selects the connections that are in a transaction: those of leases are not.
const backends = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'`

// longLog is the same log in each run of the tests.
func longLog() []record {
	return rapid.Custom(func(t *rapid.T) []record { return drawLog(t, row.Position{}, 1, 3000) }).Example(29)
}

// TestFaults commits batches with a fault at each message of a commit: before it is sent, after it without its answer, and with the connection ended by the
// server. After each fault the batch is stored as a whole or not at all, and the next commit continues from there.
func TestFaults(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	terminate := func(pgtest.Message) pgtest.Action {
		if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM (`+backends+`) b`); err != nil {
			t.Error(err)
		}
		return pgtest.Relay
	}
	proxy := pgtest.NewProxy(t)
	s := openStore(t, proxy.Through(url))
	log, expected := longLog(), newModel()
	at := begin(t, s)
	for _, c := range []struct {
		name  string
		fault func(pgtest.Message) pgtest.Action
	}{
		{"lost message", func(pgtest.Message) pgtest.Action { return pgtest.Drop }},
		{"lost answer", func(pgtest.Message) pgtest.Action { return pgtest.LoseAnswer }},
		{"ended", terminate},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored, notStored := 0, 0
			for number := 1; number <= 40; number++ { // a commit has 20 to 40 messages
				records := log[:6]
				log = log[6:]
				b := batchOf(records)
				seen := 0
				proxy.Watch(func(m pgtest.Message) pgtest.Action {
					if seen++; seen == number {
						return c.fault(m)
					}
					return pgtest.Relay
				})
				err := s.Commit(t.Context(), at, b)
				proxy.Watch(nil)
				if errors.Is(err, row.ErrConflict) {
					t.Fatal(err)
				}
				switch now := begin(t, s); {
				case now == b.Through:
					stored++
				case now != at || err == nil:
					t.Fatalf("position is %v after %v and error %v", now, at, err)
				default:
					notStored++
					if err := s.Commit(t.Context(), at, b); err != nil {
						t.Fatal(err)
					}
				}
				at = b.Through
				expected.apply(records)
				compare(t, "rows", expected.contents(), read(t.Context(), t, conn))
				checkSessions(t.Context(), t, conn)
			}
			t.Logf("%d commits were not stored, %d were", notStored, stored)
			if notStored < 20 {
				t.Errorf("%d commits were not stored: the faults are not where they should be", notStored)
			}
		})
	}
}

// TestLostCommit loses the answer of COMMIT: the batch is stored, and the writer finds its position.
func TestLostCommit(t *testing.T) {
	url := pgtest.Database(t)
	proxy := pgtest.NewProxy(t)
	s := openStore(t, proxy.Through(url))
	at := begin(t, s)
	b := batchOf(longLog()[:50])
	if err := s.createMonths(t.Context(), b.Events); err != nil {
		t.Fatal(err)
	}
	proxy.Watch(func(m pgtest.Message) pgtest.Action {
		if m.Type == 'Q' && strings.HasPrefix(m.Text, "commit") {
			return pgtest.LoseAnswer
		}
		return pgtest.Relay
	})
	err := s.Commit(t.Context(), at, b)
	proxy.Watch(nil)
	if err == nil || errors.Is(err, row.ErrConflict) {
		t.Errorf("commit returned %v", err)
	}
	if now := begin(t, s); now != b.Through {
		t.Errorf("position is %v, want %v", now, b.Through)
	}
	if err := s.Commit(t.Context(), at, b); !errors.Is(err, row.ErrConflict) {
		t.Errorf("the repeated commit returned %v", err)
	}
}

// TestFaultsOfBegin has faults at messages of Begin on an empty database. The next Begin completes the schema.
func TestFaultsOfBegin(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	proxy := pgtest.NewProxy(t)
	failed := 0
	for number := 1; ; number += 6 {
		s := openStore(t, proxy.Through(url))
		seen := 0
		proxy.Watch(func(pgtest.Message) pgtest.Action {
			if seen++; seen == number {
				return pgtest.Action(1 + number%2)
			}
			return pgtest.Relay
		})
		_, err := s.Begin(t.Context(), 1)
		proxy.Watch(nil)
		if err != nil {
			failed++
		}
		if at := begin(t, s); at != (row.Position{}) {
			t.Fatalf("position is %v", at)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if seen < number {
			break
		}
		if _, err := conn.Exec(t.Context(), `DROP SCHEMA tailrace CASCADE`); err != nil {
			t.Fatal(err)
		}
	}
	if failed < 10 {
		t.Errorf("Begin failed %d times", failed)
	}
}
