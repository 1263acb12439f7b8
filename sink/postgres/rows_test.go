package postgres

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

func placeAt(seq int64, at time.Time) row.Place {
	return row.Place{StreamEpoch: "h", Seq: seq, StoredAt: at, Tenant: "acme", Root: "s1", Session: "s1"}
}

func positionAt(seq int64) row.Position {
	return row.Position{Generation: 1, History: "h", Seq: chunk.Seq(seq), StoredAt: firstTime}
}

// TestHostileRows stores texts, JSON and numbers that stores like to change.
func TestHostileRows(t *testing.T) {
	url := pgtest.Database(t)
	s := openStore(t, url)
	at := begin(t, s)
	hostile := []string{
		row.Text("a\x00b\xff"), `\N`, "\\.", "tab\tnewline\ncarriage\r", `'; DROP SCHEMA tailrace CASCADE; --`, `"quoted" 'quoted' $1 %s`, "\u2028\U0010ffff\ufffe", strings.Repeat("é", 1<<19),
	}
	b := &row.Batch{Through: positionAt(int64(len(hostile)))}
	for i, text := range hostile {
		place := placeAt(int64(i+1), firstTime)
		place.Root, place.Session = text[:min(len(text), 100)], text[:min(len(text), 100)]
		b.Events = append(b.Events, row.Event{Place: place, Type: text, Time: firstTime, Body: quoted(text)})
		b.Observations = append(b.Observations, row.Observation{
			Place: place, ID: fmt.Sprintf("%032d", i), Kind: row.Tool, StartTime: firstTime, UserID: text, StatusMessage: text,
			Input: quoted(text), Output: `{"a":"\u0000\ud800","a":1e400,"b" : [ ]}`, Metadata: row.JSON(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)),
			Cost: new(row.Money(math.MaxInt64/10 + int64(i))), InputTokens: new(int64(math.MaxInt64 - 10)), EndTime: new(time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)),
		})
		b.Gaps = append(b.Gaps, row.Gap{Place: place, Reason: row.Malformed, Detail: text})
	}
	if err := s.Commit(t.Context(), at, b); err != nil {
		t.Fatal(err)
	}
	compare(t, "rows", contents{b.Events, b.Observations, b.Gaps}, read(t.Context(), t, connect(t, url)))
}

