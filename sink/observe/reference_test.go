package observe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/price"
	"github.com/tailrace/tailrace/sink/row"
)

// The rows that count have the states, times, counts and sums of the reference.
func TestRowsAreThoseOfTheReference(t *testing.T) {
	prices, err := price.Read([]byte(sinktest.SomePrices.List()))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		log := logs(sinktest.Config{Cleanups: true, Hostile: true, Clocks: true, Deleted: true}).Draw(t, "log")
		want := sinktest.Reference(sinktest.Remaining(log), sinktest.SomePrices)
		got := map[string]sinktest.Row{}
		for _, o := range current(rowsOf(observe.Config{Price: prices.Cost}, log)) {
			r := sinktest.RowOf(o)
			if !r.HasRow() {
				continue
			}
			key := sinktest.Key(o.Tenant, o.Root, o.Session, o.Kind, o.FirstSeq, o.ToolCallID)
			_, wanted := want[key]
			if wanted || o.Kind != row.Approval && o.Kind != row.ClientTool || o.Status == row.Waiting { // else of a call that was removed, see TestRowsOfTheRemainingLog
				got[key] = r.Stable()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s", diff, log)
		}
	})
}
