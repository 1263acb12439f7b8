package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

// recordsOfBatch is how many records of the log a batch of the benchmark is of. A tenth of them are rows of events, and a fiftieth rows of observations.
const recordsOfBatch = 20_000

func benchBatch(number int) *row.Batch {
	first := int64(number) * recordsOfBatch
	b := &row.Batch{Through: positionAt(first + recordsOfBatch)}
	for seq := first + 1; seq <= first+recordsOfBatch; seq += 10 {
		place := placeAt(seq, firstTime)
		place.Root = fmt.Sprint("session", seq/1000)
		place.Session = place.Root
		b.Events = append(b.Events, row.Event{Place: place, Type: "tool_end", Time: firstTime, Ordinal: seq, RunID: "run", TurnID: "run", Body: benchJSON})
		if seq%50 == 1 {
			b.Observations = append(b.Observations, row.Observation{
				Place: place, ID: fmt.Sprintf("%032d", seq), Kind: row.Tool, Status: row.Completed, StartTime: firstTime, EndTime: &firstTime, TurnID: "run", Input: benchJSON, Output: benchJSON,
			})
		}
	}
	return b
}

var benchJSON = quoted(string(make([]byte, 50)))

// BenchmarkCommit commits batches. COPY alone has the same rows in tables with the same indexes, and is the fastest that a commit could be.
func BenchmarkCommit(b *testing.B) {
	b.Run("commit", func(b *testing.B) {
		s := openStore(b, pgtest.Database(b))
		at := begin(b, s)
		number := 0
		for b.Loop() {
			batch := benchBatch(number)
			if err := s.Commit(context.Background(), at, batch); err != nil {
				b.Fatal(err)
			}
			at = batch.Through
			number++
		}
		reportRate(b)
	})
	b.Run("copy", func(b *testing.B) {
		url := pgtest.Database(b)
		s := openStore(b, url)
		begin(b, s)
		if err := s.createMonths(context.Background(), benchBatch(0).Events); err != nil {
			b.Fatal(err)
		}
		conn := connect(b, url)
		number := 0
		for b.Loop() {
			batch := benchBatch(number)
			err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
				if err := copyRows(context.Background(), tx, pgx.Identifier{"tailrace", "events"}, events, batch.Events); err != nil {
					return err
				}
				return copyRows(context.Background(), tx, pgx.Identifier{"tailrace", "observations"}, observations, batch.Observations)
			})
			if err != nil {
				b.Fatal(err)
			}
			number++
		}
		reportRate(b)
	})
}

func reportRate(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.N)*recordsOfBatch/b.Elapsed().Seconds(), "records/s")
}