// TestMonths stores rows around the ends of months, in UTC also where the server has another time zone, and deletes old ones.
func TestMonths(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), `DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET timezone = ''Asia/Tokyo'''; END $$`); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, url)
	at := begin(t, s)
	times := []time.Time{
		time.Date(2026, 10, 31, 23, 59, 59, 999999000, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 59, 59, 999999000, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	b := &row.Batch{Through: positionAt(6)}
	for i, stored := range times {
		place := placeAt(int64(i+1), stored)
		place.Root = fmt.Sprint("s", i/2)
		b.Events = append(b.Events, row.Event{Place: place, Type: "text_delta", Time: stored})
		b.Observations = append(b.Observations, row.Observation{Place: place, ID: fmt.Sprint(i), Kind: row.Run, StartTime: stored})
		b.Gaps = append(b.Gaps, row.Gap{Place: place, Reason: row.Malformed})
	}
	if err := s.Commit(t.Context(), at, b); err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, month := range []string{"2026_10", "2026_11", "2026_12", "2027_01"} {
		counts = append(counts, queryInt(t, conn, `SELECT count(*) FROM tailrace.events_`+month))
	}
	compare(t, "rows of the months", []int{1, 2, 2, 1}, counts)
	for range 2 { // the second time there is nothing to delete
		if err := s.Keep(t.Context(), times[3].Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		compare(t, "kept rows", contents{b.Events[1:], b.Observations[3:], b.Gaps[1:]}, read(t.Context(), t, conn))
		checkSessions(t.Context(), t, conn)
	}
	through := positionAt(7)
	old := &row.Batch{Through: through, Events: []row.Event{{Place: placeAt(7, times[0]), Time: times[0]}}}
	if err := s.Commit(t.Context(), b.Through, old); err != nil {
		t.Fatalf("a row of a month that was dropped: %v", err)
	}
}

func queryInt(t *testing.T, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestErasure erases a session by a record of an earlier batch, of the same one, and of a later one.
func TestErasure(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	s := openStore(t, url)
	at := begin(t, s)
	seq := int64(0)
	observed := func(id, session string) row.Observation {
		seq++
		place := placeAt(seq, firstTime)
		place.Session = session
		return row.Observation{Place: place, ID: id, Kind: row.Run, StartTime: firstTime, UserID: "canary-of-the-user", Input: `"canary"`}
	}
	deleted := func(session string) row.Gap {
		seq++
		place := placeAt(seq, firstTime)
		place.Session = session
		return row.Gap{Place: place, Reason: row.Deleted, ToSeq: new(seq)}
	}
	commit := func(b *row.Batch, want ...string) {
		t.Helper()
		b.Through = positionAt(seq)
		for _, o := range b.Observations {
			b.Events = append(b.Events, row.Event{Place: o.Place, Type: "run_started", Time: firstTime, Body: o.Input})
		}
		if err := s.Commit(t.Context(), at, b); err != nil {
			t.Fatal(err)
		}
		at = b.Through
		rows := read(t.Context(), t, conn)
		var ids []string
		for _, o := range rows.Observations {
			ids = append(ids, o.ID)
		}
		compare(t, "observations", want, ids)
		if len(rows.Events) != len(want) {
			t.Errorf("there are %d events, want %d", len(rows.Events), len(want))
		}
		checkSessions(t.Context(), t, conn)
	}
	commit(&row.Batch{Observations: []row.Observation{observed("1", "s1"), observed("2", "sub")}}, "1", "2")
	commit(&row.Batch{Gaps: []row.Gap{deleted("sub")}}, "1")
	commit(&row.Batch{Observations: []row.Observation{observed("3", "sub")}, Gaps: []row.Gap{deleted("s1")}})
	commit(&row.Batch{Observations: []row.Observation{observed("4", "s1")}, Gaps: []row.Gap{deleted("s1")}})
	first := observed("5", "s1")
	gap := deleted("s1")
	commit(&row.Batch{Observations: []row.Observation{first, observed("6", "s1")}, Gaps: []row.Gap{gap}}, "6")
	if n := queryInt(t, conn, `SELECT count(*) FROM tailrace.sessions`); n != 1 {
		t.Errorf("there are %d sessions", n)
	}
}

// TestLogCreatedTwice stores that the records of the first history are lost each time that the log is created again.
func TestLogCreatedTwice(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	s := openStore(t, url)
	at := begin(t, s)
	o := row.Observation{Place: placeAt(3, firstTime), ID: "a", Kind: row.Run, StartTime: firstTime}
	lost := row.Gap{Place: placeAt(0, firstTime), Reason: row.Recreated, FromSeq: new(int64(1)), ToSeq: new(int64(math.MaxInt64))}
	for i, b := range []*row.Batch{{Observations: []row.Observation{o}}, {Gaps: []row.Gap{lost}}, {Gaps: []row.Gap{lost}}} {
		b.Through = row.Position{Generation: i + 1, History: fmt.Sprint("h", i), Seq: 5}
		if err := s.Commit(t.Context(), at, b); err != nil {
			t.Fatal(err)
		}
		at = b.Through
		checkSessions(t.Context(), t, conn)
	}
	if sessions, gaps := queryInt(t, conn, `SELECT count(*) FROM tailrace.sessions`), queryInt(t, conn, `SELECT count(*) FROM tailrace.gaps`); sessions != 0 || gaps != 1 {
		t.Errorf("there are %d sessions and %d gaps, want 0 and 1", sessions, gaps)
	}
}

// TestSchema adds a column that a table does not have, refuses one of another type, and lets processes begin at the same time.
func TestSchema(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	began := make(chan result)
	for i := range 4 {
		s := openNamed(t, Config{URL: url, Name: fmt.Sprint("sink", i), Tenant: fmt.Sprint("tenant", i)})
		go func() {
			positions, err := s.Begin(t.Context(), 2)
			began <- result{positions, err}
		}()
	}
	for range 4 {
		if r := <-began; r.err != nil {
			t.Fatal(r.err)
		}
	}
	s := openNamed(t, Config{URL: url, Name: "sink", Tenant: "acme"})
	for _, statement := range []string{
		`DROP TABLE tailrace.sessions; DROP VIEW tailrace.sessions_computed, tailrace.turns, tailrace.tree, tailrace.cost_by_agent_day, tailrace.cost_by_user_day,
			tailrace.cost_by_model_day, tailrace.slowest_tools, tailrace.failing_sessions, tailrace.first_token, tailrace.approval_waits, tailrace.observations_current,
			tailrace.observations_latest, tailrace.observations_counted; ALTER TABLE tailrace.observations DROP COLUMN metadata`,
		`DROP INDEX tailrace.observations_waiting`,
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		at := begin(t, s)
		through := at
		through.Generation, through.History, through.Seq = 1, "h", at.Seq+1
		o := row.Observation{Place: placeAt(1, firstTime), ID: fmt.Sprint(through.Seq), StartTime: firstTime, Metadata: `{}`}
		if err := s.Commit(t.Context(), at, &row.Batch{Through: through, Observations: []row.Observation{o}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := queryInt(t, conn, `SELECT count(*) FROM pg_indexes WHERE indexname = 'observations_waiting'`); n != 1 {
		t.Error("the index was not created again")
	}
	if _, err := conn.Exec(t.Context(), `ALTER TABLE tailrace.gaps ALTER COLUMN detail TYPE varchar(10)`); err != nil {
		t.Fatal(err)
	}
	_, err := s.Begin(t.Context(), 1)
	if err == nil || !strings.Contains(err.Error(), "column detail has type character varying(10), want text") {
		t.Errorf("Begin returned %v", err)
	}
}
