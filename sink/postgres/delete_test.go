package postgres

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

// TestDelete compares the sessions of random logs, of which a part was lost, with those of their rows, and deletes them one by one.
func TestDelete(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	s := openStore(t, url)
	none := func(row.Place) error { return errors.New("a session") }
	if err := s.Sessions(t.Context(), row.Selection{}, none); err != nil { // there are no tables
		t.Fatal(err)
	}
	begin(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		_, err := conn.Exec(rt.Context(), `TRUNCATE tailrace.events, tailrace.observations, tailrace.gaps, tailrace.sessions, tailrace.positions, tailrace.positions_log`)
		if err != nil {
			rt.Fatal(err)
		}
		at := begin(t, s)
		var records []record
		for generation := range rapid.IntRange(1, 2).Draw(rt, "generations") {
			part := drawLog(rt, at, generation+1, rapid.IntRange(1, 25).Draw(rt, "records"))
			if err := s.Commit(rt.Context(), at, batchOf(part)); err != nil {
				rt.Fatal(err)
			}
			records, at = append(records, part...), part[len(part)-1].at
		}
		m := newModel()
		m.apply(records)
		var lost []row.Gap
		if rapid.Bool().Draw(rt, "lost") {
			from := int64(records[rapid.IntRange(0, len(records)-1).Draw(rt, "first")].at.Seq)
			lost = []row.Gap{{Place: row.Place{StreamEpoch: "history1", Seq: from, StoredAt: firstTime}, Reason: row.Recreated, FromSeq: &from, ToSeq: new(int64(math.MaxInt64))}}
			if err := s.Delete(rt.Context(), lost); err != nil {
				rt.Fatal(err)
			}
		}
		since := rapid.SampledFrom([]time.Time{{}, firstTime, firstTime.Add(9 * 24 * time.Hour)}).Draw(rt, "since")
		type key struct{ tenant, session string }
		want := map[key]row.Place{}
		add := func(p row.Place) {
			k := key{p.Tenant, p.Root + "/" + p.Session}
			for _, g := range m.gaps {
				if g.Covers(&p) { // of another history, whose record has the time of the deletion
					return
				}
			}
			if known := want[k]; (len(lost) == 0 || !lost[0].Loses(&p)) && !p.StoredAt.Before(since) && (known.Root == "" || p.IsAfter(&known)) {
				want[k] = p
			}
		}
		for _, e := range m.events {
			add(e.Place)
		}
		for _, o := range m.observations {
			add(o.Place)
		}
		read := func() map[key]row.Place {
			got := map[key]row.Place{}
			if err := s.Sessions(rt.Context(), row.Selection{Since: since}, func(p row.Place) error { got[key{p.Tenant, p.Root + "/" + p.Session}] = p; return nil }); err != nil {
				rt.Fatal(err)
			}
			return got
		}
		compare(rt, "sessions", want, read())
		deleted := 0
		for k, p := range want {
			if deleted++; deleted > 2 {
				break
			}
			one := 0
			if err := s.Sessions(rt.Context(), row.Selection{Since: since, Tenant: p.Tenant, Root: p.Root}, func(row.Place) error { one++; return nil }); err != nil || one == 0 {
				rt.Fatal("sessions of a root: ", one, err)
			}
			g := row.DeletionThrough(p)
			for range 2 {
				if err := s.Delete(rt.Context(), []row.Gap{g}); err != nil {
					rt.Fatal(err)
				}
			}
			for other, q := range want {
				if other == k || g.Covers(&q) {
					delete(want, other)
				}
			}
			compare(rt, "sessions after a deletion", want, read())
			checkSessions(rt.Context(), rt, conn)
		}
		positions, err := s.Positions(rt.Context(), 2)
		if err != nil {
			rt.Fatal(err)
		}
		compare(rt, "positions", []row.Position{at, {Partition: 1}}, positions)
	})
}

// TestDeleteBesideCommits deletes sessions from another store while one commits: neither waits for the lease or gets a conflict, and the table sessions is right.
func TestDeleteBesideCommits(t *testing.T) {
	url := pgtest.Database(t)
	writer, other := openStore(t, url), openStore(t, url)
	at := begin(t, writer)
	done := make(chan error, 1)
	const batches = 40
	go func() {
		for seq := range int64(batches) {
			place := placeAt(seq+1, firstTime.Add(time.Duration(seq)*time.Second))
			b := &row.Batch{Through: positionAt(seq + 1), Observations: []row.Observation{{Place: place, ID: string(rune('A' + seq)), Kind: row.Run, StartTime: place.StoredAt}}}
			if err := writer.Commit(t.Context(), at, b); err != nil {
				done <- err
				return
			}
			at = b.Through
		}
		done <- nil
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
		var gaps []row.Gap
		err := other.Sessions(t.Context(), row.Selection{}, func(p row.Place) error { gaps = append(gaps, row.DeletionThrough(p)); return nil })
		if err == nil {
			err = other.Delete(t.Context(), gaps)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	conn := connect(t, url)
	checkSessions(t.Context(), t, conn)
	if n := queryInt(t, conn, `SELECT count(*) FROM tailrace.observations`); n > 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestBeforeNamesGenerations finds an earlier generation of few commits after very many of the next one.
func TestBeforeNamesGenerations(t *testing.T) {
	url := pgtest.Database(t)
	s, conn := openStore(t, url), connect(t, url)
	at := begin(t, s)
	for n, through := range []row.Position{positionAt(1), positionAt(2), positionAt(3)} {
		if n > 0 {
			through.Generation, through.History = 2, "history2"
		}
		if n == 2 {
			if _, err := conn.Exec(t.Context(), `UPDATE tailrace.positions SET commits = 4096`); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Commit(t.Context(), at, &row.Batch{Through: through}); err != nil {
			t.Fatal(err)
		}
		at = through
	}
	at.Seq = 1
	before, found, err := s.Before(t.Context(), at)
	if err != nil || !found {
		t.Fatal("no earlier position: ", err)
	}
	compare(t, "position", positionAt(1), before)
}
