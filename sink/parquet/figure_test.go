package parquet

import (
	"flag"
	"testing"
	"time"

	"github.com/tailrace/tailrace/sink/row"
)

var figure = flag.Bool("figure", false, "measure a query over the files of a day, before and after they are merged")

// TestFigure measures a query over a day of 8 partitions with a file of events a minute, before and after they are merged.
func TestFigure(t *testing.T) {
	if !*figure {
		return
	}
	const partitions, minutes, perFile = 8, 1440, 20
	path := memoryDir(t)
	c := newClock()
	s := c.store(newDirectory(t, path))
	if _, err := s.Begin(t.Context(), partitions); err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		var at row.Position
		at.Partition = p
		for m := range minutes + 1 {
			b := &row.Batch{Through: log1.position(0)}
			b.Through.Partition, b.Through.Seq = p, at.Seq+perFile
			b.Through.StoredAt = firstDay.Add(time.Duration(m) * time.Minute)
			for i := range int64(perFile) {
				e := row.Event{Place: row.Place{StreamEpoch: "history1", Partition: int32(p), Seq: int64(at.Seq) + i + 1, StoredAt: b.Through.StoredAt}, Type: "step_end", Time: b.Through.StoredAt}
				e.Tenant, e.Root, e.Session, e.Ordinal, e.Body = "acme", rootOf(e.Seq), rootOf(e.Seq), e.Seq, `{"usage":{"inputTokens":100}}`
				b.Events = append(b.Events, e)
			}
			if err := s.Commit(t.Context(), at, b); err != nil {
				t.Fatal(err)
			}
			at = b.Through
		}
	}
	db := openLake(t, path)
	measure := func(what string) {
		for _, query := range []string{"select count(*) as n, max(ordinal) as o from events", "select type, count(*) as n from events_current where root = 'root-1' group by type"} {
			for range 2 {
				began := time.Now()
				rows := db.Query(query)
				t.Logf("%s: %v, %d rows, %s: %s", what, time.Since(began).Round(time.Millisecond), len(rows), query, *rows[0]["n"])
			}
		}
	}
	measure("before")
	began := time.Now()
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("merged in %v", time.Since(began).Round(time.Millisecond))
	measure("while both exist")
	if err := c.maintain(t.Context(), s, time.Time{}); err != nil {
		t.Fatal(err)
	}
	files, err := s.files(t.Context(), tableEvents)
	if err != nil {
		t.Fatal(err)
	}
	measure("after")
	t.Logf("%d files", len(files))
}
