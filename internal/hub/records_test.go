package hub_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// Follow returns the records of the log with all of their fields, those of a sub-agent too, beyond the end of a run; without one, it returns at each tick.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{})
		records, err := h.Follow(t.Context(), aRoot, chunk.Position{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer records.Close()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		if got, err := records.Next(t.Context(), tick.C); err != nil || len(got) > 0 {
			t.Fatalf("%v, %v: want none at the tick", got, err)
		}
		child := aRoot.Child("kid")
		for _, s := range []chunk.Session{aRoot, child, aRoot, aRoot} {
			log.Append(s, chunk.TypeTextDelta, `"delta":"a\n\u0000b"`)
			log.Append(s, chunk.TypeStreamEnd, `"streamId":"x"`)
		}
		want := append(log.Session(aRoot), log.Session(child)...)
		bySeq := map[chunk.Seq]chunk.Record{}
		for _, rec := range want {
			bySeq[rec.Seq] = rec
		}
		for last := chunk.Seq(0); len(bySeq) > 0; {
			got, err := records.Next(t.Context(), tick.C)
			if err != nil || len(got) == 0 {
				t.Fatalf("%v, %v; want %d records more", got, err, len(bySeq))
			}
			for _, rec := range got {
				w := bySeq[rec.Seq]
				if rec.Seq <= last || rec.Session != w.Session || rec.Epoch != w.Epoch || rec.Ordinal != w.Ordinal || rec.Type != w.Type ||
					!bytes.Equal(rec.Data, w.Data) || rec.StoredAt.UnixMilli() != w.StoredAt.UnixMilli() {
					t.Errorf("got %+v, want %+v", rec, w)
				}
				last = rec.Seq
				delete(bySeq, rec.Seq)
			}
		}
	})
}
