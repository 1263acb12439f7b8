package observe_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/price"
	"github.com/tailrace/tailrace/sink/row"
)

// The rows that count have the states, times, counts and sums of the reference.
func TestRowsAreThoseOfTheReference(t *testing.T) {
	prices := readPrices(t)
	rapid.Check(t, func(t *rapid.T) {
		log := logs(sinktest.Config{Cleanups: true, Hostile: true, Clocks: true, Deleted: true}).Draw(t, "log")
		compareReference(t, log, rowsOf(observe.Config{Price: prices.Cost}, log), false)
	})
}

// The same holds if another Folder continues after a record, when the log has already deleted what some later cleanups remove.
func TestRowsOfTwoFoldersAreThoseOfTheReference(t *testing.T) {
	prices := readPrices(t)
	rapid.Check(t, func(t *rapid.T) {
		log := logs(sinktest.Config{Cleanups: true, Hostile: true, Fenced: true, Clocks: true, Deleted: true}).Draw(t, "log")
		var cleanups []int
		for i := range log {
			if i > 0 && len(sinktest.RemovedBy(log, i)) > 0 {
				cleanups = append(cleanups, i)
			}
		}
		deleted := rapid.SampledFrom(append(cleanups, len(log))).Draw(t, "cleanup") // the log has deleted what the cleanups before this one remove
		cut := deleted - rapid.IntRange(0, deleted-1).Draw(t, "before it")
		cfg := observe.Config{Price: prices.Cost}
		b := rowsOf(cfg, log[:cut])
		left := append(sinktest.Remaining(log[:deleted]), log[deleted:]...)
		if deleted < len(log) { // and a part of what this one removes
			for _, removed := range sinktest.RemovedBy(log, deleted) {
				if rapid.Bool().Draw(t, "deleted") {
					left = slices.DeleteFunc(left, func(rec chunk.Record) bool { return rec.Seq == removed.Seq })
				}
			}
		}
		cfg.Position = position
		second := reader{Folder: observe.New(cfg), log: left}
		for i, rec := range left {
			if rec.Seq > log[cut-1].Seq {
				second.append(&b, i)
			}
		}
		compareReference(t, log, b, true)
	})
}

func readPrices(t *testing.T) *price.List {
	t.Helper()
	prices, err := price.Read([]byte(sinktest.SomePrices.List()))
	if err != nil {
		t.Fatal(err)
	}
	return prices
}

// compareReference leaves out the waits of calls that were removed, see TestRowsOfTheRemainingLog. With deleted, the call was perhaps deleted before the cleanup was read: then
// nothing ends a wait that began in a record that stays, such as stream_paused.
func compareReference(t *rapid.T, log sinktest.Log, b row.Batch, deleted bool) {
	t.Helper()
	want := sinktest.Reference(sinktest.Remaining(log), sinktest.SomePrices)
	got := map[string]sinktest.Row{}
	for _, o := range current(b) {
		r := sinktest.RowOf(o)
		if !r.HasRow() {
			continue
		}
		key := sinktest.Key(o.Tenant, o.Root, o.Session, o.Kind, o.FirstSeq, o.ToolCallID)
		_, wanted := want[key]
		if wanted || o.Kind != row.Approval && o.Kind != row.ClientTool || o.Status == row.Waiting && !deleted {
			got[key] = r.Stable()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s\n%s", diff, log)
	}
}
