package projector_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// counting is a Log that counts its replays and the records of them.
type counting struct {
	*storetest.Log

	replays, records int
}

func (c *counting) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return c.count(c.Log.Replay(ctx, of))
}

func (c *counting) count(records iter.Seq2[chunk.Record, error]) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		c.replays++
		for rec, err := range records {
			c.records++
			if !yield(rec, err) {
				return
			}
		}
	}
}

// crashed writes a session of n turns, each of which ends with a crash in its second step or later. The truncated record of
// each removes all records after a first step, also those of turns that an earlier truncated record did not cover.
func crashed(tb testing.TB, log *storetest.Log, turns int, random *rand.Rand) {
	tb.Helper()
	for turn := range turns {
		log.Append(tb, s1, 0, chunk.RunStarted{RunID: fmt.Sprint("r", turn), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "next"}}})
		steps := int64(2 + random.IntN(2))
		for step := int64(1); step <= steps; step++ {
			log.Append(tb, s1, step, chunk.StepStart{})
			for range 1 + random.IntN(4) {
				log.Append(tb, s1, step, chunk.TextDelta{Delta: fmt.Sprint(turn, " ")})
			}
			log.Append(tb, s1, step, chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "3", OutputTokens: "4"}})
		}
		if random.IntN(5) > 0 {
			log.Append(tb, s1, 0, chunk.RunStarted{RunID: fmt.Sprint("r", turn), Epoch: 1, Mode: "takeover"})
			log.AppendTruncation(tb, s1, 1+random.Int64N(steps))
		}
	}
}

// TestManyTruncationsWithoutDeletes reads a log after many cleanups that crashed between the truncated record and the deletes.
// The number of replays does not depend on the number of cleanups, and the result equals the fold after the deletes.
func TestManyTruncationsWithoutDeletes(t *testing.T) {
	for _, turns := range []int{10, 40, 160} {
		log := &counting{Log: storetest.NewLog()}
		crashed(t, log.Log, turns, rand.New(rand.NewPCG(uint64(turns), 1)))
		size := len(log.Records(s1))
		got := storetest.Fold(t, log, s1)
		t.Logf("%d turns, %d records: %d replays, %d records read", turns, size, log.replays, log.records)
		if log.replays > 8 || log.records > 4*size {
			t.Errorf("%d replays of a log of %d records, %d records read", log.replays, size, log.records)
		}
		log.DeleteRemoved(s1)
		storetest.Equal(t, "after the deletes", got, storetest.Fold(t, log, s1))
	}
}

// TestTruncationsFromAnyHead checks the same result from every position of a log, with a head that was stored there, and with
// some of the deletes done.
func TestTruncationsFromAnyHead(t *testing.T) {
	seed := seedtest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 2))
	for range 40 {
		log, store := storetest.NewLog(), storetest.NewMemory()
		for range 1 + random.IntN(3) {
			crashed(t, log, 1+random.IntN(6), random)
			stored(t, store, log, s1)
			if random.IntN(3) == 0 {
				log.DeleteRemoved(s1)
			}
		}
		crashed(t, log, 1+random.IntN(12), random)
		got, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		log.DeleteRemoved(s1)
		storetest.Equal(t, fmt.Sprint("seed ", seed), got, storetest.Fold(t, log, s1))
	}
}

// TestManyTruncationsBeyondTheLog reads a log with many truncated records that remove expired records. The fold tries to roll
// back to them only once.
func TestManyTruncationsBeyondTheLog(t *testing.T) {
	const turns = 600
	log, store := &counting{Log: storetest.NewLog()}, storetest.NewMemory()
	var written []chunk.Record
	for turn := range turns {
		log.Append(t, s1, 0, chunk.RunStarted{RunID: fmt.Sprint("r", turn), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "next"}}})
		written = append(written, log.Append(t, s1, 1, chunk.TextDelta{Delta: "x"}))
	}
	stored(t, store, log.Log, s1)
	log.Expire(s1, 1)
	for _, rec := range written {
		removed := []chunk.OrdinalRange{{First: int64(rec.Ordinal), Last: int64(rec.Ordinal)}}
		log.Append(t, s1, 0, chunk.Truncated{AtSequence: int64(log.Tip()), FromSequence: 1, Removed: removed})
	}
	snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	if snap.Position.Ordinal != 3*turns || snap.Faults.Skipped < turns-1 {
		t.Errorf("at %d, %d skipped; want %d, and a fault for each turn but the last", snap.Position.Ordinal, snap.Faults.Skipped, 3*turns)
	}
	if size := 3 * turns; log.replays > 8 || log.records > 4*size {
		t.Errorf("%d replays of a log of %d records, %d records read", log.replays, size, log.records)
	}
}
