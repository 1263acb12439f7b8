package hub_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// TestLiveRecordOfLaterRun checks that a record of the feed is no gap while the only client has read no further than the run before: pages of 4 KiB of a history of
// 1,000 records.
func TestLiveRecordOfLaterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		log.Append(aRoot, chunk.TypeRunStarted, "")
		for n := range 998 {
			log.Append(aRoot, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"%040d"`, n))
		}
		log.Append(aRoot, chunk.TypeStreamEnd, "")
		log.Takeover(aRoot)
		log.Append(aRoot, chunk.TypeRunStarted, "")
		h := start(t, log, log, hub.Config{PageBytes: 4 << 10})
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		read := func() int {
			batch, err := cur.Next(t.Context(), time.After(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			return batch.Records
		}
		all := read()
		log.Append(aRoot, chunk.TypeTextDelta, "")
		synctest.Wait()
		for n := read(); n > 0; n = read() {
			all += n
		}
		if gaps := h.Stats().Gaps; gaps != 0 || all != 1002 {
			t.Errorf("%d gaps and %d records, want none and 1002", gaps, all)
		}
	})
}
